"""Find what an unknown name of a configuration group was meant to be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from evalflow.config.schema import ENDINGS
from evalflow.config.strict import callable_name
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Meant, Problem, command, quoted, unknown_name
from evalflow.extras import pip_install
from evalflow.paths import GROUPS
from evalflow.values.jsonvalues import as_map

_FEW = 30  # maximum number of names that a hint lists
_PATH = re.compile(r"[/\\]|\.\w{2,7}$")
"""Matches a path or a file, where a name is expected."""
_YAML = (".yaml", ".yml")
_LONGEST = 200  # characters; no file has a longer name
_ADDRESS = re.compile(r"https?://")
_FUNCTION = "FUNCTION"
_PROGRAM = re.compile(r"[\w./-]+\.py(?::[\w.]+)?|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""Matches Python code in place of a target: a file, perhaps with a callable of it, or `package.module:callable`."""
ELSEWHERE: Mapping[str, str] = {
    "agent_goal_accuracy": "goal_accuracy",
    "answer_faithfulness": "faithfulness",
    "answer_relevance": "relevance",
    "context_faithfulness": "faithfulness",
    "contextual_precision": "context_precision",
    "contextual_recall": "context_recall",
    "contextual_relevancy": "context_relevance",
    "correctness": "factual_correctness",
    "document_relevance": "context_relevance",
    "factuality": "factual_correctness",
    "groundedness": "faithfulness",
    "non_advice": "unsafe_advice",
    "qa_correctness": "factual_correctness",
    "response_completeness": "answer_completeness",
    "response_groundedness": "faithfulness",
    "response_relevancy": "answer_relevancy",
    "retrieval_relevance": "context_relevance",
    "summarization": "summarisation",
    "tool_call_accuracy": "tool_correctness",
    "tool_call_f1": "tool_f1",
    "tool_selection": "tool_choice",
    "turn_contextual_relevancy": "turn_context_relevancy",
    "turn_relevancy": "turn_relevance",
    "user_friction": "user_frustration",
}
"""Our metrics by their names in other tools, since the nearest spelling would suggest a different metric."""
_MAKERS = {"gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic", "gemini": "gemini"}
"""The judges and targets of models, by how the models' names begin."""


def no_option(group: str, name: str, known: Collection[str], folders: Sequence[Path]) -> Problem:
    """Return the problem of a chosen name that is not known in its group; `folders` are those of YAML."""
    if group == "hydra/sweeper":
        hint = f"a plugin of Hydra brings others: {pip_install(f'hydra-{name}-sweeper')}"
        return Problem(f"there is no sweeper {name!r} here", f"{group}={name}", hint)
    public = [one for one in known if not one.startswith("_")]
    what = f"there is no {group} {name!r}" if name else f"{group} has no value"
    problem = unknown_name(what, f"{group}={name}", name, public, before=f"{group}=")
    meant = ELSEWHERE.get(name.lower().replace("-", "_")) if group == "metric" else None
    if meant in public:
        return replace(problem, hint=f"what other tools call so is {meant!r}", meant=_chosen(group, name, meant))
    makers = (maker for begins, maker in _MAKERS.items() if name.lower().startswith(begins) and maker in public)
    if maker := next(makers, None):  # a model's name instead of its judge's or target's
        chosen = (f"{group}={maker}", f"{group}.model={name}")
        hint = f"a model is named by a key: {' '.join(chosen)}"
        return replace(problem, hint=hint, meant=Meant((f"{group}={name}",), chosen))
    if group == "target" and (own := _own_program(name)):
        meant = None if own[1].endswith(_FUNCTION) else Meant((f"{group}={name}",), own)
        return replace(problem, hint=f"your own program is named by a key: {quoted(*own)}", meant=meant)
    if _PATH.search(name):
        return _of_path(group, name, public, folders) or problem
    if len(public) > _FEW and not problem.meant:
        return replace(problem, hint=f"{command('list', group)} shows all {len(public)}")
    return problem


def no_verb(what: str, word: str, folders: Sequence[Path]) -> Problem | None:
    """Return the problem of a first word that names an option or a file of cases instead of a verb; None otherwise.

    An experiment alone is a whole run; another option of the same name counts only without one.
    """
    if len(word) > _LONGEST:
        return None
    path = Path(word)
    is_file = path.suffix in _YAML
    for group in (path.parent.name,) if is_file else ("experiment", "dataset", "metric"):
        name = path.stem if is_file else word
        if group in GROUPS and any((folder / group / f"{name}.yaml").is_file() for folder in folders):
            chosen = f"{group}={name}"
            return Problem(what, "command line", f"write {chosen}", meant=Meant((word,), (chosen,)))
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None
    known = {file.stem for folder in folders for file in folder.glob("dataset/*.yaml")}
    problem = _of_path("dataset", word, known, folders)
    if problem is None or problem.meant is None:
        return problem
    if problem.meant.wrong is None:
        return replace(problem, what=what, where="command line")
    return replace(problem, what=what, where="command line", hint=f"write {problem.meant.right[0]}", meant=None)


def _own_program(name: str) -> tuple[str, ...] | None:
    """The overrides of a target that is a service or Python code, of its address or its name."""
    if _ADDRESS.match(name):
        return "target=http", f"target.url={name}"
    call = callable_name(f"{name}:{_FUNCTION}" if name.endswith(".py") else name) if _PROGRAM.fullmatch(name) else None
    return ("target=python", f"target.call={call}") if call else None


def _chosen(group: str, given: str, name: str) -> Meant:
    return Meant((f"{group}={given}",), (f"{group}={name}",))


def _of_path(group: str, given: str, known: Collection[str], folders: Sequence[Path]) -> Problem | None:
    """Return the problem of a path instead of a name: of the option's own file, or of a dataset's data."""
    path = Path(given)
    what = f"a {group} is chosen by its name, not by a file"
    if path.suffix in _YAML and path.stem in known:
        hint = f"write {group}={path.stem}"
        return Problem(what, f"{group}={given}", hint, meant=_chosen(group, given, path.stem))
    if group != "dataset" or path.suffix.lower() not in ENDINGS:
        return None
    files = [file for folder in folders for file in folder.glob(f"{group}/*.yaml") if file.stem in known]
    if reader := next((file.stem for file in files if _reads(file, path)), None):
        hint = f"{reader!r} reads this file"
        return Problem(what, f"dataset={given}", hint, meant=_chosen(group, given, reader))
    if not path.is_file():
        beside = [str(one) for one in path.parent.glob("*") if one.suffix.lower() in ENDINGS]
        return unknown_name("there is no such file", f"dataset={given}", given, beside, before="dataset=")
    made = new_dataset_of(given, known)
    hint = f"make a dataset of the file, and choose it then with dataset={made[2]}"
    return Problem(what, f"dataset={given}", hint, meant=Meant(None, made))


def new_dataset_of(file: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """The words that make a dataset of a file, by a name that is not known.

    Example:
        >>> new_dataset_of("exports/March 2026.csv")
        ('new', 'dataset', 'march_2026', '--path', 'exports/March 2026.csv')
    """
    name = re.sub(r"\W+", "_", Path(file).stem.lower(), flags=re.ASCII).strip("_")
    name = name if name[:1].isalpha() and name not in known else f"my_{name}".rstrip("_")
    return "new", "dataset", name, "--path", file


def _reads(file: Path, data: Path) -> bool:
    """Whether a dataset's file has this file as its data; a file that is not valid has none."""
    try:
        read = as_map(safe_yaml(file.read_text(encoding="utf-8"))).get("path")
    except (OSError, ValueError, yaml.YAMLError):
        return False
    roots = (Path(), file.parent.parent.parent)
    return isinstance(read, str) and data.exists() and any((root / read).resolve() == data.resolve() for root in roots)

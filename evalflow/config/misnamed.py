"""Find what an unknown name of a configuration group was meant to be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from evalflow.config.schema import ENDINGS
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Meant, Problem, command, unknown_name
from evalflow.extras import pip_install
from evalflow.values.jsonvalues import as_map

_FEW = 30  # maximum number of names that a hint lists
_PATH = re.compile(r"[/\\]|\.\w{2,7}$")
"""Matches a path or a file, where a name is expected."""
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
    if _PATH.search(name):
        return _of_path(group, name, public, folders) or problem
    if len(public) > _FEW and not problem.meant:
        return replace(problem, hint=f"{command('list', group)} shows all {len(public)}")
    return problem


def _chosen(group: str, given: str, name: str) -> Meant:
    return Meant((f"{group}={given}",), (f"{group}={name}",))


def _of_path(group: str, given: str, known: Collection[str], folders: Sequence[Path]) -> Problem | None:
    """Return the problem of a path instead of a name: of the option's own file, or of a dataset's data."""
    path = Path(given)
    what = f"a {group} is chosen by its name, not by a file"
    if path.suffix in (".yaml", ".yml") and path.stem in known:
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
    name = re.sub(r"\W+", "_", path.stem.lower(), flags=re.ASCII).strip("_")
    name = name if name[:1].isalpha() and name not in known else f"my_{name}".rstrip("_")
    made = ("new", "dataset", name, "--path", given)
    hint = f"make a dataset of the file, and choose it then with dataset={name}"
    return Problem(what, f"dataset={given}", hint, meant=Meant(None, made))


def _reads(file: Path, data: Path) -> bool:
    """Whether a dataset's file has this file as its data; a file that is not valid has none."""
    try:
        read = as_map(safe_yaml(file.read_text(encoding="utf-8"))).get("path")
    except (OSError, ValueError, yaml.YAMLError):
        return False
    roots = (Path(), file.parent.parent.parent)
    return isinstance(read, str) and data.exists() and any((root / read).resolve() == data.resolve() for root in roots)

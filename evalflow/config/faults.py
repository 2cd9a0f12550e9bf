"""Turn errors of Hydra, OmegaConf and YAML, including overrides of unknown keys, into problems."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import (
    GrammarParseError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from evalflow.config.explain import COMMAND_LINE, unknown_key
from evalflow.config.keys_elsewhere import key_elsewhere
from evalflow.config.schema import ENDINGS
from evalflow.config.validate import Composed
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import InfrastructureError, Meant, Problem, UserError, command, nearest, quoted, unknown_name
from evalflow.extras import pip_install
from evalflow.paths import GROUPS, shown
from evalflow.values.jsonvalues import as_map, is_list, is_mapping

_EXAMPLES = {
    "argv": "[python3,bot.py]",
    "base_url": "http://127.0.0.1:8000/v1",
    "call": "my_bot:ask",
    "url": "http://127.0.0.1:8000/ask",
}
"""Example values by key name, for hints."""


class AbsentKeyError(UserError):
    """The command line overrides a key that no file has."""

    def __init__(self, key: str) -> None:
        self.key = key
        hint = "`--cfg job` shows every key; one that its file only leaves out takes a +"
        super().__init__(Problem(f"there is no key {key} to change", COMMAND_LINE, hint))


@contextmanager
def as_user_errors(overrides: Sequence[str], folders: Sequence[Path] = ()) -> Generator[None]:
    """Turn errors raised in the block into a UserError; `overrides` are the command line's, `folders` those of YAML."""
    try:
        yield
    except MissingMandatoryValue as error:
        raise UserError(no_value(str(error.full_key or ""))) from None
    except yaml.YAMLError as error:
        raise UserError(invalid_yaml(error)) from None
    except RecursionError:
        what = "a file of conf/ starts from itself, directly or through others"
        raise UserError(Problem(what, "defaults", "remove one of the lines under `defaults`")) from None
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # metric=null is a ValueError
        raise _user_error(error, overrides, folders) from None
    except BrokenPipeError:
        raise  # the output pipe was closed, as by `--cfg job | head`
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise InfrastructureError(
                f"nothing can be written: {error.strerror}", "make room, then start again"
            ) from None
        what = f"cannot write there: {error.strerror}"
        raise UserError(
            Problem(what, str(error.filename or ""), "run in another folder, or set hydra.run.dir")
        ) from None


def invalid_yaml(error: yaml.YAMLError, file: Path | None = None) -> Problem:
    """Return the problem of a file that is not YAML; `file` is used if the error does not name one."""
    mark = getattr(error, "problem_mark", None)
    what = f"this is not valid YAML: {getattr(error, 'problem', None) or error}"
    hint = "quote values that contain any of : { } [ ] # & * ! | > % @"
    if "unknown escape character" in what:
        hint = "in double quotes a backslash is written \\\\; in single quotes as it is"
    return Problem(what, f"{file or mark.name}:{mark.line + 1}" if mark else str(file or ""), hint)


def no_value(key: str) -> Problem:
    """Return the problem of a missing mandatory key."""
    example = _EXAMPLES.get(key.rpartition(".")[2])
    hint = f"add {key}=..." + (f", such as {quoted(f'{key}={example}')}" if example else "")
    return Problem(f"{key} has no value", hint=hint, key=key)


def _user_error(error: Exception, overrides: Sequence[str], folders: Sequence[Path]) -> UserError:
    text = "\n".join(line.rstrip() for line in str(error).strip().splitlines() if line.strip())
    if cause := error.__cause__:
        text = f"{text}\n{str(cause).strip().splitlines()[0]}"
    if absent := re.search(r"Could not override '([^']+)'\.\nTo append", text):
        return AbsentKeyError(absent[1])
    if "Config group override must be" in text:
        given = ", ".join(o for o in overrides if o.endswith("=null")) or "null"
        return UserError(Problem(f"a group is chosen by a name or a list of names, not by {given}", COMMAND_LINE))
    if variable := re.search(r"Environment variable '([^']+)' not found", text):
        what = f"the environment variable {variable[1]} is not set"
        return UserError(Problem(what, str(getattr(error, "full_key", "") or ""), "set it, or write it into .env"))
    if wrong := interpolation_problem(error, overrides, folders):
        return UserError(wrong)
    if isinstance(error, OverrideParseException):
        return UserError(Problem(f"cannot read {error.override!r}", COMMAND_LINE, _quoting(error.override or "")))
    if wrong := _no_options(overrides, folders) or _no_base(text, folders):
        return UserError(wrong)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return UserError(no_option(group, name, error.options, folders))
    if several := re.search(r"Ambiguous value for argument '([^']*)'", text):
        return UserError(_several(several[1]))
    if "does not support sweep type" in text:
        return UserError(_unlisted(overrides))
    if nameless := next((one for one in overrides if one.startswith("=")), None):
        return UserError(Problem(f"cannot read {nameless!r}", COMMAND_LINE, "write KEY=VALUE"))
    return UserError(Problem(text, COMMAND_LINE if overrides else ""))


def _no_base(text: str, folders: Sequence[Path]) -> list[Problem]:
    """Return the problem of a file whose `defaults` name a missing file."""
    named = re.search(r"In '([^']+)': Could not load '(\w+)/([^']+)'", text)
    if named is None:
        return []
    base, group, name = named.groups()
    known = {file.stem for folder in folders for file in folder.glob(f"{group}/*.yaml")}
    files = [file for folder in folders if (file := folder / f"{base}.yaml").is_file()]
    what = f"it extends {group} {name!r}, which does not exist"
    return [unknown_name(what, f"{file}: defaults", name, known) for file in files[:1]]


def _no_options(overrides: Sequence[str], folders: Sequence[Path]) -> list[Problem]:
    """Return the problems of all chosen options that have no file."""
    found: dict[tuple[str, str], Problem] = {}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        group, value = str(override.key_or_group), override.value()
        files = [file for folder in folders if group.isalpha() for file in folder.glob(f"{group}/*.yaml")]
        known = {file.stem for file in files}
        for name in value if is_list(value) else [value]:
            if known and isinstance(name, str) and name not in known:
                found[group, name] = no_option(group, name, known, folders)
    return list(found.values())


def _several(override: str) -> Problem:
    """Return the problem of a value with commas when the run is not a sweep."""
    key, _, values = override.partition("=")
    hint = "one run for each takes -m; a text with a comma takes quotes of its own: 'KEY=\"A,B\"'"
    meant = Meant((), ("-m",)) if key in GROUPS else None
    if re.fullmatch(r"-?\d+,\d+", values):
        number = values.replace(",", "" if re.fullmatch(r"-?[1-9]\d{0,2},\d{3}", values) else ".")
        hint = f"write {key}={number}; one run for each value takes -m"
        return Problem(
            f"{override} has several values", COMMAND_LINE, hint, meant=Meant((override,), (f"{key}={number}",))
        )
    if key in ("dataset", "metric"):
        together = f"{key}=[{values}]"
        hint = f"together in one run: {quoted(together)}; one run for each: -m {override}"
        meant = Meant((override,), (together,))
    return Problem(f"{override} has several values", COMMAND_LINE, hint, meant=meant)


def _unlisted(overrides: Sequence[str]) -> list[Problem]:
    """Return the problem of values between two numbers, of which Hydra's own sweeper cannot choose."""
    hint = (
        "list the values, such as KEY=1,2 or KEY='range(1,4)'; a sweeper that optimises may choose: docs/experiments.md"
    )
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    between = [str(one.input_line) for one in parsed if one.is_interval_sweep()]
    return [Problem("a range needs a sweeper that optimises", word, hint) for word in between]


def _quoting(override: str) -> str:
    if key := re.search(r"[{,]\s*(['\"])([^'\"]+)\1\s*:", override):
        escaped = re.sub(r"([:=,(){}\[\] ])", r"\\\1", key[2])
        return f"a key in a map takes no quotes; what is special in it takes a backslash: {escaped}"
    if beyond := re.search(r"[{,]\s*([^\s:{},]*[^\x00-\x7f][^:{},]*):", override):
        return f"the key {beyond[1]} of a map has letters beyond a to z: write it in a file, as conf/local/default.yaml"
    quotes = "'KEY=\"VALUE\"', 'KEY=[\"A > B\"]'"
    return (
        f"write KEY=VALUE; close every bracket; a value with any of , = {{ }} [ ] ( ) takes quotes of its own: {quotes}"
    )


def problems_of_absent(
    error: AbsentKeyError,
    overrides: Sequence[str],
    compose: Callable[[Sequence[str]], Composed],
    check: Callable[[Composed], object],
) -> Sequence[Problem]:
    """Find the problems of overrides whose keys no file has, and all other validation problems.

    The keys are added anyway, since only the typed models know which keys are valid. `error` is that of the first key;
    `compose` composes other overrides and allows missing mandatory values; `check` validates.
    """
    keys: dict[str, str] = {}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        line, group = str(override.input_line), str(override.key_or_group)
        if override.is_sweep_override():
            choices = list(override.sweep_string_iterator())
            if group in ("judge", "target", "embedder", "simulator", "engine") and error.key.startswith(f"{group}."):
                return [_only_in_one_choice(error.key, group, choices)]
            line = f"{line.partition('=')[0]}={choices[0]}"
        keys[line] = group
    base, absent = _without_absent(keys, compose)
    if base is None or not absent:
        return error.problems  # in a sweep: the first job has all keys, but a later one does not
    misnamed = {line: _misnamed_part(line, keys[line], base.values) for line in absent}
    problems = [problem for problem in misnamed.values() if problem]
    possible = [line for line, problem in misnamed.items() if problem is None]
    # Do not also report as missing what a misspelt group was meant to choose.
    respelt = [_respelt(line, keys[line], base.values) for line in absent]
    meant = [line for line in respelt if line and line.partition("=")[0] in GROUPS]
    try:
        present = [line for line in keys if line not in absent]
        forced = compose([*present, *meant, *(f"++{line}" for line in possible)])
    except UserError as invalid:
        return [*problems, *invalid.problems]
    try:
        check(forced)
    except UserError as invalid:
        problems += invalid.problems
    unknown = {problem.what for problem in problems}
    misplaced = {problem.where for problem in problems}  # e.g. a field that cases do not have
    misplaced |= {problem.key for problem in problems if problem.hint}  # the hint says how to write it
    for line in possible:
        key = keys[line]
        parts = key.split(".")
        if key not in misplaced and unknown.isdisjoint(
            unknown_key(".".join(parts[:length])) for length in range(1, len(parts) + 1)
        ):
            hint = f"to add it, write a +: {quoted(f'+{line}')}"
            problems.append(
                Problem(f"{key} is not in its file", COMMAND_LINE, hint, meant=Meant((line,), (f"+{line}",)))
            )
    return problems


def _only_in_one_choice(key: str, group: str, choices: Sequence[str]) -> Problem:
    """Return a hint for a key that only some options of a sweep have: move it to the option's file."""
    name = choices[-1] if choices[-1] != "embedded" else choices[0]
    file = f"conf/{group}/my_{name}.yaml"
    swept = ",".join(f"my_{choice}" if choice == name else choice for choice in choices)
    inner = key.partition(".")[2]
    hint = (
        f"a key of one {group} alone stands in a file of its own; write {file} with the two lines\n"
        f"    defaults: [{name}, _self_]\n    {inner}: VALUE\n  and sweep over {group}={swept}"
    )
    return Problem(f"not every {group} of the sweep has the key {key}", COMMAND_LINE, hint)


def _without_absent(
    keys: Mapping[str, str], compose: Callable[[Sequence[str]], Composed]
) -> tuple[Composed | None, list[str]]:
    """Compose without the overrides of absent keys; also return those overrides."""
    absent: list[str] = []
    while True:
        try:
            return compose([line for line in keys if line not in absent]), absent
        except AbsentKeyError as error:
            more = [line for line, key in keys.items() if key == error.key and line not in absent]
            if not more:
                return None, absent
            absent += more


def _respelt(line: str, key: str, values: Mapping[str, object]) -> str | None:
    """Return an override with its misspelt first name corrected; None if the name is valid or nothing is similar."""
    root = key.partition(".")[0]
    is_known = root in values or bool(key_elsewhere(line, values))
    meant = None if is_known else nearest(root, sorted({*values, *GROUPS}))
    return meant and meant + line[len(root) :]


def _misnamed_part(line: str, key: str, values: Mapping[str, object]) -> Problem | None:
    root, *below = key.split(".")
    if root == "hydra":
        return Problem(unknown_key(key), COMMAND_LINE, "`--cfg hydra` shows Hydra's own keys")
    if root not in values and root not in ("dataset", "metric"):
        if problem := key_elsewhere(line, values):
            return problem
        problem = unknown_name(unknown_key(root), COMMAND_LINE, root, {*values, *GROUPS})
        meant = _respelt(line, key, values)
        return replace(problem, hint=f"did you mean {quoted(meant)}?") if meant else problem
    chosen = as_map(values.get(root))
    if root in ("dataset", "metric") and below and below[0] not in chosen:
        what = f"{key}: no {root} {below[0]!r} is chosen"
        if chosen:
            return unknown_name(what, COMMAND_LINE, below[0], chosen, before=f"{root}.")
        choice = f"{root}={below[0]}"
        return Problem(what, COMMAND_LINE, f"add {choice}", meant=Meant((), (choice,)))
    return None


LITERAL = r"write \${ for a literal ${ (\\${ in double quotes of YAML)"
_OPENING = re.compile(r"(?<!\\)(?:\\\\)*\$\{")
_WHOLE = ("experiment", "local")  # groups whose files set keys of the whole configuration


def interpolation_problem(error: Exception, overrides: Sequence[str], folders: Sequence[Path]) -> Problem | None:
    """Return the problem of a text with an invalid or unresolvable interpolation; None for other errors."""
    error = error.__cause__ if isinstance(error.__cause__, GrammarParseError) else error
    key = str(getattr(error, "full_key", "") or "")
    if isinstance(error, InterpolationKeyError):
        named = re.search(r"Interpolation key '([^']+)'", str(error))
        name = named[1] if named else "a key"
        if name.startswith("target.") and key.startswith("judge."):
            what = f"the judge is to be the target's own model, and the target has no {name.removeprefix('target.')}"
            hint = "choose a model as the target, such as target=openai generate=true, or another judge"
            return Problem(what, key, hint)
        what, hint = f"${{{name}}} refers to {name}, which does not exist", "; or `--cfg job` shows every key"
    elif isinstance(error, UnsupportedInterpolationType):
        named = re.search(r"Unsupported interpolation type (\S+)", str(error))
        what, hint = f"${{{named[1] if named else ''}:...}} is not an interpolation that exists", ""
    elif isinstance(error, GrammarParseError):
        what, hint = "${ begins an interpolation, but no valid one follows", ""
    else:
        return None
    broken = isinstance(error, GrammarParseError)  # the key as in the file, without the file's package
    return Problem(what, _place(key, overrides, folders, broken=broken), LITERAL + hint)


def _place(key: str, overrides: Sequence[str], folders: Sequence[Path], *, broken: bool) -> str:
    """Return the text's place: its file and key, "the command line", or the key alone if no file has it."""
    found = [
        (file, path)
        for file, path, text in _texts(folders)
        if (not _parses(text) if broken else path == key) and _is_chosen(file, overrides)
    ]
    if any(word.lstrip("+").startswith(f"{key}=") and _OPENING.search(word) for word in overrides):
        return f"{COMMAND_LINE}: {key}"
    return next((f"{shown(file)}: {path}" for file, path in found), key)


def _is_chosen(file: Path, overrides: Sequence[str]) -> bool:
    group = re.escape(file.parent.name)
    chosen = [word.partition("=")[2] for word in overrides if re.match(rf"\+?{group}(@[\w.]+)?=", word)]
    return not chosen or any(file.stem in re.findall(r"[\w-]+", names) for names in chosen)


def _texts(folders: Sequence[Path]) -> Iterator[tuple[Path, str, str]]:
    for file in (file for folder in folders for file in sorted(folder.glob("*/*.yaml"))):
        group = file.parent.name
        try:
            values = safe_yaml(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        root = "" if group in _WHOLE else f"{group}.{file.stem}" if group in ("dataset", "metric") else group
        yield from ((file, path, text) for path, text in _leaves(values, root) if _OPENING.search(text))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if is_mapping(value):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif is_list(value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    elif isinstance(value, str):
        yield path, value


def _parses(text: str) -> bool:
    try:
        OmegaConf.to_container(OmegaConf.create({"text": text}), resolve=True)
    except GrammarParseError:
        return False
    except OmegaConfBaseException:
        return True
    return True


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

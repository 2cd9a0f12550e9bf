"""Turn errors of Hydra, OmegaConf and YAML, including overrides of unknown keys, into problems."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from evalflow.config.explain import COMMAND_LINE, unknown_key
from evalflow.config.interpolations import interpolation_problem
from evalflow.config.keys_elsewhere import key_elsewhere, key_of_part
from evalflow.config.misnamed import no_option
from evalflow.config.validate import Composed
from evalflow.errors import InfrastructureError, Meant, Problem, UserError, nearest, quoted, unknown_name
from evalflow.paths import GROUPS
from evalflow.values.jsonvalues import as_map, is_list

_EXAMPLES = {
    "argv": "[python3,bot.py]",
    "base_url": "http://127.0.0.1:8000/v1",
    "call": "my_bot:ask",
    "url": "http://127.0.0.1:8000/ask",
}
"""Example values by key name, for hints."""


_YAML_HINTS = {
    "unknown escape character": "in double quotes a backslash is written \\\\; in single quotes as it is",
    "expected <block end>": "begin all lines of one list or mapping in the same column",
    "'\\t' that cannot start": "indent with spaces, not with tabs",
}
"""Hints by a part of the parser's message; the first that occurs counts."""
_FLOW = re.compile(r"while parsing a flow (sequence|mapping)")
_QUOTE_VALUES = "quote values that contain any of : { } [ ] # & * ! | > % @"
"""The hint for all other messages of the parser."""


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
    opened = getattr(error, "context_mark", None)
    if mark and opened and mark.line > opened.line and (begun := _FLOW.search(str(getattr(error, "context", "")))):
        sign, end = ("[", "]") if begun[1] == "sequence" else ("{", "}")
        what = f"this is not valid YAML: the {sign} of this line is not closed before line {mark.line + 1}"
        return Problem(what, f"{file or opened.name}:{opened.line + 1}", f"close it with {end}")
    what = f"this is not valid YAML: {getattr(error, 'problem', None) or error}"
    hint = next((hint for phrase, hint in _YAML_HINTS.items() if phrase in what), _QUOTE_VALUES)
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
    if wrong := _added(overrides) or _no_options(overrides, folders) or _no_base(text, folders):
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


def _added(overrides: Sequence[str]) -> list[Problem]:
    """Return the problems of groups that are chosen with a +, as Hydra has it for a group without a default."""
    problems: list[Problem] = []
    for override in overrides:
        word = override.lstrip("+")
        if word != override and word.partition("=")[0] in GROUPS:
            hint, meant = f"write {quoted(word)}", Meant((override,), (word,))
            problems.append(Problem("a group is chosen without a +", override, hint, meant=meant))
    return problems


def _no_base(text: str, folders: Sequence[Path]) -> list[Problem]:
    """Return the problem of a file whose `defaults` name a missing file or group."""
    named = re.search(r"In '([^']+)': Could not (?:load '(\w+)/([^']+)'|override '([^'@]+)')", text)
    if named is None:
        return []
    base, group, name, absent = named.groups()
    known = {file.stem for folder in folders for file in folder.glob(f"{group}/*.yaml")} if group else GROUPS
    files = [file for folder in folders if (file := folder / f"{base}.yaml").is_file()]
    what = f"it extends {group} {name!r}, which does not exist" if group else f"there is no group {absent!r}"
    return [unknown_name(what, f"{file}: defaults", name or absent, known) for file in files[:1]]


def _no_options(overrides: Sequence[str], folders: Sequence[Path]) -> list[Problem]:
    """Return the problems of all chosen options that have no file."""
    problems: dict[tuple[str, str], Problem] = {}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        group, value = str(override.key_or_group), override.value()
        files = [file for folder in folders if group.isalpha() for file in folder.glob(f"{group}/*.yaml")]
        known = {file.stem for file in files}
        for name in value if is_list(value) else [value]:
            if known and isinstance(name, str) and name not in known:
                problems[group, name] = no_option(group, name, known, folders)
    return list(problems.values())


def _several(override: str) -> Problem:
    """Return the problem of a value with commas when the run is not a sweep."""
    key, _, values = override.partition("=")
    hint = "for one run each, add -m; put a text with a comma in quotes: 'KEY=\"A,B\"'"
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
    return f"write KEY=VALUE; close every bracket; put a value with any of , = {{ }} [ ] ( ) in quotes: {quotes}"


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
        f"a key of one {group} alone needs its own file; write {file} with the two lines\n"
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
        if meant:
            return replace(problem, hint=f"did you mean {quoted(meant)}?")
        return key_of_part(line, values) or problem
    chosen = as_map(values.get(root))
    if root in ("dataset", "metric") and below and below[0] not in chosen:
        what = f"{key}: no {root} {below[0]!r} is chosen"
        if chosen:
            return unknown_name(what, COMMAND_LINE, below[0], chosen, before=f"{root}.")
        choice = f"{root}={below[0]}"
        return Problem(what, COMMAND_LINE, f"add {choice}", meant=Meant((), (choice,)))
    return key_elsewhere(line, values) if below and below[0] not in chosen else None

"""Explain texts whose `${` OmegaConf reads as an interpolation: the file, the key and how to escape it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import (
    GrammarParseError,
    InterpolationKeyError,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from evalflow.config.explain import COMMAND_LINE
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem
from evalflow.paths import shown
from evalflow.values.jsonvalues import is_list, is_mapping

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
    places = [
        (file, path)
        for file, path, text in _texts(folders)
        if (not _parses(text) if broken else path == key) and _is_chosen(file, overrides)
    ]
    if any(word.lstrip("+").startswith(f"{key}=") and _OPENING.search(word) for word in overrides):
        return f"{COMMAND_LINE}: {key}"
    return next((f"{shown(file)}: {path}" for file, path in places), key)


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

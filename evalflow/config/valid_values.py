"""Propose a valid value for an invalid one, and the corrected line for a misspelt key of a file."""

from __future__ import annotations

import json
import math
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from evalflow.config.strict import ValueOfError
from evalflow.config.yaml_text import expect_bounded
from evalflow.errors import Problem, nearest

_NUMBERS = ("int", "float", "greater_than", "less_than", "finite_number")  # how types of errors about numbers begin
_USUAL = (10, 1, 0.5, 0)
_TRUE = frozenset({"yes", "on", "y", "1", "t", "true", "always"})
_FALSE = frozenset({"no", "off", "n", "0", "f", "none", "false", "never"})
_SHORTEST = 3
"""Characters of a word that is taken for the beginning of a choice, such as `low` for `lower_is_better`."""


def valid_text(detail: ErrorDetails, field: FieldInfo | None) -> str | None:
    """A valid value near the given one, or an example of one, as overrides and YAML write it; None if there is none."""
    kind, given = detail["type"], detail.get("input")
    if isinstance(wrong := detail.get("ctx", {}).get("error"), ValueOfError):
        return wrong.valid
    if kind == "string_type" and isinstance(given, int | float):
        return json.dumps(str(given).lower() if isinstance(given, bool) else str(given))
    if kind == "list_type" and isinstance(given, str) and given:
        return f"[{','.join(given.split())}]"
    if kind == "literal_error" and isinstance(given, str | bool):
        expected = re.findall(r"'([^']+)'|\b(True|False)\b", str(detail.get("ctx", {}).get("expected")))
        return _choice(given, [text or truth.lower() for text, truth in expected])
    if kind.startswith("bool_"):
        return _choice(given, ("true", "false"))
    if kind.startswith(_NUMBERS) and field is not None:
        return next((json.dumps(value) for value in _numbers(given, field) if _is_valid(value, field)), None)
    return None


def valid_key(given: object, model: type[BaseModel]) -> tuple[str, str] | None:
    """The key of a map of keys that takes a single value, and the value: of `cache=off` mode and off.

    None if no key fits, or several do, as of `budget=5`, or if others are required. Texts are taken for one of a key's
    choices only, since most other keys would take any text.
    """
    fitting: list[tuple[str, str]] = []
    for name, field in model.model_fields.items():
        choices = [one for one in typing.get_args(field.annotation) if isinstance(one, str)]
        if typing.get_origin(field.annotation) is typing.Literal and (word := _choice(given, choices)):
            fitting += [(name, word)] if _is_enough(model, name, word) else []
        elif isinstance(given, int | float) and not isinstance(given, bool) and _is_valid(given, field):
            fitting += [(name, json.dumps(given))] if _is_enough(model, name, given) else []
    return fitting[0] if len(fitting) == 1 else None


def _is_enough(model: type[BaseModel], key: str, value: object) -> bool:
    """Whether a map with this key alone is valid."""
    try:
        model.model_validate({key: value})
    except ValidationError:
        return False
    return True


def _choice(given: object, choices: Sequence[str]) -> str | None:
    """The choice that a word means: by its truth, by its beginning, or the nearest one; None without one."""
    word = str(given).lower()
    for truth, words in ((_TRUE, ("true", "on")), (_FALSE, ("false", "off"))):
        if word in truth and (meant := next((one for one in words if one in choices), None)):
            return meant
    begun = [choice for choice in choices if choice.startswith(word)] if len(word) >= _SHORTEST else []
    return begun[0] if len(begun) == 1 else nearest(word, choices) or None


def _numbers(given: object, field: FieldInfo) -> Iterator[float]:
    """The number in a text such as `5k`, the default, and usual numbers."""
    if isinstance(given, str) and (numeral := re.search(r"-?\d+(?:\.\d+)?", given.replace(",", "").replace("_", ""))):
        number = float(numeral[0])
        if math.isfinite(number):
            yield from (int(number), number)
    if isinstance(given, int | float) and -sys.float_info.max <= given <= sys.float_info.max:
        yield from (round(given), abs(round(given)), abs(given), given / 100)  # the last: a percentage
    if field.default is not PydanticUndefined and isinstance(field.default, int | float):
        yield field.default
    yield from _USUAL


def _is_valid(value: object, field: FieldInfo) -> bool:
    annotation: Any = typing.cast("Any", field.annotation)
    for rule in field.metadata:
        annotation = Annotated[annotation, rule]
    try:
        TypeAdapter[Any](annotation).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def with_line(problem: Problem, file: Path, path: Sequence[str]) -> Problem:
    """The problem of a misspelt key in a file, with the line and what it should be; unchanged if it is not found.

    Only numbers, true and false are shown of the value: another one could be a secret.
    """
    if problem.meant is None:
        return problem
    entry = _node_of(file, path)
    if entry is None:
        return replace(problem, meant=None)
    key, value = entry
    right = problem.meant.right[0].rpartition(".")[2]
    is_plain = isinstance(value, yaml.ScalarNode) and value.tag.endswith((":int", ":float", ":bool"))
    line = f"{right}: {value.value if is_plain else '...'}"
    return replace(problem, hint=f"{problem.hint} line {key.start_mark.line + 1}: {line}", meant=None)


def _node_of(file: Path, path: Sequence[str]) -> tuple[yaml.Node, yaml.Node] | None:
    """The key and the value at a key path of a file."""
    try:
        text = file.read_text(encoding="utf-8")
        expect_bounded(text)
        node = typing.cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore - untyped
    except (OSError, ValueError, yaml.YAMLError):
        return None
    entry: tuple[yaml.Node, yaml.Node] | None = None
    for part in path:
        if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            node = node.value[int(part)]
            continue
        if not isinstance(node, yaml.MappingNode):
            return None
        entry = next((pair for pair in node.value if pair[0].value == part), None)
        if entry is None:
            return None
        node = entry[1]
    return entry

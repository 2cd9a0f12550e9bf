"""Saying what is wrong with a configuration: file, key path, what was expected, the nearest right name."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evalflow.errors import Problem, did_you_mean

_WORDS = {
    "missing": "is required",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a map",
    "model_type": "must be a map of keys",
}


def problems_of(
    error: ValidationError, model: type[BaseModel], key: str, file: Path | None, overrides: Sequence[str]
) -> list[Problem]:
    """Every fault that pydantic found, as Problems. The value of an unknown key is not repeated: it could be a secret.

    Args:
        error: What pydantic raised.
        model: The model that was validated against.
        key: The key path of the validated part, such as `metric.faithfulness`.
        file: The file the part comes from, if it is one.
        overrides: The command line, to tell whether the fault stands there.
    """
    return [_problem(detail, model, key, file, overrides) for detail in error.errors(include_url=False)]


def _problem(
    detail: ErrorDetails, model: type[BaseModel], key: str, file: Path | None, overrides: Sequence[str]
) -> Problem:
    path = [str(part) for part in detail["loc"]]
    full = ".".join([part for part in (key, *path) if part])
    where = "command line" if _on_command_line(full, overrides) else str(file or "configuration")
    if detail["type"] == "extra_forbidden":
        return Problem(f"unknown key {full}", where, did_you_mean(path[-1], _keys_at(model, detail["loc"][:-1])))
    if detail["type"] == "missing":
        return Problem(f"{full} is required", where, f"add {full}=... or the key to the file")
    what = _WORDS.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    shown = detail.get("input")
    got = f", not {shown!r}" if detail["type"] != "value_error" and isinstance(shown, str | int | float) else ""
    return Problem(f"{full}: {what[0].lower()}{what[1:]}{got}", where)


def _on_command_line(full: str, overrides: Iterable[str]) -> bool:
    keys = [override.partition("=")[0].lstrip("+~") for override in overrides]
    return any(key == full or (full.startswith(f"{key}.") and "." in key) for key in keys)


def _keys_at(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """The keys that the model knows at that place."""
    here: Any = model
    for part in loc:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = here.model_fields[part].annotation if part in here.model_fields else None
        else:
            arguments = typing.get_args(here)
            here = arguments[-1] if arguments else None
        here = _without_none(here)
    return list(here.model_fields) if isinstance(here, type) and issubclass(here, BaseModel) else []


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (list, dict, Mapping):
        return annotation
    models = [a for a in typing.get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
    return models[0] if models else annotation

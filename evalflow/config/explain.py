"""Explain problems of a configuration: file, key path, what was expected, and the nearest valid name."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from evalflow.config.parameters import KNOWN
from evalflow.errors import Meant, Problem, quoted, unknown_name

COMMAND_LINE = "command line"
_ATTRIBUTE = re.compile(r"    (\w+(?:, \w+)*): ")  # the start of an attribute in a docstring
_CONDITION = re.compile(r"(>=|<=|>|<)?\s*(\d*\.?\d+)")
"""Matches a gate's condition that lacks its metric; a number alone does not say which side of it is good."""
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
    """Turn pydantic's errors into Problems. The value of an unknown key is never shown: it could be a secret.

    `key` is the key path of the validated part, e.g. `metric.faithfulness`, and `file` its file, if any. `overrides`
    are those of the command line, to which an error is attributed if it is there.
    """
    return [_problem(detail, model, key, file, overrides) for detail in error.errors(include_url=False)]


def override(key: str, value: str) -> str:
    """Return an override that sets a key or adds it if missing, quoted for a shell and for Hydra."""
    return quoted(override_word(key, value))


def override_word(key: str, value: str) -> str:
    """Return an override that sets a key or adds it if missing, quoted for Hydra."""
    if not re.fullmatch(r"[\w.$/-]+", value, re.ASCII):
        value = '"' + value.replace('"', '\\"') + '"'
    return f"++{key}={value}"


def unknown_key(path: str) -> str:
    """The message for an unknown key."""
    return f"unknown key {path}"


def meanings_of(config: type[BaseModel]) -> dict[str, str]:
    """The meaning of each key, from the docstrings of a model and its base classes."""
    meanings: dict[str, str] = {}
    for model in reversed(config.__mro__):
        _, _, attributes = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
        names: list[str] = []
        for line in attributes.splitlines():
            if begins := _ATTRIBUTE.match(line):
                names = begins[1].split(", ")
                meanings |= dict.fromkeys(names, line[begins.end() :])
            elif names and line.startswith("     "):
                meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
            else:
                names = []
    return meanings


def _problem(
    detail: ErrorDetails, model: type[BaseModel], key: str, file: Path | None, overrides: Sequence[str]
) -> Problem:
    from evalflow.config.valid_values import valid_key, valid_text, with_line  # needed only after a mistake

    path, keys, field = _walk(model, detail["loc"])
    full = ".".join([part for part in (key, *path) if part])
    changed = [override.partition("=")[0].lstrip("+~") for override in overrides]
    on_line = any(key == full or (full.startswith(f"{key}.") and "." in key) for key in changed)
    if detail["type"] == "extra_forbidden":
        on_line = on_line or any(key.startswith(f"{full}.") for key in changed)
    where = COMMAND_LINE if on_line else str(file or "configuration")
    if detail["type"] == "extra_forbidden":
        parent = full.removesuffix(path[-1])
        problem = unknown_name(unknown_key(full), where, path[-1], keys, before=parent, key=full)
        if "parameters" in keys and path[-1] in KNOWN:
            return replace(problem, hint=_as_parameter(parent.rstrip("."), path[-1]), meant=None)
        return problem if on_line or file is None else with_line(problem, file, path)
    if detail["type"] == "missing":
        return Problem(f"{full} is required", where, f"add {full}=... or the key to the file", full)
    if detail["type"] == "union_tag_invalid":
        tag, known = detail.get("ctx", {})["tag"], detail.get("ctx", {})["expected_tags"]
        names = re.findall("'([^']+)'", known)
        kind = f"{full}.{detail.get('ctx', {})['discriminator'].strip(chr(39))}="
        return unknown_name(f"{full}: unknown {tag!r}", where, tag, names, before=kind, key=full)
    if detail["type"] == "union_tag_not_found":
        missing = f"{full}.{detail.get('ctx', {})['discriminator'].strip(chr(39))}"
        return Problem(f"{missing} is required", where, key=missing)
    message = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    what = _WORDS.get(detail["type"]) or message
    if detail["type"] == "literal_error":
        what = re.sub(r"\b(True|False)\b", lambda match: match[0].lower(), what)  # as YAML writes them
    given = detail.get("input")
    shown = str(given).lower() if isinstance(given, bool) else given  # as YAML writes it
    is_shown = detail["type"] != "value_error" and isinstance(given, str | int | float)
    got = f", not {shown if isinstance(given, bool) else repr(given)}" if is_shown else ""
    what = f"{full}: {what if what[:2].isupper() else what[0].lower() + what[1:]}{got}"
    above = {
        key for key in changed if full.startswith(f"{key}.") and {f"{key}={shown}", f'{key}="{shown}"'} & {*overrides}
    }
    full = above.pop() if len(above) == 1 else full  # such as target.answer, whose value is read as that of its path
    typed = f"{full}={shown}"
    models = _models(field.annotation) if field and detail["type"].startswith("model_") else []
    of_model = valid_key(given, models[0]) if len(models) == 1 else None
    written = f"{{{of_model[0]}: {of_model[1]}}}" if of_model else valid_text(detail, field)
    if written is None:
        return _misshaped(Problem(what, where, key=full), detail, models, overrides, typed if on_line else None)
    if on_line:
        right = _word_of(f"{full}.{of_model[0]}", of_model[1]) if of_model else f"{full}={written}"
        remark = "brackets make a list" if detail["type"] == "list_type" else "write"
        return Problem(what, where, f"{remark}: {quoted(right)}", full, meant=Meant((typed,), (right,)))
    return Problem(what, where, f"write {path[-1]}: {written}" if path else "", full)


def _word_of(key: str, value: str) -> str:
    """The override of a key in a map. The first file has every key of its maps; those of a group may lack some."""
    return override_word(key, value) if key.count(".") > 1 else f"{key}={value}"


def _misshaped(
    problem: Problem, detail: ErrorDetails, models: list[type[BaseModel]], overrides: Sequence[str], typed: str | None
) -> Problem:
    """The problem of a single value where a map is expected, with a hint; a gate's condition gets its metric."""
    key = problem.key
    gated = key.removeprefix("gate.") if re.fullmatch(r"gate\.[^.]+", key) else ""  # the metric or tag of a gate
    if detail["type"] == "dict_type" and (gated or key == "gate" or key.endswith(".gate")):
        condition = _CONDITION.fullmatch(str(detail.get("input")))
        chosen = [name for one in overrides if one.startswith("metric=") for name in re.findall(r"\w+", one[7:])]
        limit = f'"{condition[1] or ">="} {condition[2]}"' if condition else "CONDITION"
        of_metric = f"{{mean: {limit}}}"
        if key == "gate" or ":" in gated:  # a tag, such as tag:Safety, cannot be part of a key path
            named = gated.replace(":", "\\:") or next(iter(chosen), "METRIC")
            right = f"gate={{{named}: {of_metric}}}"
        else:
            right = f"{'++' if gated else ''}{key}={of_metric}"
        is_clear = typed and condition and condition[1] and (key != "gate" or len(chosen) == 1)
        meant = Meant((typed,), (right,)) if typed and is_clear else None
        or_below = f', or "<= {condition[2]}" if lower is better' if condition and not condition[1] else ""
        return replace(problem, hint=f"write it as {quoted(right)}{or_below}", meant=meant)
    if detail["type"] == "dict_type":
        return replace(problem, hint=f"write it as {quoted(f'{key}={{NAME: VALUE}}')}")
    fields = models[0].model_fields if models else {}
    required = ", ".join(f"{name}: VALUE" for name, field in fields.items() if field.is_required())
    if required:
        return replace(problem, hint=f"write it as {quoted(f'{key}={{{required}}}')}")
    keys = [f"{key}.{name}" for name in fields]
    return replace(problem, hint=f"set one of its keys: {', '.join(keys)}" if keys else "")


def _as_parameter(parent: str, name: str) -> str:
    """Return a hint for a request parameter that was given as a configuration key."""
    if name == "extra_body":
        return f"its entries are parameters of the requests: '{parent}.parameters={{NAME: VALUE}}'"
    return f"it is a parameter of the requests: '{parent}.parameters={{{name}: VALUE}}'"


def _walk(model: type[BaseModel], loc: Sequence[int | str]) -> tuple[list[str], list[str], FieldInfo | None]:
    """The key path of a location, the valid names for its last key, and the field of it, if it has one.

    Pydantic adds the tag of a union's member to the location (`likert` in `scale.likert.min`); it is not a key in the
    file.
    """
    here: object = model
    path: list[str] = []
    keys: list[str] = []
    field: FieldInfo | None = None
    for part in loc:
        models = _models(here)
        tagged = [one for one in models if part in _tags(one)] if len(models) > 1 else []
        if tagged:
            here = tagged[0]
            continue
        path.append(str(part))
        fields = {field.alias or name: field for name, field in models[0].model_fields.items()} if models else {}
        keys = list(fields)
        field = fields.get(str(part))
        if models:
            here = field.annotation if field else None
        else:
            arguments = typing.get_args(_bare(here))
            here = arguments[-1] if arguments else None
    return path, keys, field


def _bare(annotation: object) -> object:
    if typing.get_origin(annotation) is Annotated:
        return _bare(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        others = [other for other in typing.get_args(annotation) if other is not type(None)]
        return _bare(others[0]) if len(others) == 1 else annotation
    return annotation


def _models(annotation: object) -> list[type[BaseModel]]:
    bare = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, RootModel):
        return _models(bare.model_fields["root"].annotation)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return [bare]
    if typing.get_origin(bare) in (typing.Union, types.UnionType):
        return [model for member in typing.get_args(bare) for model in _models(member)]
    return []


def _tags(model: type[BaseModel]) -> set[object]:
    literals = (field.annotation for field in model.model_fields.values() if field.is_required())
    return {word for one in literals if typing.get_origin(one) is Literal for word in typing.get_args(one)}

"""What checks ask of JSON: values at a JSONPath, and whether a JSON Schema holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from evalflow.jsonvalues import Unusable, is_finite, mended

Find = Callable[[Any], Sequence[Any]]
Fault = Callable[[Any], str | None]


class NoJson(ValueError):
    """A text is no JSON; the message says why."""


def json_of(value: Any) -> Any:
    """A text as the JSON that it spells out; anything else as it is.

    Raises:
        NoJson: The text spells out none.
        ValueError, RecursionError: It does, and Python cannot hold it: a number of thousands of digits, say.
    """
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(mended(value.encode("utf-8", "replace")), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NoJson(f"no JSON: {error}") from None
    if not is_finite(found):
        raise Unusable("a number in it is too large to be compared; numbers end at about 1.8e308")
    return found


def _no_constant(name: str) -> None:
    raise NoJson(f"no JSON: it has no {name}")


def json_path(path: str) -> Find:
    """What finds the values at a path, in document order; none where it leads nowhere.

    Raises:
        ValueError: It is no JSONPath.
    """
    import jsonpath

    try:
        query = jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        raise ValueError(f"{path!r} is no JSONPath: {str(error).splitlines()[0]}") from None

    def find(data: Any) -> Sequence[Any]:
        # A text in the place of an object would be parsed, and a path such as $.a found in what is no object.
        if not isinstance(data, dict | list):
            return [data] if path.strip() == "$" else []
        try:
            return query.findall(cast("Any", data))
        except jsonpath.JSONPathError:
            return []  # such as a filter that compares what cannot be compared in this very document

    return find


def json_schema(schema: Mapping[str, Any]) -> Fault:
    """What says the first thing wrong with a document by a JSON Schema, or None where it is valid.

    Draft 2020-12, unless `$schema` names another. `format` is an annotation, as the standard has it.
    Nothing is fetched.

    Raises:
        ValueError: It is no JSON Schema, or it refers to what it does not hold itself.
    """
    jsonschema: Any = import_module("jsonschema")  # it ships no types
    model = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        model.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message} at {error.json_path}") from None
    except RecursionError:
        raise ValueError("the JSON Schema is nested too deeply to be read") from None
    lost = next(_lost(schema), None)
    if lost is not None:
        raise ValueError(f"the JSON Schema refers to {lost!r}, which it does not hold itself")
    # With a registry of its own it does not look for schemas elsewhere.
    validator = model(schema, registry=import_module("referencing").Registry())

    def fault(document: Any) -> str | None:
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        return f"{_short(str(error.message))} at {error.json_path}" if error else None

    return fault


def written(value: Any) -> str:
    """Text as it is; anything else as JSON, so that 3 and "3" read the same."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _lost(schema: Mapping[str, Any]) -> Iterator[str]:
    """The references that lead nowhere inside of the schema."""
    referencing, drafts = import_module("referencing"), import_module("referencing.jsonschema")
    faults: Any = import_module("referencing.exceptions")
    resource: Any = referencing.Resource.from_contents(schema, default_specification=drafts.DRAFT202012)
    base: str = resource.id() or ""
    resolver: Any = referencing.Registry().with_resource(base, resource).resolver(base)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except (faults.Unresolvable, ValueError):
            yield reference


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in cast("Mapping[str, Any]", node).items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            yield from _references(value)


def _short(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:199]}…"

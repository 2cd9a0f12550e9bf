"""Checks JSON Schemas, and documents by them. Patterns, references and unique items may take any time.

Draft 2020-12, unless `$schema` names another; `format` is not checked, and nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

_LONGEST = 200  # characters of a message; jsonschema's have the whole document in them


def faults(schema: str, documents: Sequence[str]) -> list[str | None]:
    """The first error of each document by a schema, all as JSON; None if it is valid.

    ValueError for what is not a schema, or refers to something outside of it, or to what is not one.
    """
    validator = _validator(schema)
    return [_fault(validator, json.loads(document)) for document in documents]


def _fault(validator: Any, document: Any) -> str | None:
    jsonschema: Any = import_module("jsonschema")  # it has no type hints
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if error is None:
        return None
    message = error.message if len(error.message) <= _LONGEST else f"{error.message[: _LONGEST - 1]}…"
    return f"{message} at {error.json_path}"


@lru_cache(maxsize=16)
def _validator(text: str) -> Any:
    jsonschema: Any = import_module("jsonschema")
    try:
        schema = json.loads(text)
        if not isinstance(schema, bool | dict):
            raise ValueError("not a JSON Schema: it has to be an object, or true or false")
        keys = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
        if not isinstance(keys.get("$schema", ""), str):
            raise ValueError("not a JSON Schema: $schema has to be text, the address of a draft")
        model = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        model.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.message} at {error.json_path}") from None
    except RecursionError:
        raise ValueError("the JSON Schema is nested too deeply to be read") from None
    lost = next(_dangling_references(keys), None)
    if lost is not None:
        raise ValueError(f"the JSON Schema refers to {lost!r}, which is not a schema within it")
    # With an explicit registry it does not fetch schemas.
    return model(schema, registry=import_module("referencing").Registry())


def _dangling_references(schema: Mapping[str, Any]) -> Iterator[str]:
    referencing, drafts = import_module("referencing"), import_module("referencing.jsonschema")
    faults: Any = import_module("referencing.exceptions")
    resource: Any = referencing.Resource.from_contents(schema, default_specification=drafts.DRAFT202012)
    base: str = resource.id() or ""
    resolver: Any = referencing.Registry().with_resource(base, resource).resolver(base)
    for reference in _references(schema):
        try:
            contents: object = resolver.lookup(reference).contents
        except (faults.Unresolvable, ValueError, TypeError, AttributeError):  # it reads parts as schemas on the way
            contents = None
        if not isinstance(contents, Mapping | bool):
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

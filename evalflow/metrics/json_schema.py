"""JSONPath and JSON Schema on a field that is JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

from evalflow.apart import within
from evalflow.jsonvalues import Unusable, is_finite, mended
from evalflow.patterns import compiled

Fault = Callable[[Any], str | None]
PATIENCE_S = 2.0
"""Seconds that one validation may take, and so may the check of a schema itself."""


def json_schema(schema: Mapping[str, Any]) -> Fault:
    """A function that says the first thing wrong with a document by a JSON Schema, or None where it is valid.

    Draft 2020-12, unless `$schema` names another; `format` is an annotation, and nothing is fetched.

    Raises:
        ValueError: It is no JSON Schema, or it refers to what it does not hold itself.
        TooSlow: By what is returned too: it takes too long.
    """
    return within(PATIENCE_S, "the JSON Schema", partial(_checked, schema))


def _checked(schema: Mapping[str, Any]) -> Fault:
    jsonschema: Any = import_module("jsonschema")  # it ships no types
    model = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        model.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message} at {error.json_path}") from None
    except RecursionError:
        raise ValueError("the JSON Schema is nested too deeply to be read") from None
    lost = next(_dangling_references(schema), None)
    if lost is not None:
        raise ValueError(f"the JSON Schema refers to {lost!r}, which it does not hold itself")
    # With a registry of its own it does not look for schemas elsewhere.
    validator = _bounded(model)(schema, registry=import_module("referencing").Registry())

    def first(document: Any) -> str | None:
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        return f"{error.message} at {error.json_path}" if error else None

    def fault(document: Any) -> str | None:
        return within(PATIENCE_S, "validating by the JSON Schema", partial(first, document))

    return fault


@cache
def _bounded(model: Any) -> Any:
    """A validator of jsonschema whose patterns are run by `patterns`, and whose messages are short.

    Its keywords call `re` by that name, also deep inside of `unevaluatedProperties`: they are made again, of the same
    code, with another `re`.
    """
    jsonschema: Any = import_module("jsonschema")
    names: dict[int, dict[str, Any]] = {}
    keywords: dict[str, Any] = {name: _rebound(keyword, names) for name, keyword in model.VALIDATORS.items()}
    bounded = jsonschema.validators.extend(model, keywords)
    fields = [(field.name, field.alias) for field in import_module("attrs").fields(bounded) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema", self.schema)
        kind = jsonschema.validators.validator_for(schema, default=bounded)  # by its own `$schema`
        given = {alias: getattr(self, name) for name, alias in fields}
        return (kind if kind is bounded else _bounded(kind))(**{**given, **changes})

    bounded.evolve = evolve
    return bounded


def _rebound(function: Any, names: dict[int, dict[str, Any]]) -> Any:
    """A function of jsonschema that runs with our names in its module."""
    if not isinstance(function, FunctionType):
        return function
    made = FunctionType(
        function.__code__,
        _module(function.__globals__, names),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _module(own: dict[str, Any], names: dict[int, dict[str, Any]]) -> dict[str, Any]:
    if id(own) in names:
        return names[id(own)]
    made = names[id(own)] = {**own, "re": SimpleNamespace(search=_search), "ValidationError": _invalid}
    for name, value in own.items():
        if isinstance(value, FunctionType) and value.__module__.startswith("jsonschema."):
            made[name] = _rebound(value, names)
        elif isinstance(value, ModuleType) and value.__name__ == "jsonschema._utils":
            made[name] = SimpleNamespace(**_module(vars(value), names))
    return made


def _search(pattern: str, text: str) -> Any:
    return compiled(pattern).search(text)


def _invalid(message: str, *args: Any, **kwargs: Any) -> Any:
    """An error of jsonschema, whose messages spell the whole document out."""
    return import_module("jsonschema").ValidationError(_shortened(message), *args, **kwargs)


def _dangling_references(schema: Mapping[str, Any]) -> Iterator[str]:
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


def _shortened(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:199]}…"


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


def written(value: Any) -> str:
    """Text as it is; anything else as JSON, so that 3 and "3" read the same."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)

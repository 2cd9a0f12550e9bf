"""The operation on JSON by a JSON Schema, and what operations share that read JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from importlib import import_module
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Literal, cast

from pydantic import Field, model_validator

from evalflow.apart import within
from evalflow.config.schema import with_examples
from evalflow.jsonvalues import Unusable, is_finite, mended
from evalflow.metrics.operations import BaseOperation, RuleFinding
from evalflow.patterns import compiled

Fault = Callable[[Any], str | None]
PATIENCE_S = 2.0  # time limit in seconds for one validation, and for the check of a schema


class JsonSchemaOperation(BaseOperation):
    """Checks that the JSON in a field is valid by a JSON Schema.

    Attributes:
        schema_: The JSON Schema, in YAML as `schema`; {} accepts any JSON.
        anywhere: false: the whole text must be JSON; true: one JSON object somewhere in the text is enough.
    """

    model_config = with_examples(
        {"op": "json_schema", "schema": {"required": ["days"]}}, populate_by_name=True, defer_build=True
    )
    op: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")
    anywhere: bool = False

    @model_validator(mode="after")
    def _checked(self) -> JsonSchemaOperation:
        _ = self._fault
        return self

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        if self.anywhere and isinstance(value, str):
            faults = map(self._fault, objects_in(value))
            first = next(faults, "it has no JSON object")
            fault = None if first is None or None in faults else first
        else:
            try:
                fault = self._fault(json_of(value))
            except NoJson as error:
                return RuleFinding(passed=False, reason=f"the {name} is {error}")
        if fault:
            return RuleFinding(passed=False, reason=f"the {name} is not valid by the JSON Schema: {fault}")
        return RuleFinding(passed=True, reason=f"the {name} is valid by the JSON Schema")

    @cached_property
    def _fault(self) -> Fault:
        return json_schema(self.schema_)


def json_schema(schema: Mapping[str, Any]) -> Fault:
    """Build a function that returns the first error of a document by a JSON Schema, or None if it is valid.

    Draft 2020-12, unless `$schema` names another; `format` is not checked, and nothing is fetched. ValueError for an
    invalid schema, or one that refers to something outside of it; TooSlow, also when called.
    """
    for module in ("jsonschema", "referencing.jsonschema"):
        import_module(module)  # not within the time limit, which a busy machine would need for it
    return within(PATIENCE_S, "the JSON Schema", partial(_checked, schema))


def _checked(schema: Mapping[str, Any]) -> Fault:
    jsonschema: Any = import_module("jsonschema")  # it has no type hints
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
    # With an explicit registry it does not fetch schemas.
    validator = _bounded(model)(schema, registry=import_module("referencing").Registry())

    def first(document: Any) -> str | None:
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        return f"{error.message} at {error.json_path}" if error else None

    def fault(document: Any) -> str | None:
        return within(PATIENCE_S, "validating by the JSON Schema", partial(first, document))

    return fault


@cache
def _bounded(model: Any) -> Any:
    """A jsonschema validator that runs patterns with `patterns` and gives short messages.

    Its keywords use the global name `re`, so the keyword functions are copied with another `re` in their globals.
    """
    jsonschema: Any = import_module("jsonschema")
    names: dict[int, dict[str, Any]] = {}
    keywords: dict[str, Any] = {name: _rebound(keyword, names) for name, keyword in model.VALIDATORS.items()}
    bounded = jsonschema.validators.extend(model, keywords)
    fields = [(field.name, field.alias) for field in import_module("attrs").fields(bounded) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema", self.schema)
        kind = jsonschema.validators.validator_for(schema, default=bounded)  # as in its `$schema`
        given = {alias: getattr(self, name) for name, alias in fields}
        return (kind if kind is bounded else _bounded(kind))(**{**given, **changes})

    bounded.evolve = evolve
    return bounded


def _rebound(function: Any, names: dict[int, dict[str, Any]]) -> Any:
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
    """A short error, since jsonschema's messages contain the whole document."""
    short = message if len(message) <= 200 else f"{message[:199]}…"
    return import_module("jsonschema").ValidationError(short, *args, **kwargs)


def _dangling_references(schema: Mapping[str, Any]) -> Iterator[str]:
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


class NoJson(ValueError):
    """A text is not JSON; the message says why."""


def json_of(value: Any) -> Any:
    """Parse a text as JSON, or raise NoJson; other values are returned unchanged.

    ValueError or RecursionError for JSON that Python cannot hold, such as a number of thousands of digits.
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


def objects_in(text: str) -> list[Any]:
    """The JSON objects that stand in a text, without those inside of another; TooSlow if there is too much to read."""
    return within(PATIENCE_S, "reading the JSON in the text", partial(_objects_in, text))


def _objects_in(text: str) -> list[Any]:
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    found: list[Any] = []
    place = text.find("{")
    while place >= 0:
        try:
            value, place = decoder.raw_decode(text, place)
            found.append(value)
        except (ValueError, RecursionError):
            place += 1
        place = text.find("{", place)
    if not is_finite(found):
        raise Unusable("a number in it is too large to be compared; numbers end at about 1.8e308")
    return found


def _no_constant(name: str) -> None:
    raise NoJson(f"no JSON: it has no {name}")


def json_equal(value: Any, other: Any) -> bool:
    """Equality in JSON: 1 equals 1.0, but true does not equal 1."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", other)
        return ours.keys() == theirs.keys() and all(json_equal(ours[key], theirs[key]) for key in ours)
    if isinstance(value, list) and isinstance(other, list):
        mine, yours = cast("list[Any]", value), cast("list[Any]", other)
        return len(mine) == len(yours) and all(map(json_equal, mine, yours))
    return value == other and isinstance(value, bool) == isinstance(other, bool)

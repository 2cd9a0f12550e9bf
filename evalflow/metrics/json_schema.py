"""The JSON Schema operation, and shared parts of the operations that read JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from evalflow.config.schema import with_examples
from evalflow.limited import Work, deadline
from evalflow.metrics.operations import BaseOperation, RuleFinding
from evalflow.records.deferred import DEFER_BUILD
from evalflow.values.jsonvalues import Unusable, is_finite, is_list, is_mapping, json_text, mended

Fault = Callable[[object], str | None]
_LIBRARIES = ("jsonschema", "referencing.jsonschema", "referencing.exceptions")
_FAULTS = Work("evalflow.limited.schemas:faults", imports=_LIBRARIES)
PATIENCE_S = 2.0  # time limit in seconds for one validation, and for the check of a schema


class JsonSchemaOperation(BaseOperation):
    """Checks that the JSON in a field is valid by a JSON Schema.

    Attributes:
        schema_: The JSON Schema, in YAML as `schema`; {} accepts any JSON.
        anywhere: false: the whole text must be JSON; true: one valid JSON object anywhere in the text is enough.
    """

    model_config = with_examples(
        {"op": "json_schema", "schema": {"required": ["days"]}}, populate_by_name=True, defer_build=DEFER_BUILD
    )
    op: Literal["json_schema"]
    schema_: dict[str, object] = Field(alias="schema")
    anywhere: bool = False

    @model_validator(mode="after")
    def _checked(self) -> JsonSchemaOperation:
        _ = self._fault
        return self

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        if self.anywhere and isinstance(value, str):
            faults = map(self._fault, objects_in(value))
            first = next(faults, "it contains no JSON object")
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


def json_schema(schema: Mapping[str, object]) -> Fault:
    """Build a function that returns a document's first error by the schema, or None if it is valid.

    ValueError if the schema is invalid or refers to something outside of it. Both this and the function may raise
    LimitExceeded.
    """
    text = json_text(schema)
    _FAULTS.call({"schema": text, "documents": []}, PATIENCE_S, "the JSON Schema")

    def fault(document: object) -> str | None:
        task = {"schema": text, "documents": [json_text(document)]}
        return _FAULTS.call(task, PATIENCE_S, "validating by the JSON Schema")[0]

    return fault


class NoJson(ValueError):
    """Raised if a text is not JSON; the message says why."""


def json_of(value: object) -> object:
    """Parse a text as JSON, or raise NoJson; other values are returned unchanged.

    ValueError or RecursionError if Python cannot hold the value, such as a number of thousands of digits.
    """
    if not isinstance(value, str):
        return value
    try:
        decoded = json.loads(mended(value.encode("utf-8", "replace")), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NoJson(f"not JSON: {error}") from None
    if not is_finite(decoded):
        raise Unusable("a number in it is too large to compare; the limit is about 1.8e308")
    return decoded


def objects_in(text: str) -> list[object]:
    """The outermost JSON objects in a text; LimitExceeded if it takes too long."""
    check_time = deadline(PATIENCE_S, "reading the JSON in the text")
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    contents: list[object] = []
    place = text.find("{")
    while place >= 0:
        check_time()
        try:
            value, place = decoder.raw_decode(text, place)
            contents.append(value)
        except (ValueError, RecursionError):
            place += 1
        place = text.find("{", place)
    if not is_finite(contents):
        raise Unusable("a number in it is too large to compare; the limit is about 1.8e308")
    return contents


def _no_constant(name: str) -> None:
    raise NoJson(f"not JSON: it has no {name}")


def json_equal(value: object, other: object) -> bool:
    """Equality in JSON: 1 equals 1.0, but true does not equal 1."""
    if is_mapping(value) and is_mapping(other):
        return value.keys() == other.keys() and all(json_equal(value[key], other[key]) for key in value)
    if is_list(value) and is_list(other):
        return len(value) == len(other) and all(map(json_equal, value, other))
    return value == other and isinstance(value, bool) == isinstance(other, bool)

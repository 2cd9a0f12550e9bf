"""Operations on JSON, and a list of operations combined into one score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from evalflow.apart import TooSlow, apart
from evalflow.config.schema import Word
from evalflow.jsonvalues import Path, json_path, look_up
from evalflow.metrics.json_schema import Fault, NoJson, json_of, json_schema, written
from evalflow.metrics.operations import (
    BaseOperation,
    ComparisonOperation,
    PatternOperation,
    RuleFinding,
    TextOperation,
    quoted,
)
from evalflow.patterns import Pattern, compiled
from evalflow.records import Outcome

_WANTED = ("contains", "equals", "matches", "missing")


class JsonPathOperation(BaseOperation):
    """Compares the values at a JSONPath with one expectation. If the path has several values, one match is enough.

    Attributes:
        path: The JSONPath.
        contains: A text that the text at the path must contain.
        equals: The value at the path, of the same JSON type: 1 equals 1.0, but not "1" or true.
        matches: A regular expression that must match somewhere in the text at the path.
        missing: true: the path must have no value; false: it must have one.
    """

    op: Literal["jsonpath"]
    path: Word
    contains: Word | None = None
    equals: Any = None
    matches: Word | None = None
    missing: bool | None = None

    @model_validator(mode="after")
    def _checked(self) -> JsonPathOperation:
        # `equals: null` is an expectation; for the other keys null means absent.
        given = [
            name
            for name in _WANTED
            if name in self.model_fields_set and (name == "equals" or getattr(self, name) is not None)
        ]
        if len(given) != 1:
            raise ValueError(f"jsonpath needs exactly one of {', '.join(_WANTED)}")
        _ = self._path
        _ = self._matches
        return self

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        """See `BaseOperation`."""
        try:
            document = json_of(look_up(field, fields))
        except NoJson as error:
            return RuleFinding(passed=False, reason=f"the {field} is {error}")
        values = self._values(document)
        if self.missing is not None:
            phrase = "exists" if values else "does not exist"
            return RuleFinding(bool(values) != self.missing, f"JSON path {self.path} {phrase} in {field}")
        if not values:
            return RuleFinding(passed=False, reason=f"JSON path {self.path} does not exist in {field}")
        wanted = self._wanted
        for value in values:
            if self._holds(value):
                return RuleFinding(passed=True, reason=f"Found {_cut(written(value))} at {self.path}, as expected")
        got = ", ".join(shown(value, wanted) for value in values[:3])
        return RuleFinding(passed=False, reason=f"Expected {wanted} at {self.path} but got {got}")

    def _values(self, document: Any) -> Sequence[Any]:
        try:
            return self._path.matches(document)
        except TooSlow:
            raise
        except ValueError:
            return []  # e.g. a filter that compares incompatible types in this document

    def _holds(self, value: Any) -> bool:
        if self.contains is not None:
            return isinstance(value, str) and self.contains in value
        if self._matches is not None:
            return isinstance(value, str) and self._matches.search(value) is not None
        return same(value, self.equals)

    @cached_property
    def _matches(self) -> Pattern | None:
        return None if self.matches is None else compiled(self.matches)

    @cached_property
    def _wanted(self) -> str:
        if self.matches is not None:
            return f"a match of {self.matches}"
        return written(self.equals if self.contains is None else self.contains)

    @cached_property
    def _path(self) -> Path:
        try:
            return json_path(self.path)
        except ValueError as error:
            raise ValueError(f"{self.path!r} is no JSONPath: {error}") from None


class JsonSchemaOperation(BaseOperation):
    """Checks that the JSON in a field is valid by a JSON Schema.

    Attributes:
        schema_: The JSON Schema, in YAML as `schema`; {} accepts any JSON.
    """

    model_config = ConfigDict(populate_by_name=True)
    op: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")

    @model_validator(mode="after")
    def _checked(self) -> JsonSchemaOperation:
        _ = self._fault
        return self

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        """See `BaseOperation`."""
        try:
            fault = self._fault(json_of(look_up(field, fields)))
        except NoJson as error:
            return RuleFinding(passed=False, reason=f"the {field} is {error}")
        if fault:
            return RuleFinding(passed=False, reason=f"the {field} is not valid by the JSON Schema: {fault}")
        return RuleFinding(passed=True, reason=f"the {field} is valid by the JSON Schema")

    @cached_property
    def _fault(self) -> Fault:
        return json_schema(self.schema_)


Operation = Annotated[
    TextOperation | PatternOperation | ComparisonOperation | JsonPathOperation | JsonSchemaOperation,
    Field(discriminator="op"),
]


def same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but not true."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return value == other


def shown(value: Any, wanted: str) -> str:
    """A value for a reason; its type is added if it looks like the wanted text but has another type."""
    text = written(value)
    return f"{text} (no text)" if text == wanted and not isinstance(value, str) else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else quoted(text)


Combine = Literal["all", "any", "mean"]


@dataclass(frozen=True)
class Rulebook:
    """Operations over a case field.

    Attributes:
        field: The case field, or a dotted path into one.
        operations: At least one.
        combine: `all` and `any` give 1 or 0; `mean` gives the share of the operations that hold.
    """

    field: str
    operations: Sequence[Operation]
    combine: Combine = "all"

    async def score(self, fields: Mapping[str, Any]) -> Outcome:
        """Apply every operation, in a thread unless all are quick."""

        def apply() -> list[RuleFinding]:
            return [operation.apply(self.field, fields) for operation in self.operations]

        try:
            findings = apply() if all(operation.quick for operation in self.operations) else await apart(apply)
        except TooSlow as error:
            return Outcome(status="error", error_type="timeout", error=str(error))
        held = sum([finding.passed for finding in findings])
        share = held / len(findings)
        score = share if self.combine == "mean" else float(held == len(findings) if self.combine == "all" else held > 0)
        return Outcome(
            status="scored",
            score=score,
            value=score if self.combine == "mean" else bool(score),
            reason=_reason(findings, passed=score == 1),
            steps=tuple(
                [
                    {**about, "passed": finding.passed, "reason": finding.reason}
                    for about, finding in zip(self._about, findings, strict=True)
                ]
            ),
            path="direct",
        )

    @cached_property
    def _about(self) -> Sequence[Mapping[str, Any]]:
        """The step entries that do not depend on the answer."""
        return [
            {"id": one.op, "check": one.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
            for one in self.operations
        ]


def _reason(findings: Sequence[RuleFinding], passed: bool) -> str:
    """The reasons of the operations that decided the result."""
    return "; ".join([finding.reason for finding in findings if finding.passed == passed])

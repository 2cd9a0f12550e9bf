"""All operations, including those that combine others, and the score of a list of operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from evalflow.config.schema import Word, with_examples
from evalflow.limited import LimitExceeded, in_thread
from evalflow.metrics.format_operations import HtmlOperation, SqlOperation, XmlOperation
from evalflow.metrics.javascript import JavaScriptOperation
from evalflow.metrics.json_schema import JsonSchemaOperation, NoJson, json_equal, json_of
from evalflow.metrics.operations import (
    BaseOperation,
    ComparisonOperation,
    CountOperation,
    LengthOperation,
    PatternOperation,
    Read,
    RuleFinding,
    TextListOperation,
    TextOperation,
    ToleranceOperation,
    quoted,
)
from evalflow.records import Outcome
from evalflow.values.jsonvalues import Path, json_path, written
from evalflow.values.patterns import Pattern, declared

Combine = Literal["all", "any", "mean"]
_WANTED = ("contains", "equals", "matches", "missing", "rule")


class NotOperation(BaseOperation):
    """Holds if another operation does not. If that one cannot be tested, this is an error, too.

    Attributes:
        rule: The other operation.
    """

    model_config = with_examples({"op": "not", "rule": {"op": "starts_with", "value": "No"}})
    op: Literal["not"]
    rule: Operation

    @property
    def quick(self) -> bool:
        return self.rule.quick

    def reads(self, field: str) -> Iterator[Read]:
        yield from _reads_within(self, field, {"rule": self.rule})

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        finding = _within(self.rule, name, value, fields)
        return RuleFinding(not finding.passed, finding.reason)


class SeveralOperation(BaseOperation):
    """Holds if any, or all, of several operations hold. All are always tested.

    Attributes:
        rules: The operations; each may name its own `field`.
    """

    model_config = with_examples(
        {"op": "any", "rules": [{"op": "equals", "value": "3"}, {"op": "contains", "value": "three"}]},
        {"op": "all", "rules": [{"op": "contains", "value": "20"}, {"op": "length", "max": 15}]},
    )
    op: Literal["any", "all"]
    rules: list[Operation] = Field(min_length=1)

    @property
    def quick(self) -> bool:
        return all(rule.quick for rule in self.rules)

    def reads(self, field: str) -> Iterator[Read]:
        yield from _reads_within(self, field, {f"rules[{place}]": rule for place, rule in enumerate(self.rules)})

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        findings = [_within(rule, name, value, fields) for rule in self.rules]
        held = [finding.passed for finding in findings]
        passed = all(held) if self.op == "all" else any(held)
        return RuleFinding(passed, joined(findings, passed))


class JsonPathOperation(BaseOperation):
    """Compares the values at a JSONPath with one expectation. If the path matches several values, one is enough.

    Attributes:
        path: The JSONPath.
        contains: A text that the text at the path must contain.
        equals: The value at the path, with the same JSON type: 1 equals 1.0, but not "1" or true.
        matches: A regular expression that must match somewhere in the text at the path.
        missing: true: the path must have no value; false: it must have one.
        rule: An operation that must hold for the value at the path.
    """

    model_config = with_examples(
        {"op": "jsonpath", "path": "$.days", "equals": 21},
        {"op": "jsonpath", "path": "$.price", "rule": {"op": "less_than", "value": 10}},
    )
    op: Literal["jsonpath"]
    path: Word
    contains: Word | None = None
    equals: object = None
    matches: Word | None = None
    missing: bool | None = None
    rule: Operation | None = None

    @model_validator(mode="after")
    def _checked(self) -> JsonPathOperation:
        # `equals: null` expects null; for the other keys null means absent.
        given = [
            name
            for name in _WANTED
            if name in self.model_fields_set and (name == "equals" or getattr(self, name) is not None)
        ]
        if len(given) != 1:
            raise ValueError(f"jsonpath needs exactly one of {', '.join(_WANTED)}")
        if self.rule is not None and any(key.endswith("field") for key, _ in self.rule.reads("")):
            raise ValueError("the rule of a jsonpath tests the value at the path; leave out `field`")
        _ = self._path
        _ = self._matches
        return self

    def reads(self, field: str) -> Iterator[Read]:
        yield from super().reads(field)
        yield from ((f"rule.{key}", other) for key, other in (self.rule.reads("") if self.rule else ()) if key)

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        try:
            document = json_of(value)
        except NoJson as error:
            return RuleFinding(passed=False, reason=f"the {name} is {error}")
        values = self._values(document)
        if self.missing is not None:
            phrase = "exists" if values else "does not exist"
            return RuleFinding(bool(values) != self.missing, f"JSON path {self.path} {phrase} in {name}")
        if not values:
            return RuleFinding(passed=False, reason=f"JSON path {self.path} does not exist in {name}")
        if self.rule is not None:
            findings = [self.rule.test(f"value at {self.path}", one, fields) for one in values]
            return next((finding for finding in findings if finding.passed), findings[0])
        wanted = self._wanted
        for one in values:
            if self._holds(one):
                return RuleFinding(passed=True, reason=f"Found {_cut(written(one))} at {self.path}, as expected")
        got = ", ".join(_shown(one, wanted) for one in values[:3])
        return RuleFinding(passed=False, reason=f"Expected {wanted} at {self.path} but got {got}")

    def _values(self, document: object) -> Sequence[object]:
        try:
            return self._path.matches(document)
        except LimitExceeded:
            raise
        except ValueError:
            return []  # e.g. a filter that compares incompatible types in this document

    def _holds(self, value: object) -> bool:
        if self.contains is not None:
            return isinstance(value, str) and self.contains in value
        if self._matches is not None:
            return isinstance(value, str) and self._matches.search(value) is not None
        return json_equal(value, self.equals)

    @cached_property
    def _matches(self) -> Pattern | None:
        return None if self.matches is None else declared(self.matches)

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
            raise ValueError(f"{self.path!r} is not a JSONPath: {error}") from None


Operation = Annotated[
    TextOperation
    | TextListOperation
    | PatternOperation
    | ComparisonOperation
    | ToleranceOperation
    | LengthOperation
    | CountOperation
    | JsonPathOperation
    | JsonSchemaOperation
    | XmlOperation
    | HtmlOperation
    | SqlOperation
    | JavaScriptOperation
    | NotOperation
    | SeveralOperation,
    Field(discriminator="op"),
]
JsonPathOperation.model_rebuild()
NotOperation.model_rebuild()
SeveralOperation.model_rebuild()


def _shown(value: object, wanted: str) -> str:
    """A value for a reason; its type is added if it looks like the wanted text but has another type."""
    text = written(value)
    if text == wanted:
        return f"{text} (text)" if isinstance(value, str) else f"{text} (no text)"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else quoted(text)


def _within(rule: BaseOperation, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
    return rule.test(name, value, fields) if rule.field is None else rule.apply(name, fields)


def _reads_within(outer: BaseOperation, field: str, rules: Mapping[str, BaseOperation]) -> Iterator[Read]:
    own = outer.field or field
    for place, rule in rules.items():
        for key, read in rule.reads(own):
            if key:
                yield f"{place}.{key}", read
            else:
                yield ("", field) if outer.field is None else ("field", outer.field)


@dataclass(frozen=True)
class Rulebook:
    """Operations over a case field. `all` and `any` give 1 or 0; `mean` gives the share of those that hold."""

    field: str
    operations: Sequence[Operation]
    combine: Combine = "all"

    @property
    def reads(self) -> Sequence[str]:
        """The fields that the operations read, without duplicates."""
        return list(dict.fromkeys(field for one in self.operations for _, field in one.reads(self.field)))

    async def score(self, fields: Mapping[str, object]) -> Outcome:
        def apply() -> list[RuleFinding]:
            return [operation.apply(self.field, fields) for operation in self.operations]

        try:
            findings = apply() if all(operation.quick for operation in self.operations) else await in_thread(apply)
        except LimitExceeded as error:
            return Outcome(status="error", error_type=error.error_type, error=str(error))
        held = sum([finding.passed for finding in findings])
        share = held / len(findings)
        score = share if self.combine == "mean" else float(held == len(findings) if self.combine == "all" else held > 0)
        return Outcome(
            status="scored",
            score=score,
            value=score if self.combine == "mean" else bool(score),
            reason=joined(findings, passed=score == 1),
            steps=self._steps(findings) if len(findings) > 1 else (),  # one alone would repeat the outcome
            path="direct",
        )

    def _steps(self, findings: Sequence[RuleFinding]) -> tuple[Mapping[str, object], ...]:
        pairs = zip(self.about, findings, strict=True)
        return tuple([{**about, "passed": finding.passed, "reason": finding.reason} for about, finding in pairs])

    @cached_property
    def about(self) -> Sequence[Mapping[str, object]]:
        """The id and the configuration of each operation."""
        return [
            {"id": one.op, "check": one.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
            for one in self.operations
        ]


def joined(findings: Sequence[RuleFinding], passed: bool) -> str:
    """Join the reasons of the findings that passed, or of those that failed."""
    return "; ".join([finding.reason for finding in findings if finding.passed == passed])

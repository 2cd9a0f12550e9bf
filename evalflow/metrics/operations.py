"""Operations of a check on a case field, and a list of them combined into one score; no model or network is used."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from evalflow.apart import TooSlow, apart
from evalflow.config.schema import Strict, Word
from evalflow.jsonvalues import Path, json_path, look_up, written
from evalflow.metrics.json_schema import Fault, NoJson, json_equal, json_of, json_schema
from evalflow.patterns import Pattern, compiled
from evalflow.records import Outcome

NormalForm = Literal["NFC", "NFKC", "NFD", "NFKD"]
_QUOTE = 80
_TEXTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = {
    "equals": (operator.eq, "equals", "does not equal"),
    "contains": (operator.contains, "contains", "does not contain"),
    "starts_with": (str.startswith, "starts with", "does not start with"),
    "ends_with": (str.endswith, "ends with", "does not end with"),
}  # text comparisons, with the phrases for yes and no; each but the last two also as `not_`
_NUMBERS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "less_than": (operator.lt, "less than"),
    "less_than_equals": (operator.le, "at most"),
    "greater_than": (operator.gt, "greater than"),
    "greater_than_equals": (operator.ge, "at least"),
}
_WANTED = ("contains", "equals", "matches", "missing")
Combine = Literal["all", "any", "mean"]


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of an operation on a field, with a one-line reason."""

    passed: bool
    reason: str


class BaseOperation(Strict):
    """A rule over a case field; `op` selects it."""

    quick: ClassVar[bool] = False  # whether it is fast for any text, and may run in the event loop

    def others(self) -> Sequence[str]:
        return ()

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        """Check a case field, or a dotted path into one; TooSlow if a pattern, path or schema takes too long."""
        raise NotImplementedError


class AgainstOperation(BaseOperation):
    """Compares a field with either `value` or another field, `against`."""

    quick = True
    against: Word | None = None

    @model_validator(mode="after")
    def _one_other(self) -> AgainstOperation:
        if (getattr(self, "value", None) is None) == (self.against is None):
            raise ValueError(f"{getattr(self, 'op', '')} needs exactly one of `value` and `against`")
        return self

    def others(self) -> Sequence[str]:
        return () if self.against is None else (self.against,)


class TextOperation(AgainstOperation):
    """Compares a text with another.

    Attributes:
        value: The other text.
        against: A case field that holds it, such as reference or expected; instead of `value`.
        case_sensitive: Whether upper and lower case differ.
        normalize: The Unicode form both texts are brought to first, since an accented letter has several spellings;
            null compares them as they are.
        trim: Whether to strip white space around both texts.
    """

    op: Literal["equals", "not_equals", "contains", "not_contains", "starts_with", "ends_with"]
    value: Word | None = None
    case_sensitive: bool = True
    normalize: NormalForm | None = "NFC"
    trim: bool = False

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        text = self._form(written(look_up(field, fields)))
        if self.against is None:
            other, named = self._value
            passed, phrase = self._compare(text, other)
            return RuleFinding(passed, f"the {field} {phrase} {named}")
        given = written(look_up(self.against, fields))
        passed, phrase = self._compare(text, self._form(given))
        return RuleFinding(passed, f"the {field} {phrase} the {self.against} {quoted(given)}")

    @cached_property
    def _value(self) -> tuple[str, str]:
        return self._form(self.value or ""), quoted(self.value or "")

    def _compare(self, text: str, other: str) -> tuple[bool, str]:
        compare, yes, no = _TEXTS[self.op.removeprefix("not_")]
        holds = compare(text, other)
        return holds != self.op.startswith("not_"), yes if holds else no

    def _form(self, text: str) -> str:
        if self.normalize:
            text = unicodedata.normalize(self.normalize, text)
        text = text.strip() if self.trim else text
        return text if self.case_sensitive else text.casefold()


class PatternOperation(BaseOperation):
    """Searches a text for a regular expression, in the syntax of Python's `re`.

    Attributes:
        pattern: The expression; best in single quotes in YAML.
        case_sensitive: Whether upper and lower case differ.
        normalize: The Unicode form the text is brought to first; null leaves it as it is.
    """

    op: Literal["regex", "not_regex"]
    pattern: Word
    case_sensitive: bool = True
    normalize: NormalForm | None = "NFC"

    @model_validator(mode="after")
    def _compiles(self) -> PatternOperation:
        _ = self._compiled
        return self

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        text = written(look_up(field, fields))
        text = unicodedata.normalize(self.normalize, text) if self.normalize else text
        found = self._compiled.search(text)
        phrase = f"matches at {quoted(found.group())}" if found else "does not match"
        return RuleFinding((found is not None) == (self.op == "regex"), f"the {field} {phrase}: {self.pattern}")

    @cached_property
    def _compiled(self) -> Pattern:
        return compiled(self.pattern, 0 if self.case_sensitive else re.IGNORECASE)


class ComparisonOperation(AgainstOperation):
    """Compares a number with another. A text that spells out a number counts as one; anything else fails.

    Attributes:
        value: The other number.
        against: A case field that holds it; instead of `value`.
    """

    op: Literal["less_than", "less_than_equals", "greater_than", "greater_than_equals"]
    value: float | None = Field(default=None, allow_inf_nan=False)

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        given = look_up(field, fields)
        other = look_up(self.against, fields) if self.against else self.value
        number, limit = as_number(given), as_number(other)
        for name, wanted, shown in ((field, number, given), (self.against, limit, other)):
            if wanted is None:
                return RuleFinding(passed=False, reason=f"the {name} is no number: {quoted(written(shown))}")
        assert number is not None
        assert limit is not None
        compare, words = _NUMBERS[self.op]
        holds = compare(number, limit)
        named = f"the {self.against} " if self.against else ""
        return RuleFinding(holds, f"the {field} {number:g} is {'' if holds else 'not '}{words} {named}{limit:g}")


def as_number(value: Any) -> float | None:
    """The number that a value is or spells out; None for anything else, including true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def quoted(text: str) -> str:
    """A text in quotes on one line, truncated if long."""
    flat = " ".join(text.split())
    return f'"{flat}"' if len(flat) <= _QUOTE else f'"{flat[: _QUOTE - 1]}…"'


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
        got = ", ".join(_shown(value, wanted) for value in values[:3])
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
        return json_equal(value, self.equals)

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

    model_config = ConfigDict(populate_by_name=True, defer_build=True)
    op: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")

    @model_validator(mode="after")
    def _checked(self) -> JsonSchemaOperation:
        _ = self._fault
        return self

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
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


def _shown(value: Any, wanted: str) -> str:
    """A value for a reason; its type is added if it looks like the wanted text but has another type."""
    text = written(value)
    return f"{text} (no text)" if text == wanted and not isinstance(value, str) else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else quoted(text)


@dataclass(frozen=True)
class Rulebook:
    """Operations over a case field. `all` and `any` give 1 or 0; `mean` gives the share of those that hold."""

    field: str
    operations: Sequence[Operation]
    combine: Combine = "all"

    async def score(self, fields: Mapping[str, Any]) -> Outcome:
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
        return [
            {"id": one.op, "check": one.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
            for one in self.operations
        ]


def _reason(findings: Sequence[RuleFinding], passed: bool) -> str:
    return "; ".join([finding.reason for finding in findings if finding.passed == passed])

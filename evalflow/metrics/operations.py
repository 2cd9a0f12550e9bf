"""Operations on one case field: texts, patterns, numbers and lengths; no model or network is used.

`rulebook` lists all operations and has those that combine others; formats such as JSON have their own modules.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from evalflow.config.schema import FIELDS, Strict, Word, with_examples
from evalflow.metrics.reasons import one_line
from evalflow.metrics.references import references_at
from evalflow.values.cells import list_in, number_of
from evalflow.values.jsonvalues import kind, look_up, written
from evalflow.values.patterns import TEMPLATE, Pattern, declared
from evalflow.values.segments import word_count
from evalflow.values.trajectories import listed

NormalForm = Literal["NFC", "NFKC", "NFD", "NFKD"]
LetterCase = Literal["lower", "upper"]
Read = tuple[str, str]
"""A field that an operation reads, and the key path that names it ("" for the metric's or check's field)."""
_QUOTE = 80
_TEXTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = {
    "equals": (operator.eq, "equals", "does not equal"),
    "contains": (operator.contains, "contains", "does not contain"),
    "starts_with": (str.startswith, "starts with", "does not start with"),
    "ends_with": (str.endswith, "ends with", "does not end with"),
}  # text comparisons with their phrases for yes and no; all but the last two also exist as `not_`
_NUMBERS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "less_than": (operator.lt, "less than"),
    "less_than_equals": (operator.le, "at most"),
    "greater_than": (operator.gt, "greater than"),
    "greater_than_equals": (operator.ge, "at least"),
}
_UNITS: Mapping[str, Callable[[str], int]] = {
    "characters": len,
    "words": word_count,
    "lines": lambda text: len(text.splitlines()),
}


BLANKS = "\t\n\v\f\r \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""White space of Unicode's category Zs, line ends, tabs and byte order marks, as JavaScript has it."""


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of an operation on a field. The one-line reason is also true if the operation is negated."""

    passed: bool
    reason: str


class BaseOperation(Strict):
    """A rule over a case field; `op` selects it.

    Attributes:
        field: The case field, or a dotted path into one, such as latency_s or metadata.language; null: the field that
            the metric or the check names.
    """

    field: Word | None = None

    @property
    def quick(self) -> bool:
        """Whether it is fast for any text, so that it may run in the event loop."""
        return False

    def reads(self, field: str) -> Iterator[Read]:
        """The fields that it reads; `field` is the metric's or check's own."""
        yield ("", field) if self.field is None else ("field", self.field)

    def apply(self, field: str, fields: Mapping[str, object]) -> RuleFinding:
        """Check the operation's own field, else `field`; LimitExceeded if that takes too long."""
        name = self.field or field
        return self.test(name, look_up(name, fields), fields)

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        """Check a value; `name` is what the reason calls it."""
        raise NotImplementedError


class QuickOperation(BaseOperation):
    """An operation that is fast for any text."""

    @property
    def quick(self) -> bool:
        return True


class AgainstOperation(QuickOperation):
    """Compares a field with `value` or with another field, `against`.

    If only `against` is a list, matching one entry is enough; two lists are compared as wholes.
    """

    against: Word | None = None

    @model_validator(mode="after")
    def _no_template(self) -> AgainstOperation:
        value = getattr(self, "value", None)
        match = TEMPLATE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match and match["name"] in FIELDS:
            field = match[0].strip("{}- ")
            raise ValueError(
                f"{match[0]} would be compared literally; to compare with the case's field: against: {field}"
            )
        return self

    @model_validator(mode="after")
    def _one_other(self) -> AgainstOperation:
        if (getattr(self, "value", None) is None) == (self.against is None):
            raise ValueError(f"{getattr(self, 'op', '')} needs exactly one of `value` and `against`")
        return self

    def reads(self, field: str) -> Iterator[Read]:
        yield from super().reads(field)
        if self.against is not None:
            yield "against", self.against

    def others(self, value: object, fields: Mapping[str, object]) -> Sequence[object]:
        """The values of `against` to compare a value with."""
        assert self.against is not None
        return (look_up(self.against, fields),) if isinstance(value, list) else references_at(self.against, fields)


class TextChanges(Strict):
    """Normalisation of a text before a rule is applied.

    Attributes:
        normalize: The Unicode form to convert texts to, since an accented letter has several encodings; null:
            unchanged.
        trim: Whether to strip white space around them.
        letter_case: lower or upper: convert the field's text to this case; the text to compare with is unchanged.
    """

    normalize: NormalForm | None = "NFC"
    trim: bool = False
    letter_case: LetterCase | None = None

    def changed(self, text: str) -> str:
        """The text of the field as the rule sees it."""
        text = self.tidied(text)
        return text.lower() if self.letter_case == "lower" else text.upper() if self.letter_case == "upper" else text

    def tidied(self, text: str) -> str:
        """A text in the configured Unicode form, stripped if `trim` is set."""
        text = unicodedata.normalize(self.normalize, text) if self.normalize else text
        return text.strip(BLANKS) if self.trim else text


class SpellingOperation(TextChanges, QuickOperation):
    """Settings for comparing texts.

    Attributes:
        case_sensitive: Whether upper and lower case differ.
    """

    case_sensitive: bool = True

    def form(self, text: str) -> str:
        """The text to compare with, normalised."""
        text = self.tidied(text)
        return text if self.case_sensitive else text.casefold()

    def own_form(self, text: str) -> str:
        """The field's text, normalised."""
        text = self.changed(text)
        return text if self.case_sensitive else text.casefold()


class TextOperation(SpellingOperation, AgainstOperation):
    """Compares a text with another.

    Attributes:
        value: The other text.
        against: A case field that holds it, such as reference or expected, or a list of them; instead of `value`.
    """

    model_config = with_examples(
        {"op": "equals", "value": "Yes", "case_sensitive": False},
        {"op": "not_equals", "value": "Yes"},
        {"op": "contains", "value": "three"},
        {"op": "not_contains", "value": "as an AI"},
        {"op": "starts_with", "value": "Dear"},
        {"op": "ends_with", "value": "?"},
    )
    op: Literal["equals", "not_equals", "contains", "not_contains", "starts_with", "ends_with"]
    value: Word | None = None

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        text = self.own_form(written(value))
        if self.against is None:
            other, named = self._value
            passed, phrase = self._compare(text, other)
            return RuleFinding(passed, f"the {name} {phrase} {named}")
        others = [written(one) for one in self.others(value, fields)]
        comparisons = [self._compare(text, self.form(other)) for other in others]
        negated = self.op.startswith("not_")
        held = [passed != negated for passed, _ in comparisons]
        if len(others) != 1 and not any(held):
            relation = f"{_TEXTS[self.op.removeprefix('not_')][2]} any {self.against}: {_quotes(others)}"
            return RuleFinding(negated, f"the {name} {relation}")
        place = held.index(True) if any(held) else 0
        among = f", {place + 1} of {len(others)}" if len(others) > 1 else ""
        passed, phrase = comparisons[place]
        return RuleFinding(passed, f"the {name} {phrase} the {self.against} {quoted(others[place])}{among}")

    @cached_property
    def _value(self) -> tuple[str, str]:
        return self.form(self.value or ""), quoted(self.value or "")

    def _compare(self, text: str, other: str) -> tuple[bool, str]:
        compare, yes, no = _TEXTS[self.op.removeprefix("not_")]
        holds = compare(text, other)
        return holds != self.op.startswith("not_"), yes if holds else no


class TextListOperation(SpellingOperation):
    """Compares a text with several.

    Attributes:
        values: The other texts: the field contains one of them, contains all of them, or equals one of them.
    """

    model_config = with_examples(
        {"op": "one_of", "values": ["yes", "no"], "trim": True},
        {"op": "contains_any", "values": ["3", "three"]},
        {"op": "contains_all", "values": ["20", "cents"]},
    )
    op: Literal["contains_any", "contains_all", "one_of"]
    values: list[Word] = Field(min_length=1)

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        text = self.own_form(written(value))
        same = [(text == other) if self.op == "one_of" else (other in text) for other in self._others]
        yes, no = ("equals", "equals none of") if self.op == "one_of" else ("contains", "contains none of")
        matched = [one for one, holds in zip(self.values, same, strict=True) if holds]
        missed = [one for one, holds in zip(self.values, same, strict=True) if not holds]
        if self.op == "contains_all" and missed:
            return RuleFinding(passed=False, reason=f"the {name} does not contain {_quotes(missed)}")
        if not matched:
            return RuleFinding(passed=False, reason=f"the {name} {no} {_quotes(missed)}")
        return RuleFinding(passed=True, reason=f"the {name} {yes} {_quotes(matched)}")

    @cached_property
    def _others(self) -> Sequence[str]:
        return [self.form(value) for value in self.values]


class SearchOperation(TextChanges, BaseOperation):
    """Searches a text for a regular expression, in the syntax of Python's `re`.

    Attributes:
        pattern: The expression; best in single quotes in YAML.
        case_sensitive: Whether upper and lower case differ.
    """

    pattern: Word
    case_sensitive: bool = True

    @model_validator(mode="after")
    def _compiles(self) -> SearchOperation:
        _ = self.compiled
        return self

    def searched(self, value: object) -> str:
        return self.changed(written(value))

    @cached_property
    def compiled(self) -> Pattern:
        return declared(self.pattern, 0 if self.case_sensitive else re.IGNORECASE)


class PatternOperation(SearchOperation):
    """Searches a text for a regular expression, in the syntax of Python's `re`."""

    model_config = with_examples(
        {"op": "regex", "pattern": "[0-9]+ cents"}, {"op": "not_regex", "pattern": "(?i)sorry"}
    )
    op: Literal["regex", "not_regex"]

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        match = self.compiled.search(self.searched(value))
        phrase = f"matches at {quoted(match.group())}" if match else "does not match"
        return RuleFinding((match is not None) == (self.op == "regex"), f"the {name} {phrase}: {self.pattern}")


class Limits(Strict):
    """Inclusive limits of a number.

    Attributes:
        min: The smallest number allowed.
        max: The largest number allowed.
    """

    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _limited(self) -> Limits:
        op = getattr(self, "op", "")
        if self.min is None and self.max is None:
            raise ValueError(f"{op} needs `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"no {op} is at least {self.min} and at most {self.max}")
        return self

    def allows(self, count: int) -> bool:
        return (self.min is None or count >= self.min) and (self.max is None or count <= self.max)

    @property
    def in_words(self) -> str:
        if self.min is not None and self.max is not None:
            return f"exactly {self.min}" if self.min == self.max else f"{self.min} to {self.max}"
        return f"at most {self.max}" if self.min is None else f"at least {self.min}"


class CountOperation(SearchOperation, Limits):
    """Counts the non-overlapping matches of a regular expression."""

    model_config = with_examples({"op": "count", "pattern": "\\?", "max": 1})
    op: Literal["count"]

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        count = self.compiled.count(self.searched(value))
        matches = "match" if count == 1 else "matches"
        reason = f"the {name} has {count:,} {matches} of {self.pattern}; allowed: {self.in_words}"
        return RuleFinding(self.allows(count), reason)


class NumberOperation(AgainstOperation):
    """Compares a number with another. A text such as "3.5" counts as a number; anything else fails.

    Attributes:
        value: The other number.
        against: A case field that holds it, or a list of them; instead of `value`.
    """

    value: float | None = Field(default=None, allow_inf_nan=False)

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        others = self.others(value, fields) if self.against else (self.value,)
        number, limits = spelled_number(value), [spelled_number(other) for other in others]
        known = [limit for limit in limits if limit is not None]
        if number is None:
            return RuleFinding(passed=False, reason=f"the {name} is not a number: {quoted(written(value))}")
        if not known:
            shown = _quotes([written(other) for other in others])
            return RuleFinding(passed=False, reason=f"the {self.against} is not a number: {shown}")
        comparisons = [(*self._compare(number, limit), limit) for limit in known]
        holds, phrase, limit = next((one for one in comparisons if one[0]), comparisons[0])
        named = f"the {self.against} " if self.against else ""
        shown = ", ".join(f"{one:g}" for one in known) if not holds else f"{limit:g}"
        return RuleFinding(holds, f"the {name} {number:g} is {'' if holds else 'not '}{phrase} {named}{shown}")

    def _compare(self, number: float, limit: float) -> tuple[bool, str]:
        raise NotImplementedError


class ComparisonOperation(NumberOperation):
    """Says which of two numbers is larger. A text such as "3.5" counts as a number; anything else fails."""

    model_config = with_examples(
        {"op": "less_than", "value": 5},
        {"op": "less_than_equals", "value": 5},
        {"op": "greater_than", "value": 5},
        {"op": "greater_than_equals", "value": 5},
    )
    op: Literal["less_than", "less_than_equals", "greater_than", "greater_than_equals"]

    def _compare(self, number: float, limit: float) -> tuple[bool, str]:
        compare, phrase = _NUMBERS[self.op]
        return compare(number, limit), phrase


class ToleranceOperation(NumberOperation):
    """Says whether two numbers are close: they differ by at most `tolerance`, or by `relative` as a share of the other.

    Attributes:
        tolerance: The largest difference.
        relative: The largest difference as a share of the other number: 0.05 allows 5 %.
    """

    model_config = with_examples({"op": "close_to", "value": 3.14, "tolerance": 0.01})
    op: Literal["close_to"]
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    relative: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def _compare(self, number: float, limit: float) -> tuple[bool, str]:
        # Decimal arithmetic, as people expect: 1.1 is within 0.1 of 1, although its binary fraction is not.
        one, other, tolerance, relative = (
            Decimal(repr(float(given))) for given in (number, limit, self.tolerance, self.relative)
        )
        allowed = max(tolerance, relative * abs(other))
        return abs(one - other) <= allowed, f"within {float(allowed):g} of"


class LengthOperation(TextChanges, QuickOperation, Limits):
    """Counts the characters, words, lines or items of a value and compares the count with inclusive limits.

    Attributes:
        unit: What is counted: characters, words (between white space; each character where a script has no spaces) and
            lines of a text; items of a list.
    """

    model_config = with_examples({"op": "length", "unit": "words", "min": 2, "max": 4})
    op: Literal["length"]
    unit: Literal["characters", "words", "lines", "items"] = "characters"
    normalize: NormalForm | None = None

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        count = counted(self.unit, value if self.unit == "items" else self.changed(written(value)))
        if count is None:
            return RuleFinding(passed=False, reason=f"the {name} is not a list: it is {kind(value)}")
        unit = self.unit.removesuffix("s") if count == 1 else self.unit
        return RuleFinding(self.allows(count), f"the {name} has {count:,} {unit}; allowed: {self.in_words}")


def counted(unit: str, value: object) -> int | None:
    """The number of characters, words or lines of a text, or of items of a list; None if it has no list of items."""
    if unit != "items":
        return _UNITS[unit](written(value))
    if isinstance(value, str):
        try:
            value = list_in(value)
        except ValueError:
            return None
    return len(value) if isinstance(value, Sized) and not isinstance(value, str) else None


def spelled_number(value: object) -> float | None:
    """The value as a number, parsed if it is a text; None for anything else, including true and false."""
    number = number_of(value)
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def quoted(text: str) -> str:
    """A text in quotes on one line, truncated if long."""
    return f'"{one_line(text, _QUOTE)}"'


def _quotes(texts: Sequence[str]) -> str:
    return listed(map(quoted, texts), len(texts))

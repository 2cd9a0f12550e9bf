"""Operations of a check on a case field. They are deterministic and need no model or network."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.jsonvalues import look_up
from evalflow.metrics.json_schema import written
from evalflow.patterns import Pattern, compiled

NormalForm = Literal["NFC", "NFKC", "NFD", "NFKD"]
_QUOTE = 80
_TEXTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = MappingProxyType(
    {
        "equals": (operator.eq, "equals", "does not equal"),
        "contains": (operator.contains, "contains", "does not contain"),
        "starts_with": (str.startswith, "starts with", "does not start with"),
        "ends_with": (str.endswith, "ends with", "does not end with"),
    }
)
"""Text comparisons, with the phrases for yes and no; each but the last two also as `not_`."""
_NUMBERS: Mapping[str, tuple[Callable[[float, float], bool], str]] = MappingProxyType(
    {
        "less_than": (operator.lt, "less than"),
        "less_than_equals": (operator.le, "at most"),
        "greater_than": (operator.gt, "greater than"),
        "greater_than_equals": (operator.ge, "at least"),
    }
)


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of an operation on a field, with a one-line reason."""

    passed: bool
    reason: str


class BaseOperation(Strict):
    """A rule over a case field; `op` selects it."""

    @property
    def quick(self) -> bool:
        """Whether it is fast for any text, and may run in the event loop."""
        return False

    def others(self) -> Sequence[str]:
        """The further fields that it reads."""
        return ()

    def apply(self, field: str, fields: Mapping[str, Any]) -> RuleFinding:
        """Check a case field; raises TooSlow if a pattern, path or schema takes too long.

        Args:
            field: The field, or a dotted path into one.
            fields: All fields; those that it reads are present.
        """
        raise NotImplementedError


class AgainstOperation(BaseOperation):
    """Compares a field with either `value` or another field, `against`."""

    against: Word | None = None

    @property
    def quick(self) -> bool:
        """Always true."""
        return True

    @model_validator(mode="after")
    def _one_other(self) -> AgainstOperation:
        if (getattr(self, "value", None) is None) == (self.against is None):
            raise ValueError(f"{getattr(self, 'op', '')} needs exactly one of `value` and `against`")
        return self

    def others(self) -> Sequence[str]:
        """The field in `against`, if any."""
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
        """See `BaseOperation`."""
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
        """The other text, normalised for comparison and as shown."""
        return self._form(self.value or ""), quoted(self.value or "")

    def _compare(self, text: str, other: str) -> tuple[bool, str]:
        """Whether the operation holds, and the phrase for the result."""
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
        """See `BaseOperation`."""
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
        """See `BaseOperation`."""
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

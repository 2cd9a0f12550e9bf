"""What a check can ask of a text. No model, no network: the same text always gets the same answer."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.metrics.inputs import look_up

NormalForm = Literal["NFC", "NFKC", "NFD", "NFKD"]


class TextOperation(Strict):
    """Compares a text with another one.

    Attributes:
        value: The other text.
        against: A case field that holds it, such as reference or expected; instead of `value`.
        case_sensitive: Whether upper and lower case differ.
        normalize: The Unicode form both texts are brought to first, since an accented letter has several spellings;
            null compares them as they are.
        trim: Whether white space around both texts is left out.
    """

    op: Literal["equals", "not_equals", "contains", "not_contains", "starts_with", "ends_with"]
    value: Word | None = None
    against: Word | None = None
    case_sensitive: bool = True
    normalize: NormalForm | None = "NFC"
    trim: bool = False

    @model_validator(mode="after")
    def _one_other(self) -> TextOperation:
        if (self.value is None) == (self.against is None):
            raise ValueError(f"{self.op} needs exactly one of `value` and `against`")
        return self


class PatternOperation(Strict):
    """Looks for a regular expression anywhere in a text, in the syntax of Python's `re`.

    Attributes:
        pattern: The expression; in YAML best in single quotes.
        case_sensitive: Whether upper and lower case differ.
        normalize: The Unicode form the text is brought to first; null leaves it as it is.
    """

    op: Literal["regex", "not_regex"]
    pattern: Word
    case_sensitive: bool = True
    normalize: NormalForm | None = "NFC"

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        import regex

        try:
            re.compile(pattern)
            regex.compile(_in_regex(pattern))
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return pattern


Operation = Annotated[TextOperation | PatternOperation, Field(discriminator="op")]


PATIENCE_S = 1.0
"""Seconds that one search for a regular expression may take; what takes longer is backtracking without end."""
# An escaped character, a set, or a brace that opens no quantifier.
_READ_OTHERWISE = re.compile(
    r"(?P<escaped>\\.)|\[\^?\]?(?P<set>(?:\\.|[^\]\\])*)\]|(?P<brace>\{(?!\d*,?\d*\}))", re.DOTALL
)


class TooSlow(Exception):
    """A regular expression backtracks without end on a text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an operation says of a text, and why in one line."""

    passed: bool
    reason: str


def apply(operation: Operation, field: str, fields: Mapping[str, Any]) -> Finding:
    """Apply an operation to a case field.

    Args:
        operation: What is asked.
        field: The case field it is asked of.
        fields: All fields, none of those concerned absent.

    Raises:
        TooSlow: A pattern takes too long on this text.
    """
    text = as_text(look_up(field, fields))
    if isinstance(operation, PatternOperation):
        return _search(operation, field, _form(text, operation))
    other = as_text(look_up(operation.against, fields)) if operation.against else operation.value or ""
    passed, phrase = _compare(operation.op, _form(text, operation), _form(other, operation))
    named = f"the {operation.against} " if operation.against else ""
    return Finding(passed, f"the {field} {phrase} {named}{_quoted(other)}")


def as_text(value: Any) -> str:
    """Text as it is; anything else as JSON, so that 3 and "3" read the same."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _compare(op: str, text: str, other: str) -> tuple[bool, str]:
    """Whether the operation holds, and the phrase for what is the case."""
    match op.removeprefix("not_"):
        case "equals":
            holds, words = text == other, ("equals", "does not equal")
        case "contains":
            holds, words = other in text, ("contains", "does not contain")
        case "starts_with":
            holds, words = text.startswith(other), ("starts with", "does not start with")
        case _:
            holds, words = text.endswith(other), ("ends with", "does not end with")
    return holds != op.startswith("not_"), words[0] if holds else words[1]


def _search(operation: PatternOperation, field: str, text: str) -> Finding:
    import regex  # Python's own `re` cannot be stopped

    # Case is folded by a flag and not in the pattern, where \D and \d would become the same.
    flags = 0 if operation.case_sensitive else regex.IGNORECASE
    try:
        found = regex.search(_in_regex(operation.pattern), text, flags | regex.VERSION0, timeout=PATIENCE_S)
    except TimeoutError:
        raise TooSlow(f"the pattern takes too long on this text: {operation.pattern}") from None
    passed = (found is not None) == (operation.op == "regex")
    phrase = f"matches at {_quoted(found.group())}" if found else "does not match"
    return Finding(passed, f"the {field} {phrase}: {operation.pattern}")


def _in_regex(pattern: str) -> str:
    """A pattern in the syntax of the package `regex`, to which `[:alpha:]` in a set and `{e}` mean something else."""
    return _READ_OTHERWISE.sub(_escaped, pattern)


def _escaped(found: re.Match[str]) -> str:
    if found["brace"]:
        return r"\{"
    if found["set"] and "[" in found["set"]:
        inside = re.sub(r"(\\.)|\[", lambda part: part[1] or r"\[", found["set"], flags=re.DOTALL)
        return f"{found[0][: found.start('set') - found.start()]}{inside}]"
    return found[0]


def _form(text: str, operation: TextOperation | PatternOperation) -> str:
    if operation.normalize:
        text = unicodedata.normalize(operation.normalize, text)
    if isinstance(operation, TextOperation):
        text = text.strip() if operation.trim else text
        text = text if operation.case_sensitive else text.casefold()
    return text


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f'"{flat}"' if len(flat) <= 80 else f'"{flat[:79]}…"'

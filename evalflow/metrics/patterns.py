"""Searching texts for regular expressions in the syntax of Python's `re`, with a limit to the time that takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

PATIENCE_S = 1.0
"""Seconds that one search may take; what takes longer is backtracking without end."""
# An escaped character, a set, or a brace that opens no quantifier.
_READ_OTHERWISE = re.compile(
    r"(?P<escaped>\\.)|\[\^?\]?(?P<set>(?:\\.|[^\]\\])*)\]|(?P<brace>\{(?!\d*,?\d*\}))", re.DOTALL
)


class TooSlow(Exception):
    """A regular expression backtracks without end on a text."""


def compiled(pattern: str, *, case_sensitive: bool = True) -> regex.Pattern[str]:
    """A pattern, ready for `search`. Python's own `re` cannot be stopped, so that the package `regex` runs it.

    Raises:
        ValueError: It is no regular expression.
    """
    import regex

    # Case is folded by a flag and not in the pattern, where \D and \d would become the same.
    flags = regex.VERSION0 if case_sensitive else regex.VERSION0 | regex.IGNORECASE
    try:
        re.compile(pattern)
        return regex.compile(_in_regex(pattern), flags)
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None


def search(pattern: regex.Pattern[str], text: str, written: str) -> regex.Match[str] | None:
    """The first match anywhere in a text.

    Args:
        pattern: From `compiled`.
        text: Where to look.
        written: The pattern as its author wrote it, for messages.

    Raises:
        TooSlow: It takes too long on this text.
    """
    try:
        return pattern.search(text, timeout=PATIENCE_S)
    except TimeoutError:
        raise TooSlow(f"the pattern takes too long on this text: {written}") from None


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

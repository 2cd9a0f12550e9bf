"""Searches text for regular expressions in the syntax of Python's `re`, with a time limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.limited import LimitExceeded

if TYPE_CHECKING:
    import regex

PATIENCE_S = 1.0  # time limit in seconds for one search; slower ones are catastrophic backtracking
LARGEST = 100_000
"""Maximum number of parts of a pattern. `regex` expands repetitions, so that (?:a{1000}){1000} has a million parts."""
TEMPLATE = re.compile(r"\{\{-?\s*+(?P<name>[A-Za-z_]\w*+)[^{}]*+\}\}")
"""Matches a variable in template syntax. Nothing is tried twice, so that any text takes time by its length."""
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<times>\d+)(?:,\d*)?\}|.", re.DOTALL)
# An escaped character, a set, or a brace that opens no quantifier.
_READ_OTHERWISE = re.compile(
    r"(?P<escaped>\\.)|\[\^?\]?(?P<set>(?:\\.|[^\]\\])*)\]|(?P<brace>\{(?!\d*,?\d*\}))", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regular expression. It is run by the package `regex`, since Python's own `re` cannot be stopped."""

    text: str
    _compiled: regex.Pattern[str]

    def search(self, text: str) -> regex.Match[str] | None:
        try:
            return self._compiled.search(text, timeout=PATIENCE_S, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None

    def fullmatch(self, text: str) -> regex.Match[str] | None:
        try:
            return self._compiled.fullmatch(text, timeout=PATIENCE_S, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None

    def finditer(self, text: str) -> Iterator[regex.Match[str]]:
        """All matches, from left to right."""
        try:
            yield from self._compiled.finditer(text, timeout=PATIENCE_S, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None

    def count(self, text: str) -> int:
        """The number of matches, which do not overlap."""
        return sum(1 for _ in self.finditer(text))

    def _too_slow(self) -> LimitExceeded:
        return LimitExceeded(f"the pattern takes too long on this text: {self.text}")


def compiled(pattern: str, flags: int = 0) -> Pattern:
    """Compile a pattern; ValueError if it is none, LimitExceeded if it is too large."""
    import regex

    # A flag folds the case; in the pattern, \D and \d would become the same.
    known = {re.I: regex.I, re.M: regex.M, re.S: regex.S, re.A: regex.A}
    try:
        re.compile(pattern, flags)
        expect_small(pattern)
        meant = sum(int(own) for flag, own in known.items() if flags & flag)
        # `regex` treats `[:alpha:]` in a set and `{e}` specially.
        written = _READ_OTHERWISE.sub(_escaped, pattern)
        return Pattern(pattern, regex.compile(written, int(regex.VERSION0) | meant))
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def declared(pattern: str, flags: int = 0) -> Pattern:
    """Compile a pattern that somebody has written for a metric or a target; ValueError also for one with a variable."""
    if match := TEMPLATE.search(pattern):
        escaped = match[0].replace("{", r"\{").replace("}", r"\}")
        what = f"{match[0]} in a pattern would be taken letter for letter, since a pattern is not a template"
        raise ValueError(
            f"{what}: compare by `against`, take a part by target.extract, or escape the braces: {escaped}"
        )
    return compiled(pattern, flags)


def expect_small(pattern: str) -> None:
    """Raise LimitExceeded for a pattern that could not be compiled in time; compiling cannot be interrupted."""
    groups, last = [0], 0
    for part in _PART.finditer(pattern):
        if part[0] == "(":
            groups.append(0)
        elif part["times"]:
            groups[-1] += last * max(int(part["times"][:9]) - 1, 0)
        else:
            last = groups.pop() if part[0] == ")" and len(groups) > 1 else 1
            groups[-1] += last
    if sum(groups) > LARGEST:
        raise LimitExceeded(f"the pattern is too large with its repetitions written out: {pattern[:80]}")


def _escaped(match: re.Match[str]) -> str:
    if match["brace"]:
        return r"\{"
    if match["set"] and "[" in match["set"]:
        inside = re.sub(r"(\\.)|\[", lambda part: part[1] or r"\[", match["set"], flags=re.DOTALL)
        return f"{match[0][: match.start('set') - match.start()]}{inside}]"
    return match[0]

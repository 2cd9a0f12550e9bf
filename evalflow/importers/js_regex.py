"""Regular expressions of JavaScript in the syntax of Python's `re`, with the same meaning."""

from __future__ import annotations

import re
import warnings

from evalflow.importers.ledger import Untranslatable

_SPACES = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_LINE_ENDS = r"\n\r\u2028\u2029"
_KEPT = frozenset("bBdDwWfnrtvx")  # escapes with the same meaning, given the flag for ASCII
_NAME = re.compile(r"<([A-Za-z_$][\w$]*)>")
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_HEX = {"x": re.compile(r"x[0-9a-fA-F]{2}"), "u": re.compile(r"u[0-9a-fA-F]{4}")}


def python_regex(pattern: str) -> str:
    r"""The pattern for Python; Untranslatable if JavaScript does not compile it, or Python has nothing like it.

    `\d`, `\w` and `\b` know only ASCII in JavaScript, `$` is the very end, and `.` is no line end.
    """
    if len(pattern) > 10_000:
        raise Untranslatable("its pattern is longer than 10,000 characters")
    text = "(?a)" + _Translation(pattern).whole()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise Untranslatable(f"its pattern {pattern!r} does not compile in Python: {error}") from None
    return text


class _Translation:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        character = self._take()
        if character == "\\":
            return self._escape(in_class=False)
        if character == "[":
            return self._class()
        if character == "(":
            return self._group()
        if character == "$":
            return r"\Z"
        if character == ".":
            return f"[^{_LINE_ENDS}]"
        if character == "{":
            found = _QUANTIFIER.match(self._pattern, self._at - 1)
            if not found:
                return r"\{"
            self._at = found.end()
            return found[0]
        return r"\}" if character == "}" else character

    def _take(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _group(self) -> str:
        rest = self._pattern[self._at :]
        if not rest.startswith("?"):
            return "("
        if rest[:2] in ("?:", "?=", "?!") or rest[:3] in ("?<=", "?<!"):
            return "("
        name = _NAME.match(rest, 1)
        if name:
            self._at += name.end()
            return f"(?P<{name[1].replace('$', '_')}>"
        raise Untranslatable(f"JavaScript does not compile its pattern {self._pattern!r}: (?{rest[1:3]}")

    def _escape(self, *, in_class: bool) -> str:
        if self._at >= len(self._pattern):
            raise Untranslatable(f"JavaScript does not compile its pattern {self._pattern!r}: it ends with \\")
        rest = self._pattern[self._at :]
        character = self._take()
        if character in _HEX:
            found = _HEX[character].match(rest)
            if not found:
                return character
            self._at += len(found[0]) - 1
            return f"\\{found[0]}"
        if character == "s":
            return _SPACES if in_class else f"[{_SPACES}]"
        if character == "S":
            if in_class:
                raise Untranslatable(f"its pattern {self._pattern!r} has \\S within brackets")
            return f"[^{_SPACES}]"
        if character == "k" and (name := _NAME.match(rest, 1)):
            self._at += name.end() - 1
            return f"(?P={name[1].replace('$', '_')})"
        if character == "0" and not rest[1:2].isdigit():
            return r"\x00"
        if character == "c" and rest[1:2].isalpha():
            self._at += 1
            return f"\\x{ord(rest[1].upper()) % 32:02x}"
        if in_class and character in "bB":
            return r"\x08" if character == "b" else "B"
        if character in _KEPT or character.isdigit():
            return f"\\{character}"
        return re.escape(character)

    def _class(self) -> str:
        """A class in brackets, in which Python warns of characters that may get a meaning."""
        if self._pattern.startswith("^]", self._at):
            self._at += 2
            return r"[\s\S]"
        if self._pattern.startswith("]", self._at):
            self._at += 1
            return r"(?!)"
        parts = ["["]
        if self._pattern.startswith("^", self._at):
            self._at += 1
            parts.append("^")
        while True:
            if self._at >= len(self._pattern):
                raise Untranslatable(f"JavaScript does not compile its pattern {self._pattern!r}: [ is not closed")
            character = self._take()
            if character == "]":
                return "".join([*parts, "]"])
            if character == "\\":
                if self._pattern.startswith(("s", "S"), self._at) and self._is_all():
                    parts.append(r"\s\S")
                    self._at += 3
                else:
                    parts.append(self._escape(in_class=True))
            else:
                parts.append(f"\\{character}" if character in "[&~|" else character)

    def _is_all(self) -> bool:
        r"""Whether `\s\S` or `\S\s` follows, which is any character."""
        return self._pattern[self._at : self._at + 3] in (r"s\S", r"S\s")

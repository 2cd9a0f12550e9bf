"""Regular expressions of JavaScript in the syntax of Python's `re`, with the same meaning for every text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalflow.addons.interop.importers.javascript.charsets import (
    ASCII_MAX,
    CONTROLS,
    POINT_MAX,
    Ranges,
    character_text,
    complement,
    folded,
    merged,
    set_text,
)
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.metrics.operations import BLANKS, from_utf16, in_utf16

LONGEST = 10_000  # characters of a pattern
_ENDS = r"\n\r\u2028\u2029"
_ANY = r"[\s\S]"
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SETS: Mapping[str, Ranges] = {
    "d": ((0x30, 0x39),),
    "w": _WORD,
    "s": merged((ord(item), ord(item)) for item in BLANKS),
}
BLANK_SET = set_text(_SETS["s"])
"""White space, as the inner part of a set."""
_SPECIAL = r".^$*+?{}[]\|()"
_SYNTAX = frozenset(r"^$\.*+?()[]{}|/")
_NAME = re.compile(r"<([A-Za-z_$][\w$]*)>", re.ASCII)
_REPEAT = re.compile(r"[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}", re.ASCII)
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_POINT = re.compile(r"u\{([0-9a-fA-F]+)\}()")
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_PART = re.compile(  # what is read over, and brackets that open a group
    r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<open>\((?:\?<(?P<name>[A-Za-z_$][\w$]*)>|(?!\?)))", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class JsPattern:
    """A pattern as a rule searches it.

    Attributes:
        text: The pattern for Python.
        ignores_case: Whether ASCII letters match in either case; those of other scripts stand in the text.
        utf16: Whether it must be applied to UTF-16 units.
        groups: The number of its groups.
        takes_some: Whether each match has at least one character.
    """

    text: str
    ignores_case: bool = False
    utf16: bool = False
    groups: int = 0
    takes_some: bool = True

    @property
    def keys(self) -> dict[str, object]:
        """The keys of a rule that searches for it."""
        return {
            "pattern": self.text,
            "normalize": None,
            **({"case_sensitive": False} if self.ignores_case else {}),
            **({"utf16": True} if self.utf16 else {}),
        }


def js_pattern(source: str, flags: str = "") -> JsPattern:
    r"""The pattern for Python; Untranslatable if JavaScript does not compile it, or Python has nothing like it.

    `\d`, `\w` and `\b` know only ASCII in JavaScript, `$` is the very end, `.` is not a line end, and without the flag
    u a character beyond U+FFFF is two. The flags g, y and d are about positions and results, and are not read here.
    """
    if len(source) > LONGEST:
        raise Untranslatable(f"its pattern is longer than {LONGEST:,} characters")
    if odd := set(flags) - set("dgimsuy"):
        raise Untranslatable(f"its pattern has the flag {', '.join(sorted(odd))}")
    read = _Translation(source, frozenset(flags))
    text = f"(?a){read.whole()}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(in_utf16(text) if read.utf16 else text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise Untranslatable(f"its pattern {source!r} does not compile in Python: {error}") from None
    return JsPattern(text, "i" in flags, read.utf16, read.count, read.least > 0)


@dataclass(slots=True)
class _Group:
    """A pair of brackets while it is read. One that repeats or looks around forgets what its groups matched."""

    parent: _Group | None
    forgets: bool = False

    @property
    def is_forgotten(self) -> bool:
        """Whether one around it forgets."""
        above = self.parent
        return above is not None and (above.forgets or above.is_forgotten)


@dataclass(slots=True)
class _Translation:
    """Reads a pattern from left to right."""

    source: str
    flags: frozenset[str]
    at: int = 0
    utf16: bool = False
    least: int = 0  # the fewest characters of what was read last
    opened: int = 0
    count: int = 0
    names: dict[str, int] = field(default_factory=dict[str, int])
    closed: dict[int, _Group] = field(default_factory=dict[int, "_Group"])
    referred: set[int] = field(default_factory=set[int])

    def whole(self) -> str:
        if not self._unicode:
            self.source = in_utf16(self.source)
        for item in _PART.finditer(self.source):
            if item["open"]:
                self.count += 1
                if item["name"] and self.names.setdefault(item["name"], self.count) != self.count:
                    raise self._broken("two groups have one name")
        text = self._alternatives(_Group(None))
        if self.at < len(self.source):
            raise self._broken("unmatched )")
        if any(self.closed[number].is_forgotten for number in self.referred):
            raise Untranslatable(f"its pattern {self._shown!r} refers back to a group that is repeated")
        return from_utf16(text)

    @property
    def _unicode(self) -> bool:
        return "u" in self.flags

    @property
    def _shown(self) -> str:
        return from_utf16(self.source)

    def _broken(self, why: str) -> Untranslatable:
        return Untranslatable(f"JavaScript does not compile its pattern {self._shown!r}: {why}")

    def _peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def _take(self) -> str:
        self.at += 1
        return self.source[self.at - 1]

    def _alternatives(self, inside: _Group) -> str:
        parts: list[str] = []
        least = [0]
        while self.at < len(self.source) and not self._peek(")"):
            if self._peek("|"):
                parts.append(self._take())
                least.append(0)
            else:
                parts.append(self._term(inside))
                least[-1] += self.least
        self.least = min(least)
        return "".join(parts)

    def _term(self, inside: _Group) -> str:
        """An assertion, or an atom with how often it occurs."""
        assertion = self._assertion(inside)
        if assertion is not None:
            if _REPEAT.match(self.source, self.at):
                raise self._broken("nothing to repeat")
            self.least = 0
            return assertion
        self.least = 1
        was_wide, self.utf16 = self.utf16, False
        group = _Group(inside)
        text = self._atom(group)
        repeat = self._repeat()
        group.forgets = repeat != ""
        if repeat.startswith(("*", "?", "{0")):
            self.least = 0
        if repeat and _is_half(text):
            self.utf16 = True
        # A text has the same matches of any number of wide characters, however they are counted.
        harmless = repeat in ("*", "*?") and text.startswith("[")
        self.utf16 = was_wide or (self.utf16 and not harmless)
        return text + repeat

    def _repeat(self) -> str:
        repeat = _REPEAT.match(self.source, self.at)
        if not repeat:
            return ""
        if repeat["most"] and int(repeat["most"]) < int(repeat["least"]):
            raise self._broken("numbers out of order in {} quantifier")
        self.at = repeat.end()
        lazy = "?" if self._peek("?") else ""
        self.at += len(lazy)
        if _REPEAT.match(self.source, self.at):
            raise self._broken("nothing to repeat")
        return repeat[0] + lazy

    def _assertion(self, inside: _Group) -> str | None:
        if self._peek("^"):
            self.at += 1
            return rf"(?<![^{_ENDS}])" if "m" in self.flags else "^"
        if self._peek("$"):
            self.at += 1
            return rf"(?![^{_ENDS}])" if "m" in self.flags else r"\Z"
        if self._peek(r"\b") or self._peek(r"\B"):
            self.at += 2
            return self._boundary(self.source[self.at - 1])
        look = next((item for item in ("(?=", "(?!", "(?<=", "(?<!") if self._peek(item)), None)
        if look is None:
            return None
        self.at += len(look)
        text = self._alternatives(_Group(inside, forgets=True))
        self._close()
        if "<" not in look and not self._unicode and _REPEAT.match(self.source, self.at):
            raise Untranslatable(f"its pattern {self._shown!r} repeats a look ahead")
        return f"{look}{text})"

    def _boundary(self, kind: str) -> str:
        if not ("i" in self.flags and self._unicode):
            self.utf16 = self.utf16 or (kind == "B" and not self._unicode)
            return f"\\{kind}"
        word = f"[{set_text(folded(_WORD, unicode=True))}]"
        sides = (f"(?<={word})(?!{word})", f"(?<!{word})(?={word})")
        return f"(?:{'|'.join(sides)})" if kind == "b" else f"(?!{'|'.join(sides)})"

    def _close(self) -> None:
        if not self._peek(")"):
            raise self._broken("unterminated group")
        self.at += 1

    def _atom(self, group: _Group) -> str:
        character = self._take()
        match character:
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case "(":
                return self._group(group)
            case ".":
                self.utf16 = not self._unicode
                return _ANY if "s" in self.flags else f"[^{_ENDS}]"
            case "*" | "+" | "?":
                raise self._broken("nothing to repeat")
            case "{" if self._unicode or _REPEAT.match(self.source, self.at - 1):
                raise self._broken("nothing to repeat")
            case "}" | "]" if self._unicode:
                raise self._broken("lone bracket")
            case _:
                return self._literal(ord(character))

    def _literal(self, point: int) -> str:
        if "i" in self.flags:
            same = folded(((point, point),), unicode=self._unicode)
            if same[-1][1] > ASCII_MAX and same != ((point, point),):
                return f"[{set_text(same)}]"
        return chr(point) if 0xD800 <= point <= 0xDFFF else character_text(point, _SPECIAL)

    def _group(self, group: _Group) -> str:
        rest = self.source[self.at :]
        if rest.startswith("?:"):
            self.at += 2
            text = self._alternatives(group)
            self._close()
            return f"(?:{text})"
        if rest.startswith("?"):
            name = _NAME.match(rest, 1)
            if not name:
                raise self._broken(f"invalid group (?{rest[1:3]}")
            self.at += name.end()
        self.opened += 1
        number = self.opened
        text = self._alternatives(group)
        self._close()
        self.closed[number] = group
        return f"({text})"

    def _escape(self) -> str:
        """An escape outside of a set."""
        rest = self.source[self.at :]
        if rest[:1] in ("d", "w", "s", "D", "W", "S"):
            kind = self._take()
            characters = self._set_of(kind.lower())
            self.utf16 = kind.isupper() and not self._unicode
            plain = kind in "dDwW" and characters == _SETS[kind.lower()]
            return f"\\{kind}" if plain else f"[{'^' if kind.isupper() else ''}{set_text(characters)}]"
        if rest[:1] == "k" and (self.names or self._unicode):
            name = _NAME.match(rest, 1)
            if not name or name[1] not in self.names:
                raise self._broken("invalid named reference")
            self.at += name.end()
            return self._reference(self.names[name[1]])
        number = re.match(r"[1-9]\d*", rest)
        if number and int(number[0]) <= self.count:
            self.at += len(number[0])
            return self._reference(int(number[0]))
        point = self._escaped(in_set=False)
        is_half = 0xD800 <= point <= 0xDFFF
        self.utf16 = is_half and not self._unicode
        return set_text(((point, point),)) if is_half else self._literal(point)

    def _reference(self, number: int) -> str:
        if number not in self.closed or "i" in self.flags:
            raise Untranslatable(f"its pattern {self._shown!r} refers back to a group in a way that Python cannot")
        self.referred.add(number)
        self.least = 0
        self.utf16 = not self._unicode
        return f"(?:(?({number})\\{number}))"  # a group without a match is empty text in JavaScript

    def _set_of(self, kind: str) -> Ranges:
        fold = kind == "w" and "i" in self.flags and self._unicode
        return folded(_WORD, unicode=True) if fold else _SETS[kind]

    def _escaped(self, *, in_set: bool) -> int:
        """The character that an escape stands for."""
        if self.at >= len(self.source):
            raise self._broken("\\ at end of pattern")
        rest = self.source[self.at :]
        hexadecimal = _HEX.match(rest)
        point = _POINT.match(rest) if self._unicode else None
        octal = _OCTAL.match(rest)
        control = re.match(r"c([A-Za-z0-9_])" if in_set and not self._unicode else r"c([A-Za-z])", rest)
        if code := point or hexadecimal or control:
            self.at += code.end()
            value = ord(code[1]) % 32 if code is control else int(code[1] or code[2], 16)
            return self._joined(value) if code is hexadecimal else self._expect_point(value)
        if octal and (not self._unicode or re.match(r"0(?!\d)", rest)):
            self.at += octal.end()
            return int(octal[0], 8)
        character = self._take()
        if character in CONTROLS:
            return ord(CONTROLS[character])
        if in_set and character == "b":
            return 8
        if self._unicode and character in "pP":
            raise Untranslatable(f"its pattern {self._shown!r} has \\{character}, which Python does not know")
        if self._unicode and not (character in _SYNTAX or (in_set and character == "-")):
            raise self._broken(f"invalid escape \\{character}")
        if character == "c":  # the backslash stands for itself
            self.at -= 1
            return ord("\\")
        return ord(character)

    def _joined(self, high: int) -> int:
        """With the flag u two halves are one character."""
        low = _LOW.match(self.source, self.at) if self._unicode and 0xD800 <= high <= 0xDBFF else None
        if low is None:
            return high
        self.at = low.end()
        return 0x10000 + (high - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00

    def _expect_point(self, value: int) -> int:
        if value > POINT_MAX:
            raise self._broken("invalid Unicode escape")
        return value

    def _class(self) -> str:
        """A set in brackets."""
        negated = self._peek("^")
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while not self._peek("]"):
            low = self._member()
            if not (self._peek("-") and not self._peek("-]")):
                ranges += low
                continue
            self.at += 1
            high = self._member()
            if _is_one(low) and _is_one(high):
                if low[0][0] > high[0][0]:
                    raise self._broken("range out of order in character class")
                ranges.append((low[0][0], high[0][0]))
            elif self._unicode:
                raise self._broken("invalid character class")
            else:
                ranges += [*low, *high, (ord("-"), ord("-"))]
        self.at += 1
        members = merged(ranges)
        if "i" in self.flags:
            members = folded(members, unicode=self._unicode)
        if members in ((), ((0, POINT_MAX),)):
            matches_all = negated == (members == ())
            self.utf16 = matches_all and not self._unicode
            return _ANY if matches_all else "(?!)"
        halves = any(low <= 0xDFFF and high >= 0xD800 for low, high in members)
        self.utf16 = not self._unicode and (negated or halves)
        return f"[{'^' if negated else ''}{set_text(members)}]"

    def _member(self) -> Ranges:
        """One member of a set: a character, or a set of its own such as that of digits."""
        if self.at >= len(self.source):
            raise self._broken("unterminated character class")
        character = self._take()
        if character != "\\":
            return ((ord(character), ord(character)),)
        if self.source[self.at : self.at + 1] in ("d", "w", "s", "D", "W", "S"):
            kind = self._take()
            characters = self._set_of(kind.lower())
            return complement(characters, POINT_MAX) if kind.isupper() else characters
        point = self._escaped(in_set=True)
        return ((point, point),)


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _is_half(text: str) -> bool:
    return len(text) == 1 and 0xD800 <= ord(text) <= 0xDFFF

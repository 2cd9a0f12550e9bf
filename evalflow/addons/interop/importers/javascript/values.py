"""Values of a script whose answer is not known yet, and what can be said of them by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Literal

from evalflow.addons.interop.importers.javascript.conditions import (
    ALWAYS,
    NEVER,
    NO_GUARDS,
    Formula,
    Guards,
    JsCondition,
    Rule,
    all_of,
    any_of,
    not_of,
)
from evalflow.addons.interop.importers.javascript.regex import JsPattern
from evalflow.addons.interop.importers.javascript.syntax import UNDEFINED, Node
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.metrics.operations import BLANKS, in_utf16

_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INHERITED = frozenset(
    ["constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"]
) | {"__proto__", "length"}
"""Keys that an object has though JSON does not say so, or that texts have."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, number, boolean, null or undefined that is known.

    `skips`: it is undefined since `?.` found nothing, so that the rest of the chain is not read.
    """

    value: object
    skips: bool = False


@dataclass(frozen=True, slots=True)
class JsItems:
    """A list of which the items are known one by one."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression."""

    source: str
    flags: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the script, with the names around it."""

    params: tuple[str, ...]
    body: Node
    names: Mapping[str, Value] = field(default_factory=dict[str, "Value"])


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of the script; `whole`: keys that it does not have are undefined, and not just unknown."""

    values: Mapping[str, Value]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """The answer, or a text in its JSON, and how it was changed.

    Attributes:
        path: Where it is in the JSON; empty: the answer itself.
        level: How many lists of the answer's JSON the script goes through where it is read.
    """

    path: str = ""
    guards: Guards = NO_GUARDS
    trim: bool = False
    letter_case: Literal["lower", "upper"] | None = None
    level: int = 0

    @property
    def changes(self) -> dict[str, object]:
        """The keys of a rule that changes the text like this."""
        keys: dict[str, object] = {"normalize": None}
        keys |= {"trim": True} if self.trim else {}
        return keys | ({"letter_case": self.letter_case} if self.letter_case else {})

    def rule(self, rule: Rule) -> JsCondition:
        """A rule about the text."""
        if not self.path:
            return JsCondition.of(rule)
        return JsCondition.of({"op": "jsonpath", "path": self.path, "rule": rule}, self.guards, implies=False)

    def equals(self, other: str) -> JsCondition:
        if not other:
            return self.length(None, 0)
        if (self.trim and other.strip(BLANKS) != other) or self._is_other_case(other):
            return self._never
        if self.path and self.changes == {"normalize": None}:
            return JsCondition.of({"op": "jsonpath", "path": self.path, "equals": other}, self.guards)
        return self.rule({"op": "equals", "value": other, **self.changes})

    def has(self, other: str, op: str) -> JsCondition:
        """`contains`, `starts_with`, `ends_with`."""
        if not other:
            return JsCondition.of(True, self.guards, implies=False)
        if self._is_other_case(other):
            return self._never
        if self.trim and (other[0] in BLANKS or other[-1] in BLANKS):
            ends = {"contains": "{}", "starts_with": "^{}", "ends_with": r"{}\Z"}[op]
            return self.rule({"op": "regex", "pattern": ends.format(re.escape(other)), **self.changes})
        if self.path and op == "contains" and self.changes == {"normalize": None}:
            return JsCondition.of({"op": "jsonpath", "path": self.path, "contains": other}, self.guards)
        return self.rule({"op": op, "value": other, **self.changes})

    @property
    def _never(self) -> JsCondition:
        return JsCondition.of(False, self.guards)

    def _is_other_case(self, other: str) -> bool:
        """Whether it has a letter that the changed text cannot have."""
        if self.letter_case is None:
            return False
        return any((item.lower() if self.letter_case == "lower" else item.upper()) != item for item in other)

    def matches(self, pattern: JsPattern) -> JsCondition:
        return self.rule({"op": "regex", **pattern.keys, **self.changes})

    def length(self, least: int | None, most: int | None) -> JsCondition:
        return self.rule({"op": "length", "unit": "utf16", **limits(least, most), **self._changes_of_length})

    @property
    def _changes_of_length(self) -> dict[str, object]:
        return {key: value for key, value in self.changes.items() if key != "normalize"}


@dataclass(frozen=True, slots=True)
class Json:
    """A value of unknown type in the answer's JSON.

    Attributes:
        path: Where it is.
        guards: What must hold lest reading it throws.
        maybe: Whether `?.` stands before it, so that it may be undefined where what is above it is null.
        level: How many lists of the answer's JSON the script goes through where it is read.
    """

    path: str = "$"
    guards: Guards = frozenset({"json"})
    maybe: bool = False
    level: int = 0

    def member(self, key: str | int, *, maybe: bool = False) -> Json:
        """A value below it."""
        if isinstance(key, str) and key in _INHERITED:
            raise Untranslatable("")
        if self.maybe and not maybe:
            raise Untranslatable("")
        guards = self.guards if maybe else self.guards | {f"exists {self.path}"}
        return Json(_below(self.path, key), guards, maybe or self.maybe, self.level)

    def rule(self, **keys: object) -> Rule:
        return {"op": "jsonpath", "path": self.path, **keys}

    @property
    def as_text(self) -> Text:
        """The value as a text, of which a method is called."""
        return Text(self.path, self.guards | {f"exists {self.path}", f"text {self.path}"}, level=self.level)

    @property
    def exists(self) -> Rule:
        return self.rule(missing=False)

    @property
    def is_text(self) -> Rule:
        return self.rule(matches="^")

    @property
    def is_boolean(self) -> Formula:
        return any_of(self.rule(equals=True), self.rule(equals=False))

    @property
    def is_number(self) -> Formula:
        return all_of(not_of(self.is_text), self.rule(rule={"op": "json_schema", "schema": {"type": "number"}}))

    @property
    def is_list(self) -> Formula:
        return any_of({"op": "jsonpath", "path": _below(self.path, 0), "missing": False}, self.rule(equals=[]))

    def below_each(self, **keys: object) -> Rule:
        """A rule about each item, one of which it must hold for."""
        return {"op": "jsonpath", "path": f"{self.path}[*]", **keys}

    def says(self, rule: Formula, *, implies: bool = True) -> JsCondition:
        """A rule about it, which holds only where the value is there, if it `implies` that."""
        return JsCondition.of(rule, self.guards, implies=implies)

    def has_length(self, least: int | None, most: int | None) -> Formula:
        """That it is a text or a list with so many units or items."""
        text = all_of(self.is_text, self.rule(rule={"op": "length", "unit": "utf16", **limits(least, most)}))
        parts: list[Formula] = [self.is_list]
        if least:
            parts = [{"op": "jsonpath", "path": _below(self.path, least - 1), "missing": False}]
        if most is not None:
            parts.append({"op": "jsonpath", "path": _below(self.path, most), "missing": True})
        return any_of(text, all_of(*parts))

    def compares(self, operator: str, number: float) -> Formula:
        """`<` and the like with a number, as JavaScript reads a number from other values."""
        key = {"<": "exclusiveMaximum", "<=": "maximum", ">": "exclusiveMinimum", ">=": "minimum"}[operator]
        schema = {"type": "number", key: number}
        rules: list[Formula] = [self.rule(rule={"op": "json_schema", "schema": schema})]
        for value, read in ((None, 0), (False, 0), (True, 1), ("", 0)):
            if holds(operator, read, number):
                rules.append(self.rule(equals=value))
        return any_of(*rules)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of something: `between` says by which rule it lies between two limits.

    `fits` says where it is a number at all; elsewhere it is undefined, which no comparison holds for.
    """

    between: Callable[[int | None, int | None], JsCondition]
    fits: JsCondition = ALWAYS

    def compared(self, operator: str, number: float) -> JsCondition:
        if operator in ("===", "=="):
            return self.between(int(number), int(number)) if number == int(number) and number >= 0 else self._never
        if operator in ("!==", "!="):
            return self.compared("===", number).negated()
        whole = number == int(number)
        if operator in ("<", "<="):
            most = floor(number) - (1 if operator == "<" and whole else 0)
            return self._never if most < 0 else self.between(None, most)
        least = ceil(number) + (1 if operator == ">" and whole else 0)
        return self.fits if least <= 0 else self.between(least, None)

    @property
    def _never(self) -> JsCondition:
        return self.fits.and_then(NEVER)


@dataclass(frozen=True, slots=True)
class Match:
    """What `match` or `exec` gives: null, or a list of matches.

    Attributes:
        of_all: Whether the list has all matches.
        or_empty: Whether it is an empty list in place of null.
    """

    text: Text
    pattern: JsPattern
    of_all: bool = False
    or_empty: bool = False


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text that is split.

    Attributes:
        keeps: Which pieces are kept: all, those that are not empty, that are not blank, or that begin with `start`.
        trim: Whether white space before `start` does not count.
    """

    text: Text
    separator: JsPattern
    keeps: Literal["all", "some", "visible", "begun"] = "all"
    start: str = ""
    trim: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The items of a known list that a function keeps, by the condition of each."""

    conditions: tuple[JsCondition, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """A text that is made of other values, such as a reason."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a text or pattern is found in a text: -1 if nowhere, 0 at its start."""

    found: JsCondition
    at_start: JsCondition


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text: its first or its last units."""

    text: Text
    size: int
    at_end: bool = False

    def equals(self, other: str) -> JsCondition:
        units = len(in_utf16(other))
        if units == self.size:
            return self.text.has(other, "ends_with" if self.at_end else "starts_with")
        return JsCondition.of(False, self.text.guards) if units > self.size else self.text.equals(other)


@dataclass(frozen=True, slots=True)
class TypeOf:
    """`typeof` of a value in the answer's JSON."""

    of: Json


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two values."""

    condition: JsCondition
    then: Value
    other: Value


@dataclass(frozen=True, slots=True)
class Caught:
    """A value, or another one if the first throws."""

    value: Value
    handler: Value


@dataclass(frozen=True, slots=True)
class After:
    """A value after something that may throw."""

    ends: JsCondition
    value: Value


Value = (
    Constant
    | JsItems
    | Regex
    | Function
    | Fields
    | Text
    | Json
    | Number
    | Match
    | Pieces
    | Kept
    | Words
    | Position
    | TextPart
    | TypeOf
    | Choice
    | Caught
    | After
    | JsCondition
)
UNDEFINED_VALUE, SKIPPED = Constant(UNDEFINED), Constant(UNDEFINED, skips=True)
FALSY = Constant(0.0, skips=True)
"""What is left of a value that is taken for false, whichever that is."""


def truthy(value: Value) -> JsCondition:
    """Whether `if` takes it for true."""
    match value:
        case JsCondition():
            return value
        case Constant(constant):
            return NEVER if constant is UNDEFINED or not constant else ALWAYS
        case Text():
            return value.length(1, None)
        case Json():
            nothing = [value.rule(equals=item) for item in (None, False, 0, "")]
            return value.says(all_of(value.exists, not_of(any_of(*nothing))))
        case Number():
            return value.compared("!==", 0).and_then(value.fits)
        case Match() if not value.or_empty:
            return value.text.matches(value.pattern)
        case TextPart():
            return value.text.length(1, None)
        case Position() | Words():
            raise Untranslatable("")
        case Choice():
            return value.condition.choose(truthy(value.then), truthy(value.other))
        case Caught():
            return truthy(value.value).or_caught(truthy(value.handler))
        case After():
            return value.ends.and_then(truthy(value.value))
        case _:
            return ALWAYS


def spread(value: Value, read: Callable[[Value], Value]) -> Value:
    """The same of each value that it may be."""
    match value:
        case Choice():
            return Choice(value.condition, spread(value.then, read), spread(value.other, read))
        case Caught():
            return Caught(spread(value.value, read), spread(value.handler, read))
        case After():
            return After(value.ends, spread(value.value, read))
        case _:
            return read(value)


def ends(value: Value) -> JsCondition:
    """Always true, unless reading the value throws."""
    match value:
        case JsCondition():
            return JsCondition(value.ends, False, value.guards)
        case Text() | Json():
            return JsCondition.of(True, value.guards, implies=False)
        case Match() | Pieces() | TextPart():
            return ends(value.text)
        case Position():
            return ends(value.found)
        case TypeOf():
            return ends(value.of)
        case Number():
            return ends(value.fits)
        case Choice():
            return value.condition.choose(ends(value.then), ends(value.other))
        case Caught():
            return ends(value.value).or_caught(ends(value.handler))
        case After():
            return value.ends.and_then(ends(value.value))
        case _:
            condition = ALWAYS
            for part in _parts(value):
                condition = condition.and_then(ends(part))
            return condition


def _parts(value: Value) -> tuple[Value, ...]:
    match value:
        case JsItems():
            return value.values
        case Words():
            return value.parts
        case Fields():
            return tuple(value.values.values())
        case _:
            return ()


def changed(text: Text, **changes: object) -> Text:
    """The text after a further change."""
    if text.letter_case and changes.get("letter_case") not in (None, text.letter_case):
        raise Untranslatable("it changes the case of letters twice")
    return replace(text, **changes)


def _below(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    if any(ord(item) < 0x20 for item in key):
        raise Untranslatable("")
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{quoted}']"


def limits(least: int | None, most: int | None) -> dict[str, int]:
    """The keys of a rule with limits."""
    if least is None and most is None:
        return {"min": 0}
    return {**({} if least is None else {"min": least}), **({} if most is None else {"max": most})}


def holds(operator: str, left: float, right: float) -> bool:
    """Whether one number is less or greater than another, as the operator asks."""
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]

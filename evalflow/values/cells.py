"""Texts that represent other values: lists and objects in JSON or Python syntax, numbers, true and false.

The type to read depends on what a field or a metric needs, never on what the text looks like, so each function is for
one type. A text is read only if it fits as a whole.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal, get_args

from evalflow.values.jsonvalues import DEEPEST, Unusable, as_number, is_list, is_object, kind, mended, parsed

CellType = Literal["text", "number", "boolean", "list", "json"]
"""The types that a column can be declared as."""
CELL_TYPES: tuple[CellType, ...] = get_args(CellType)

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False, "1.0": True, "0.0": False}
_SPLITTERS = ("|", "\n", ";")
_LIST_BEGINS = re.compile(r"\[\s*(?:[\"'\[{]|[A-Za-z_][\w.]*\()")
_SHOWN = 40
_AS_JSON = 'write it as JSON: ["…", "…"]'
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<name>[A-Za-z_][\w.]*)
    |(?P<mark>[\[\](){},:=])""",
    re.VERBOSE | re.DOTALL,
)
_NAMES: Mapping[str, object] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
    "nan": None,
    "NaN": None,
}
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class Base64(str):
    """Base64 text of a binary column's bytes: data, but not a text that somebody wrote."""

    __slots__ = ()


class NoLiteral(ValueError):
    """The text is not a list or an object as JSON or Python writes it; the message says why."""


def text_of(value: object) -> str:
    """The text of a text field: numbers and booleans as JSON writes them; ValueError for lists, objects and bytes."""
    if isinstance(value, Base64):
        raise ValueError("expected text, got bytes; save the column as text")
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        digits = str(value)
        return digits if "E" not in digits else json.dumps(float(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    raise ValueError(f"expected text, got {kind(value)}")


def number_of(value: object) -> int | float | None:
    """The number that a value is or that a text spells out, such as 3, 4.50, +1 or 1e5; None if it is none."""
    if isinstance(value, int | float):
        number = as_number(value)
        return value if number is not None and math.isfinite(number) else None
    if not isinstance(value, str) or not _NUMBER.fullmatch(text := value.strip()):
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    return number if any(mark in text for mark in ".eE") else int(text)


def boolean_of(value: object) -> bool | None:
    """True or false, as text also yes or no, and 1 or 0, in upper or lower case; None if it is neither."""
    if isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def list_in(text: str, *, exact: bool = False) -> list[object] | None:
    """Return the list that a text represents in JSON or Python syntax; None for other text. `exact` as in `literal`.

    ValueError for a text that begins as a list and cannot be read as one, such as a printed NumPy array.
    """
    bare = text.strip()
    try:
        value = literal(bare, exact=exact) if bare.startswith(("[", "(")) else None
    except NoLiteral as error:
        if bare.startswith("[") and _is_like_list(bare):
            what = f"{_shown(bare)} looks like a list and cannot be read as one"
            raise ValueError(f"{what}: {error}; {_AS_JSON}") from None
        return None
    return value if is_list(value) else None


def split(text: str) -> list[str]:
    """The parts of a text that holds several: by |, else by lines, else by semicolons; without blank ones."""
    mark = next((mark for mark in _SPLITTERS if mark in text), "\n")
    return [part for one in text.split(mark) if (part := one.strip())]


def object_in(text: str) -> dict[str, object]:
    """Return the object that a text represents in JSON or Python syntax; ValueError for other text."""
    bare = text.strip()
    if not bare.startswith("{"):
        raise ValueError(f"expected an object, got the text {_shown(text)}")
    try:
        value = literal(bare)
    except NoLiteral as error:
        raise ValueError(f"expected an object, got the text {_shown(text)}: {error}") from None
    if not is_object(value):
        raise ValueError(f"expected an object, got {kind(value)}")
    return value


def opened(value: object) -> object:
    """Parse a text that a path leads into as a list or an object; return any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return literal(value.strip())
        except NoLiteral:
            return value
    return value


def read_as(wanted: CellType, value: object, *, exact: bool = False) -> object:
    """The value as the declared type; None if it is blank or, as a number, nan. ValueError if it is none of it.

    `exact` as of `literal`.
    """
    if isinstance(value, str) and wanted != "text" and not value.strip():
        return None
    return _READERS[wanted](value, exact) if wanted in ("list", "json") else _READERS[wanted](value)


def _number(value: object) -> int | float | None:
    number = number_of(value)
    if number is None and not (isinstance(value, str) and value.strip().lower() == "nan"):
        hint = "write it with a decimal point and without separators, or leave it empty"
        raise ValueError(f"expected a number, got {_described(value)}; {hint}")
    return number


def _boolean(value: object) -> bool:
    boolean = boolean_of(value)
    if boolean is None:
        raise ValueError(f"expected true or false (or yes, no, 1, 0), got {_described(value)}")
    return boolean


def _list(value: object, exact: bool) -> list[object]:
    if not isinstance(value, str):
        return value if is_list(value) else [value]
    items = list_in(value, exact=exact)
    return [*split(value)] if items is None else items


def _json(value: object, exact: bool) -> object:
    try:
        return literal(value.strip(), exact=exact) if isinstance(value, str) else value
    except NoLiteral as error:
        raise ValueError(f"expected JSON, got {_described(value)}: {error}") from None


_READERS: Mapping[CellType, Callable[..., object]] = {
    "text": text_of,
    "number": _number,
    "boolean": _boolean,
    "list": _list,
    "json": _json,
}


def _described(value: object) -> str:
    return f"the text {_shown(value)}" if isinstance(value, str) else kind(value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _is_like_list(text: str) -> bool:
    """Return whether it begins like a list of texts or objects, or is entirely in brackets."""
    if _LIST_BEGINS.match(text):
        return True
    depth = 0
    for at, mark in enumerate(text):
        depth += (mark == "[") - (mark == "]")
        if depth == 0:
            return at == len(text) - 1
    return False


def literal(text: str, *, exact: bool = False) -> object:
    """The value that JSON, or else Python, writes so; tuples, sets and arrays are lists, and nan is null.

    A call with names alone, such as `Document(page_content='…')`, is an object of these. With `exact`, numbers with a
    fraction are decimals, which keep their digits. NoLiteral for anything else.
    """
    try:
        value = parsed(text.encode())
        return json.loads(mended(text.encode()), parse_float=Decimal) if exact else value
    except Unusable as error:
        raise NoLiteral(str(error)) from None
    except ValueError:
        return _Literal(text, exact).whole()


class _Literal:
    """Parses a value written by Python's `repr`, without executing anything."""

    def __init__(self, text: str, exact: bool) -> None:
        self._exact = exact
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise NoLiteral(f"{_shown(text[at:])} is not part of one")
            if token.lastgroup != "space":
                self._tokens.append((str(token.lastgroup), token[0]))
            at = token.end()
        self._at = 0

    def whole(self) -> object:
        value = self._named() if self._mark(1) == "=" else self._value(DEEPEST)
        if self._at < len(self._tokens):
            raise self._unexpected()
        return value

    def _mark(self, ahead: int = 0) -> str | None:
        place = self._at + ahead
        kind, text = self._tokens[place] if place < len(self._tokens) else ("end", "")
        return text if kind in ("mark", "end") else None

    def _unexpected(self) -> NoLiteral:
        before = self._tokens[self._at - 1][0] if self._at else ""
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")
        if kind == before and kind in ("text", "number"):
            return NoLiteral(f"there is no comma before {_shown(text)}, as in a NumPy array that was printed")
        return NoLiteral("it ends too early" if kind == "end" else f"{_shown(text)} is not expected there")

    def _take(self, mark: str) -> bool:
        is_next = self._mark() == mark
        self._at += is_next
        return is_next

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._unexpected()

    def _value(self, left: int) -> object:
        if not left:
            raise NoLiteral(f"more than {DEEPEST} lists and objects within each other")
        if self._at >= len(self._tokens):
            raise self._unexpected()
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "text":
            return _unescaped(text)
        if kind == "number":
            return self._number(text)
        if kind == "name" and self._take("("):
            return self._call(text, left - 1)
        if kind == "name" and text in _NAMES:
            return _NAMES[text]
        if text in _CLOSING and kind == "mark":
            return self._items(text, left - 1)
        self._at -= 1
        raise self._unexpected()

    def _number(self, text: str) -> int | float | Decimal:
        number = number_of(text)
        if number is None:
            raise NoLiteral(f"the number {_shown(text)} is too large")
        return Decimal(text) if self._exact and isinstance(number, float) else number

    def _items(self, opening: str, left: int) -> object:
        closing = _CLOSING[opening]
        items: list[object] = []
        values: dict[str, object] = {}
        commas = 0
        while not self._take(closing):
            if items or values:
                self._expect(",")
                commas += 1
                if self._take(closing):
                    break
            item = self._value(left)
            if opening == "{" and not items and self._take(":"):
                values[_key(item)] = self._value(left)
            elif values:
                raise self._unexpected()
            else:
                items.append(item)
        if opening == "{" and not items:
            return values
        return items[0] if opening == "(" and len(items) == 1 and not commas else items

    def _call(self, name: str, left: int) -> object:
        """The names and values in a call; of `array([…], dtype=object)` the list."""
        first: list[object] = []
        if name.endswith("array") and self._mark() == "[":
            first = [self._value(left)]
            if not self._take(","):
                self._expect(")")
                return first[0]
        values: dict[str, object] = {}
        while not self._take(")"):
            if values:
                self._expect(",")
            values |= self._pair(left, names_are_values=bool(first))
        return first[0] if first else values

    def _pair(self, left: int, *, names_are_values: bool = False) -> dict[str, object]:
        kind, name = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")
        if kind != "name":
            raise self._unexpected()
        self._at += 1
        self._expect("=")
        if names_are_values and self._mark() is None:
            self._at += 1
            return {name: None}
        return {name: self._value(left)}

    def _named(self) -> dict[str, object]:
        """Parse name=value pairs without brackets, as LangChain prints a document."""
        values: dict[str, object] = {}
        while self._at < len(self._tokens):
            values |= self._pair(DEEPEST)
        return values


def _unescaped(token: str) -> str:
    try:
        return str(ast.literal_eval(token.replace("\r", r"\r").replace("\n", r"\n")))
    except (ValueError, SyntaxError):
        raise NoLiteral(f"{_shown(token)} has an escape that nothing stands for") from None


def _key(value: object) -> str:
    try:
        return text_of(value)
    except ValueError:
        raise NoLiteral("a key is neither text nor a number") from None

"""Estimates the cost of a template's operation, in characters, before it runs.

An item of a list counts as `ITEM` characters, which is about its size in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

ITEM = 16
_CALL = 100  # of a filter, per item
_PIECE = 50  # a short text that is an item of a list
_LINE_ENDS = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_WIDTH = re.compile(r"[:%][^{}%]{0,9}?(\d+)")
_WIDTH_GIVEN = re.compile(r"%[^a-zA-Z%]*\*|:[^{}]*\{")

Cost = Callable[..., int]


def weight(value: object) -> int:
    """Approximate length of a value's text; repeated parts count each time."""
    return len(value) if isinstance(value, str | bytes) else _measured(value, {})[0]


def of_filter(name: str) -> Cost | None:
    """The cost of a filter, by its arguments; None if it is negligible."""
    return None if name in _FREE else _FILTERS.get(name, _all)


def of_test(name: str) -> Cost | None:
    """The cost of a test."""
    return _all if name in _TESTS else None


def of_method(owner: object, name: str) -> Cost:
    """The cost of a method, by its owner and its arguments."""
    if isinstance(owner, str | bytes):
        return _METHODS.get(name, _all)
    if isinstance(owner, int | float):
        return _all if name != "to_bytes" else _widened
    if isinstance(owner, Mapping) and name in ("get", "items", "keys", "values"):
        return _arguments
    return _all


def of_operator(operator: str, left: Any, right: Any) -> int:
    """The cost of `+`, `*`, `**`, `//` or `%`."""
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * max(right, 1) if operator == "**" else left.bit_length() + right.bit_length()
        return bits * bits  # more than a few thousand are too many
    if operator == "*":
        times, repeated = (left, right) if isinstance(left, int) else (right, left)
        return _length(repeated) * max(times, 0) if isinstance(times, int) else 0
    if operator == "%" and isinstance(left, str | bytes):
        return _formatted(left, *(cast("tuple[Any, ...]", right) if isinstance(right, tuple) else (right,)))
    return _length(left) + _length(right)


def _measured(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Weight and depth. A repeated part is scanned only once: a list doubled 60 times costs 60 steps."""
    if isinstance(value, str | bytes):
        return len(value) + ITEM, 0
    if isinstance(value, int):
        return value.bit_length() // 3 + ITEM, 0
    if id(value) in known:
        return known[id(value)]
    found = total, depth = 3 * ITEM, 0
    for part in _parts(value):
        inner, below = _measured(part, known)
        total += inner
        depth = max(depth, below + 1)
        found = total, depth
    known[id(value)] = found
    return found


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return (part for pair in cast("Mapping[Any, Any]", value).items() for part in pair)
    if isinstance(value, Collection):
        return cast("Collection[Any]", value)
    if is_dataclass(value):
        return (getattr(value, field.name) for field in fields(value))
    return ()


def _length(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(cast("Collection[Any]", value)) * ITEM if isinstance(value, Collection) else ITEM


def _all(*args: Any, **kwargs: Any) -> int:
    return sum(map(weight, args)) + sum(map(weight, kwargs.values()))


def _arguments(_: Any, *args: Any) -> int:
    return _all(*args)


def _times(factor: int) -> Cost:
    return lambda *args, **kwargs: factor * _all(*args, **kwargs)


def _count(text: Any, part: Any) -> int:
    if isinstance(text, str | bytes) and isinstance(part, type(text)):
        return cast("str", text).count(cast("str", part))
    return weight(text) + 1


def _number(value: Any) -> int:
    return len(value) if isinstance(value, str) else max(value, 0) if isinstance(value, int) else 0


def _replaced(text: Any, old: Any, new: Any, count: Any = None) -> int:
    times = _count(text, old)
    return weight(text) + weight(new) * (min(times, count) if isinstance(count, int) and count >= 0 else times)


def _joined(items: Any, d: Any = "", attribute: Any = None) -> int:  # noqa: ARG001 - as the filter has them
    return weight(items) + weight(d) * _length(items) // (1 if isinstance(items, str | bytes) else ITEM)


def _joined_by(text: Any, items: Any) -> int:
    return _joined(items, text)


def _widened(text: Any, width: Any = 80, *_: Any) -> int:
    return weight(text) + _number(width)


def _indented(s: Any, width: Any = 4, first: Any = False, blank: Any = False) -> int:  # noqa: ARG001
    return weight(s) + (_count(s, "\n") + 2) * _number(width)


def _wrapped(
    s: Any,
    width: Any = 79,
    break_long_words: Any = True,  # noqa: ARG001
    wrapstring: Any = None,
    break_on_hyphens: Any = True,  # noqa: ARG001
) -> int:
    size, width = weight(s), max(_number(width), 1)
    longest = max(map(len, s.split()), default=0) if isinstance(s, str) else size
    # A long word is copied once for each line that it is cut into.
    return size * (1 + weight(wrapstring or "\n")) + longest * longest // (100 * width)


def _tabs_expanded(text: Any, tabsize: Any = 8) -> int:
    return weight(text) + _count(text, "\t" if isinstance(text, str) else b"\t") * _number(tabsize)


def _translated(text: Any, table: Any, *_: Any) -> int:
    values = cast("Mapping[Any, Any]", table).values() if isinstance(table, Mapping) else ("x",)
    return weight(text) * max(map(weight, values), default=1)


def _formatted(text: Any, *args: Any, **kwargs: Any) -> int:
    text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    values = (*args, *kwargs.values())
    widths = [int(width) for width in _WIDTH.findall(text)] if len(text) < 1_000_000 else [len(text)]
    given = [_number(value) for value in _numbers(values)] if _WIDTH_GIVEN.search(text) else []
    widest = max(widths, default=0) + max(given, default=0) + max(map(weight, values), default=0)
    return len(text) + max(text.count("%"), text.count("{")) * widest


def _numbers(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        yield from cast("Mapping[Any, Any]", value).values() if isinstance(value, Mapping) else (value,)


def _pieces(text: Any, sep: Any = None, maxsplit: Any = -1) -> int:
    found = _count(text, sep) + 1 if sep else (weight(text) + 1) // 2
    return weight(text) + _PIECE * (min(found, maxsplit + 1) if isinstance(maxsplit, int) and maxsplit >= 0 else found)


def _lines(text: Any, keepends: Any = False) -> int:  # noqa: ARG001
    return weight(text) + _PIECE * (sum(_count(text, end) for end in _LINE_ENDS) if isinstance(text, str) else 0)


def _listed(value: Any) -> int:
    if isinstance(value, str):
        return len(value) * (ITEM if value.isascii() else _PIECE)
    return _length(value)


def _grouped(value: Any, number: Any = 1, fill_with: Any = None) -> int:  # noqa: ARG001
    return _PIECE * (_length(value) + _number(number))


def _summed(value: Any, attribute: Any = None, start: Any = 0) -> int:  # noqa: ARG001
    if isinstance(start, int | float):
        return _length(value)
    return weight(value) + len(value) * sum(_measured(part, {})[0] // ITEM for part in value)


def _as_json(value: Any, indent: Any = None) -> int:
    size, depth = _measured(value, {})
    return 3 * size + size // ITEM * depth * _number(indent)


def _pretty(value: Any) -> int:
    size, depth = _measured(value, {})
    return 10 * size + size * depth // ITEM


def _each(value: Any, *_: Any, **__: Any) -> int:
    """One call per item; the cost of each call is counted when it is made."""
    return _CALL * _length(value) // (1 if isinstance(value, str | bytes) else ITEM)


def _without_tags(value: Any) -> int:
    return weight(value) + weight(value) ** 2 // 2000  # each comment that is cut out copies the rest


_FREE = frozenset(("attr", "count", "d", "default", "filesizeformat", "first", "items", "last", "length", "random"))
_FILTERS: Mapping[str, Cost] = {
    "batch": _grouped,
    "center": _widened,
    "dictsort": _times(ITEM),
    "format": _formatted,
    "groupby": _times(ITEM),
    "indent": _indented,
    "join": _joined,
    "list": _listed,
    "pprint": _pretty,
    "replace": _replaced,
    "round": _widened,
    "slice": _grouped,
    "sort": _times(ITEM),
    "striptags": _without_tags,
    "sum": _summed,
    "title": _pieces,
    "tojson": _as_json,
    "unique": _times(ITEM),
    "urlencode": _times(3),
    "urlize": _times(5),
    "wordcount": _pieces,
    "wordwrap": _wrapped,
    **dict.fromkeys(("e", "escape", "forceescape", "xmlattr", "json"), _times(3)),
    **dict.fromkeys(("map", "reject", "rejectattr", "select", "selectattr"), _each),
}
_METHODS: Mapping[str, Cost] = {
    "expandtabs": _tabs_expanded,
    "format": _formatted,
    "format_map": _formatted,
    "hex": _times(3),
    "join": _joined_by,
    "replace": _replaced,
    "split": _pieces,
    "rsplit": _pieces,
    "splitlines": _lines,
    "translate": _translated,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _widened),
}
_TESTS = frozenset(
    "in == eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le lower upper".split()  # noqa: SIM905 - a line
)

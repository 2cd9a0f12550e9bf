"""Sets of characters as ranges, and which characters JavaScript's flag i takes for the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

Ranges = tuple[tuple[int, int], ...]
"""Code points as sorted ranges with both ends, which neither overlap nor touch."""
ASCII_MAX, UNIT_MAX, POINT_MAX = 0x7F, 0xFFFF, 0x10FFFF
CONTROLS: Mapping[str, str] = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OF_SETS = r"\]^-[&~|"


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges sorted, with those joined that overlap or touch."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if spans and low <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(spans[-1][1], high))
        else:
            spans.append((low, high))
    return tuple(spans)


def complement(ranges: Ranges, most: int) -> Ranges:
    """All code points up to `most` that are in none of the ranges."""
    edges = [-1, *(edge for pair in ranges for edge in pair), most + 1]
    return tuple((low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True) if low + 1 < high)


def folded(ranges: Ranges, *, unicode: bool) -> Ranges:
    """The ranges with all characters that the flag i takes for the same as one of them.

    `unicode`: with the flag u, simple case folding counts; without it the upper case of single UTF-16 units, by which
    an ASCII letter is never the same as another character.
    """
    classes = _classes(unicode)
    more = [(other, other) for low, high in ranges for members in _within(classes, low, high) for other in members]
    return merged([*ranges, *more])


def set_text(ranges: Ranges) -> str:
    """The inner part of a set in brackets, for Python."""
    parts: list[str] = []
    for low, high in ranges:
        parts.append(character_text(low, _OF_SETS))
        if high > low:
            parts.append(("-" if high > low + 1 else "") + character_text(high, _OF_SETS))
    return "".join(parts)


def character_text(point: int, special: str) -> str:
    """A character in a pattern, where those of `special` have a meaning."""
    character = chr(point)
    escape = next((f"\\{name}" for name, value in CONTROLS.items() if value == character), None)
    if escape:
        return escape
    if character.isprintable():
        return f"\\{character}" if character in special else character
    if point <= ASCII_MAX:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= UNIT_MAX else f"\\U{point:08x}"


def _within(classes: dict[int, tuple[int, ...]], low: int, high: int) -> Iterator[Sequence[int]]:
    if high - low < len(classes):
        yield from (classes[point] for point in range(low, high + 1) if point in classes)
    else:
        yield from (members for point, members in classes.items() if low <= point <= high)


@cache
def _classes(unicode: bool) -> dict[int, tuple[int, ...]]:
    """For each code point that is not alone in its class all members of the class."""
    fold = _simple_fold if unicode else _upper_unit
    classes: dict[str, list[int]] = {}
    for point in range(POINT_MAX + 1 if unicode else UNIT_MAX + 1):
        character = chr(point)
        key = fold(character)
        if key != character:
            classes.setdefault(key, [ord(key)]).append(point)
    return {point: tuple(members) for members in classes.values() for point in members}


def _upper_unit(character: str) -> str:
    """`Canonicalize` of ECMA-262 without the flag u."""
    upper = character.upper()
    if len(upper) != 1 or ord(upper) > UNIT_MAX or (ord(character) > ASCII_MAX >= ord(upper)):
        return character
    return upper


def _simple_fold(character: str) -> str:
    """`Canonicalize` of ECMA-262 with the flag u: simple case folding."""
    for changed in (character.casefold(), character.lower()):
        if len(changed) == 1:
            return changed
    return character

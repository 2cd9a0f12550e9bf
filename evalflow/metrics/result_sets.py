"""Compares the results of two queries: as multisets or in order, with a tolerance for numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from evalflow.metrics.reasons import one_line

Row = tuple[object, ...]
_PAIRS = 1_000_000
"""Maximum pairs of rows to compare one by one; with more, rows are sorted and compared in order."""
_SHOWN = 3
_CELL = 40


@dataclass(frozen=True)
class ResultSet:
    """The columns and rows that a query gave."""

    columns: Sequence[str]
    rows: Sequence[Row]

    def arranged_as(self, columns: Sequence[str]) -> ResultSet | None:
        """The same rows with columns in this order, by name without regard to case; None if the names differ."""
        left = [name.casefold() for name in self.columns]
        if sorted(left) != sorted(name.casefold() for name in columns):
            return None
        places: list[int] = []
        for name in columns:
            places.append(left.index(name.casefold()))
            left[places[-1]] = "\0"  # two columns may have the same name; each is used once
        return ResultSet(columns, [tuple(row[place] for place in places) for row in self.rows])


def difference(expected: Sequence[Row], actual: Sequence[Row], *, ordered: bool, tolerance: float) -> str | None:
    """How the actual rows differ from the expected ones, in words; None if they are equal."""
    missing = list((Counter(expected) - Counter(actual)).elements())
    extra = list((Counter(actual) - Counter(expected)).elements())
    missing, extra = _without_close(missing, extra, tolerance)
    parts = [_listed(rows, word) for rows, word in ((missing, "missing"), (extra, "extra")) if rows]
    if parts:
        return "; ".join(parts)
    if ordered:
        pairs = enumerate(zip(expected, actual, strict=True), 1)
        at = next((place for place, (one, other) in pairs if not _is_close(one, other, tolerance)), None)
        if at is not None:
            rows = f"{_shown(actual[at - 1])} instead of {_shown(expected[at - 1])}"
            return f"the same rows in another order: row {at} is {rows}"
    return None


def _without_close(missing: list[Row], extra: list[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """The rows left on both sides after pairing those that differ only in numbers, within the tolerance."""
    groups: defaultdict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((missing, extra)):
        for row in rows:
            groups[_shape(row)][side].append(row)
    left: tuple[list[Row], list[Row]] = ([], [])
    for ours, theirs in groups.values():
        # Rows of one shape can be sorted by their numbers.
        ours.sort(key=_numbers)
        theirs.sort(key=_numbers)
        if len(ours) * len(theirs) > _PAIRS:
            met = [i for i, pair in enumerate(zip(ours, theirs, strict=False)) if _is_close(*pair, tolerance)]
            pairs = [(i, i) for i in met]
        else:
            pairs = _paired(ours, theirs, tolerance)
        for side, rows in enumerate((ours, theirs)):
            taken = {pair[side] for pair in pairs}
            left[side].extend(row for place, row in enumerate(rows) if place not in taken)
    return left


def _paired(ours: Sequence[Row], theirs: Sequence[Row], tolerance: float) -> list[tuple[int, int]]:
    free = list(range(len(theirs)))
    pairs: list[tuple[int, int]] = []
    for place, row in enumerate(ours):
        met = next((other for other in free if _is_close(row, theirs[other], tolerance)), None)
        if met is not None:
            free.remove(met)
            pairs.append((place, met))
    return pairs


def _shape(row: Row) -> Row:
    """The row with a marker in place of each number, which cannot be a cell's value."""
    return tuple(("number",) if _is_number(cell) else cell for cell in row)


def _numbers(row: Row) -> list[float]:
    return [math.inf if math.isnan(cell) else cell for cell in row if _is_number(cell)]


def _is_close(one: Row, other: Row, tolerance: float) -> bool:
    return all(_is_same(cell, beside, tolerance) for cell, beside in zip(one, other, strict=True))


def _is_same(one: object, other: object, tolerance: float) -> bool:
    if not (_is_number(one) and _is_number(other)) or (isinstance(one, int) and isinstance(other, int)):
        return one == other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _is_number(cell: object) -> TypeGuard[int | float]:
    return isinstance(cell, int | float)


def _listed(rows: Sequence[Row], word: str) -> str:
    shown = ", ".join(_shown(row) for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    return f"{len(rows):,} row{'' if len(rows) == 1 else 's'} {word}: {shown}{more}"


def _shown(row: Row) -> str:
    cells = ["NULL" if cell is None else one_line(repr(cell), _CELL) for cell in row[:10]]
    return f"({', '.join([*cells, *(['…'] if len(row) > 10 else [])])})"

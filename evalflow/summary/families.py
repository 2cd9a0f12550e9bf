"""Families of comparisons: adjusts their p-values together, in declared orders, and adds detectable differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalflow.stats.paired import Adjustment, adjust, adjust_in_order
from evalflow.stats.power import detectable_difference
from evalflow.summary.compare import ComparisonRow
from evalflow.summary.verdicts import level_of_each

Orders = Mapping[str, Sequence[str]]  # by metric, its statistics in the order in which they are tested
UNORDERED: Orders = {}


def adjusted(rows: Sequence[ComparisonRow], method: Adjustment, orders: Orders = UNORDERED) -> list[ComparisonRow]:
    """Treat the rows as one family of tests: adds adjusted p-values and detectable differences.

    Holm follows the orders.
    """
    made = [row for row in rows if row.found.p_value is not None]
    p = [row.found.p_value or 0.0 for row in made]
    after = _after(made, orders) if method == "holm" else [None] * len(made)
    found = adjust_in_order(p, after) if any(one is not None for one in after) else adjust(p, method)
    known = {id(row): float(value) for row, value in zip(made, found, strict=True)}
    level = level_of_each(after.count(None))
    return [replace(row, p_adjusted=known.get(id(row)), detectable=_detectable(row, level)) for row in rows]


def orders_used(rows: Sequence[ComparisonRow], orders: Orders) -> Orders:
    """The orders that apply: those of metrics in which some row is tested after another one."""
    made = [row for row in rows if row.found.p_value is not None]
    later = {row.metric for row, before in zip(made, _after(made, orders), strict=True) if before is not None}
    return {name: order for name, order in orders.items() if name in later}


def tests_in_order(rows: Sequence[ComparisonRow], orders: Orders) -> int:
    """Number of rows that are tested after another one and therefore use its level."""
    return len(rows) - _after(rows, orders).count(None)


def _after(rows: Sequence[ComparisonRow], orders: Orders) -> list[int | None]:
    """For each row, the position of the row that is tested before it."""
    places = {(row.pair, row.dataset, row.metric, row.tag, row.statistic): at for at, row in enumerate(rows)}

    def before(row: ComparisonRow) -> int | None:
        order = [*orders.get(row.metric, ())]
        if row.statistic not in order[1:]:
            return None
        one = order[order.index(row.statistic) - 1]
        return places.get((row.pair, row.dataset, row.metric, row.tag, one))

    return [before(row) for row in rows]


def _detectable(row: ComparisonRow, level: float) -> float | None:
    error, df = row.found.std_error, row.found.df
    if error is None or df is None:
        return None
    least = detectable_difference(error, df=df, alpha=level)
    return None if row.bounded and least > 1 else least

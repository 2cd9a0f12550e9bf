"""Shares and means over cases, with their 95 % intervals."""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.lazy import pl
from evalflow.stats.intervals import interval
from evalflow.summary.slices import case_clusters


@dataclass(frozen=True, slots=True)
class Rate:
    """A share or a mean over cases, with its 95 % interval; all None without a case."""

    n: int
    value: float | None
    low: float | None
    high: float | None
    method: str


def rate_of(frame: pl.DataFrame, value: pl.Expr, *, bounded: bool) -> Rate:
    """The rate of a column of cases; those with the same `cluster` count as one draw. `bounded`: within 0 and 1."""
    values = frame.select(value.cast(pl.Float64).alias("value"))["value"].to_numpy()
    if not values.size:
        return Rate(0, None, None, None, "none: no case")
    found = interval(values, case_clusters(frame), bounded=bounded)
    return Rate(int(values.size), float(values.mean()), found.low, found.high, found.method)

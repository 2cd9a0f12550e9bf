"""Which cases a page shows that cannot show them all: those that a reader would look for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from evalflow.config.schema import MetricConfig

MAX_CASES = 20_000
"""More would keep a browser busy for seconds, and nobody would go through them."""

CaseKey = tuple[str, str]
"""A case's dataset and id."""


def most_telling(
    scores: pl.LazyFrame, metrics: Mapping[str, MetricConfig], count: int = MAX_CASES
) -> Collection[CaseKey] | None:
    """The cases in which something failed, then those with an error, then those of the worst scores.

    Equal ones are taken in input order. A panel's members play no part.

    Args:
        scores: The columns of scores.parquet, in input order.
        metrics: What the metrics declare, by name; where low scores are better, the worst is the highest.
        count: How many.

    Returns:
        The cases, or None where there are no more than `count`.
    """
    import polars as pl

    if scores.select(pl.len()).collect().item() <= count:
        return None  # hardly anything is read for this, and a case has a score or more
    lower = [name for name, config in metrics.items() if config.direction == "lower_is_better"]
    ranked = (
        scores.filter(pl.col("member_of").is_null())
        .with_row_index("place")
        .group_by("dataset", "case_id")
        .agg(
            failed=pl.col("passed").not_().any(),
            error=(pl.col("status") == "error").any(),
            worst=pl.when(pl.col("metric").is_in(lower)).then(-pl.col("score")).otherwise("score").min(),
            place=pl.col("place").min(),
        )
        .sort("failed", "error", "worst", "place", descending=[True, True, False, False], nulls_last=True)
        .head(count + 1)
        .select("dataset", "case_id")
        .collect(engine="streaming")
    )
    return frozenset(ranked.head(count).iter_rows()) if ranked.height > count else None

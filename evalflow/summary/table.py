"""Journal to scores: input order restored, `passed` derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.files import completed
from evalflow.records import Direction, passes
from evalflow.summary.composites import Composite
from evalflow.summary.scan import Journal, Order
from evalflow.summary.schema import scores_schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where `passed` begins, inclusive, for one metric and one judge.

    Attributes:
        metric: The metric's column value.
        judge: The judge's; None for a metric that asks none.
        value: The threshold, on the scale of `score`.
        direction: Which side of it passes.
    """

    metric: str
    judge: str | None
    value: float
    direction: Direction = "higher_is_better"


def score_table(
    journal: Journal, thresholds: Sequence[Threshold], order: Order, composites: Sequence[Composite] = ()
) -> pl.LazyFrame:
    """The table of scores, lazily: each cell once, in input order.

    Args:
        journal: What a run wrote.
        thresholds: Metrics and judges without one give no pass or fail.
        order: Of datasets and metrics. Within a dataset rows follow the cases' own order.
        composites: Metrics that are made of the journal's scores.

    Returns:
        Columns as in `scores_schema`. `passed` is null unless the cell was scored and has a threshold.
    """
    return with_passed(journal.ordered(order, composites), thresholds).select(list(scores_schema()))


def with_passed(scores: pl.LazyFrame, thresholds: Sequence[Threshold]) -> pl.LazyFrame:
    """Add (or replace) `threshold` and `passed`."""
    import polars as pl

    limits = pl.LazyFrame(
        [(t.metric, t.judge, t.value, t.direction == "higher_is_better") for t in thresholds],
        schema={"metric": pl.String, "judge": pl.String, "_limit": pl.Float64, "_higher": pl.Boolean},
        orient="row",
    )
    score, limit = pl.col("score"), pl.col("_limit")
    return (
        scores.join(limits, on=["metric", "judge"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            threshold=limit,
            passed=pl.when("_higher")
            .then(passes(score, limit))
            .otherwise(passes(score, limit, higher_is_better=False)),
        )
        .drop("_limit", "_higher")
    )


def write_scores(scores: pl.LazyFrame, path: Path) -> None:
    """Write scores.parquet."""
    # Small row groups: with their long texts, the writer holds a few of them in memory.
    # Opened here: Polars may still make a file when it has said already that it failed.
    with completed(path) as draft, draft.open("wb") as file:
        scores.sink_parquet(file, compression="zstd", row_group_size=16_384)

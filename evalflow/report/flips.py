"""The cases on which two runs differ most: those that flip between pass and fail, the worst first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Flips:
    """What changed between two runs.

    Attributes:
        pair: Their names.
        worsened, improved: Cases that passed in A and fail in B, and the other way round, over all metrics.
        rows: dataset, metric, case_id, score_a, score_b, change (below 0 is worse, whichever way is up), passed_a,
            passed_b (null without a threshold) and reason (B's); flips, and of metrics without pass or fail the cases
            that changed. The worst first.
    """

    pair: tuple[str, str]
    worsened: int
    improved: int
    rows: Sequence[dict[str, Any]]


def flips(pair: tuple[str, str], cases: pl.DataFrame, scores: pl.LazyFrame, lower: Collection[str], most: int) -> Flips:
    """List what changed.

    Args:
        pair: Names of the two runs.
        cases: Rows of a pairing.
        scores: The columns of B's scores.parquet, for the reasons.
        lower: The metrics of which less is better.
        most: How many rows at most.
    """
    import polars as pl

    change = pl.col("score_b") - pl.col("score_a")
    # A case that was judged repeatedly passes if most of its repeats do.
    passed = {f"passed_{side}": pl.col(f"passed_{side}") >= _HALF for side in "ab"}
    rows = cases.with_columns(change=pl.when(pl.col("metric").is_in(lower)).then(-change).otherwise(change), **passed)
    flipped = pl.col("passed_a") != pl.col("passed_b")
    unjudged = pl.col("passed_a").is_null() | pl.col("passed_b").is_null()
    changed = rows.filter(flipped | (unjudged & (pl.col("change") != 0))).sort("change", maintain_order=True)
    shown = changed.head(most).drop("cluster", "tags", "judge_a", "judge_b")
    key = ["dataset", "metric", "case_id"]
    own = scores.filter(pl.col("member_of").is_null()).join(shown.lazy().select(key), on=key, how="semi")
    reasons = own.sort("score").group_by(key, maintain_order=True).agg(pl.col("reason").first()).collect()
    return Flips(
        pair,
        worsened=rows.filter(pl.col("passed_a") & ~pl.col("passed_b")).height,
        improved=rows.filter(~pl.col("passed_a") & pl.col("passed_b")).height,
        rows=shown.join(reasons, on=key, how="left", maintain_order="left").to_dicts(),
    )

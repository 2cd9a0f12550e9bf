"""How far the judges of a sweep agree on the cells they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "repeat")
_MIN_CORRELATION = 3


def agreement(runs: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Compare every two judges on the answers that both scored with the same metric.

    Only `scored` cells of both judges count. Repeat k of one judge is held against repeat k of the other. Where
    several runs hold the same cell of the same judge, the first one stands. Panel members are left out.

    Args:
        runs: The columns of scores.parquet, one frame per run.

    Returns:
        Rows sorted by metric, judge_a, judge_b (judge_a < judge_b) with
        n: how many common cells;
        agreement: the share of them where both pass or both fail, of those where both judges say so; null without any;
        correlation: Spearman's rank correlation of the scores; null below 3 cells or where one judge never varies.
    """
    import polars as pl

    frames = [
        run.filter(
            (pl.col("status") == "scored") & pl.col("judge").is_not_null() & pl.col("member_of").is_null()
        ).select(*_CELL, "judge", "score", "passed")
        for run in runs
    ]
    cells = pl.concat(frames).unique([*_CELL, "judge"], keep="first", maintain_order=True)
    both = cells.join(cells, on=_CELL, suffix="_b").filter(pl.col("judge") < pl.col("judge_b"))
    rho = pl.corr("score", "score_b", method="spearman").fill_nan(None)
    return (
        both.group_by("metric", pl.col("judge").alias("judge_a"), "judge_b")
        .agg(
            n=pl.len(),
            agreement=(pl.col("passed") == pl.col("passed_b")).mean(),
            correlation=pl.when(pl.len() >= _MIN_CORRELATION).then(rho),
        )
        .sort("metric", "judge_a", "judge_b")
        .collect(engine="streaming")
    )

"""Scores and people's labels side by side: one row per scored answer, with what people said where they did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

ANSWER = ("dataset", "case_id", "target", "target_repeat", "metric")
SERIES = ("dataset", "metric", "target", "judge")
"""What makes a judge's mean one number."""


def label_frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Labels as a table, one row per person and answer.

    Args:
        rows: dataset, case_id, target, target_repeat, metric; answer_hash; by; human (the label as a score); value
            (the same on the metric's own scale, as text); weight (how many answers it stands for); comment.
    """
    import polars as pl

    text, number = pl.String(), pl.Float64()
    schema = dict.fromkeys(("dataset", "case_id", "target", "metric", "answer_hash", "by", "value", "comment"), text)
    return pl.DataFrame(list(rows), {**schema, "target_repeat": pl.Int64(), "human": number, "weight": number})


def labelled_scores(scores: pl.LazyFrame, labels: pl.DataFrame, *, failed: bool = False) -> pl.DataFrame:
    """Every scored answer of the series that have labels, in the order of `scores`.

    A judge's repeats are averaged, and so are the labels of several people.

    Args:
        scores: The columns of scores.parquet.
        labels: As `label_frame` gives them.
        failed: Give the answers that the judge failed at instead, each time; their score is null.

    Returns:
        dataset, case_id, target, target_repeat, metric, judge; cluster, tags; score, passed (mean over the repeats;
        null without a threshold), threshold, value and reason (of the first repeat); human (null without a label),
        people (how many), said (their values), weight, comment.
    """
    import polars as pl

    series = labels.select("dataset", "metric", "target").unique().lazy()
    status, cell = pl.col("status"), [*ANSWER, "judge"]
    own = scores.filter(pl.col("member_of").is_null()).with_columns(pl.col("target_repeat").cast(pl.Int64))
    scored, own = own.filter(status == "scored"), own.filter(status == ("error" if failed else "scored"))
    own = own.join(scored, on=cell, how="anti", nulls_equal=True, maintain_order="left") if failed else own
    own = own.with_row_index("place")
    own = own.join(series, on=["dataset", "metric", "target"], how="semi")
    group = pl.col("group").first()
    cluster = pl.when(group.is_null()).then("case:" + pl.col("case_id").first()).otherwise("group:" + group)
    answers = own.group_by(cell).agg(
        pl.col("place").min(), cluster.alias("cluster"), pl.col("tags").first(), pl.col("score").mean(),
        pl.col("passed").cast(pl.Float64).mean(), pl.col("threshold", "value", "reason").first(),
    )  # fmt: skip
    people = labels.lazy().group_by(ANSWER).agg(
        pl.col("human").mean(), people=pl.col("by").n_unique(), said=pl.col("value").sort_by("by"),
        weight=pl.col("weight").first(), comment=pl.col("comment").drop_nulls().str.join("; "),
    )  # fmt: skip
    joined = answers.join(people, on=ANSWER, how="left").sort("place").drop("place")
    return joined.collect(engine="streaming")


def series_sizes(scores: pl.LazyFrame) -> dict[tuple[str | None, ...], int]:
    """How many answers each of SERIES has, whatever their state."""
    import polars as pl

    cells = scores.filter(pl.col("member_of").is_null()).select(*ANSWER, "judge").unique()
    return {row[:-1]: row[-1] for row in cells.group_by(SERIES).agg(pl.len()).collect().iter_rows()}


def unscored_labels(scores: pl.LazyFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """How many labelled answers have no score: dataset, metric, target, n; only where there are some."""
    import polars as pl

    known = scores.filter(pl.col("member_of").is_null() & (pl.col("status") == "scored"))
    known = known.with_columns(pl.col("target_repeat").cast(pl.Int64))
    left = labels.lazy().select(ANSWER).unique().join(known, on=ANSWER, how="anti")
    return left.group_by("dataset", "metric", "target").agg(n=pl.len()).sort("dataset", "metric", "target").collect()

"""results.csv of a run with too many cases to list: without questions and answers, from its scores alone."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import reduce
from typing import TextIO

from evalflow.lazy import pl
from evalflow.paths import FORMULA, safe_text
from evalflow.report.results_csv import DIGITS, FIXED, columns_of_scores, rounded_score
from evalflow.summary.scan import whole_answers

_ANSWER = ("dataset", "case_id", "target", "target_repeat")
_SERIES = ("metric", "judge", "repeat")
_FIXED = tuple(name for name in FIXED if name not in ("question", "answer"))
_READ = (*_ANSWER, "tags", "finish_reason", *_SERIES, "status", "score", "passed", "reason", "error")
_AT_ONCE = 20_000  # scores
_STEPS = 10**DIGITS  # of rounding, in 1
_NEAR = 1e-4  # of a step; more than the error of the product
_EXACT = 1e9  # more steps are not rounded by Polars


def write_large_results(file: TextIO, scores: pl.LazyFrame) -> None:
    """Write one row per answer that has a score: its ids and tags, and the three columns of each of its scores.

    These are the columns of `ResultsWriter` without the texts, which are in cases.jsonl, so that a large run does not
    keep them twice. `scores` are in input order, and are read in bounded memory.
    """
    series = columns_of_scores(scores)
    names = [safe_text(name) for columns in series.values() for name in columns]
    csv.writer(file).writerow([*_FIXED, *names])
    own = scores.filter(pl.col("member_of").is_null()).select(_READ)
    for rows in whole_answers(own.collect_batches(chunk_size=_AT_ONCE, maintain_order=True), _ANSWER):
        file.write(_table(rows, series).write_csv(include_header=False, line_terminator="\r\n"))


def _table(rows: pl.DataFrame, series: Mapping[tuple[str, str | None, int], object]) -> pl.DataFrame:
    """One row for each answer in these rows."""
    cells = rows.with_columns(
        _shown_reason(), pl.col("score").map_batches(_rounded, pl.Float64), place=pl.struct(_ANSWER).rle_id()
    )
    answers = cells.unique("place", keep="first", maintain_order=True)
    table = answers.select("place", *_ANSWER, pl.col("tags").list.join("; "), "finish_reason")

    def beside(table: pl.DataFrame, numbered: tuple[int, tuple[str, str | None, int]]) -> pl.DataFrame:
        number, (metric, judge, repeat) = numbered
        of_series = pl.col("judge").eq_missing(pl.lit(judge, pl.String)), pl.col("repeat") == repeat
        own = cells.filter(pl.col("metric") == metric, *of_series).select("place", "score", "passed", "reason")
        return table.join(own, on="place", how="left", maintain_order="left", suffix=f" {number}")

    return reduce(beside, enumerate(series), table).drop("place").with_columns(_safe(pl.col(pl.String)))


def _rounded(scores: pl.Series) -> pl.Series:
    """The scores as of `rounded_score`, which is slower than Polars, and differs from it only near ties."""
    in_steps = scores.abs() * _STEPS
    is_near = ((in_steps - in_steps.floor() - 0.5).abs() < _NEAR) | (in_steps > _EXACT)
    exact = [rounded_score(score) for score in scores.filter(is_near)]
    return scores.round(DIGITS).scatter(is_near.arg_true(), exact)


def _shown_reason() -> pl.Expr:
    """The reason as of `score_cells`."""
    status, given = pl.col("status"), [pl.when(pl.col(name) != "").then(name) for name in ("error", "reason")]
    missing = pl.concat_str(status, pl.coalesce(given), separator=": ", ignore_nulls=True)
    return pl.when(status == "scored").then("reason").otherwise(missing).alias("reason")


def _safe(texts: pl.Expr) -> pl.Expr:
    """The texts as of `safe_text`."""
    return pl.when(texts.str.slice(0, 1).is_in(FORMULA)).then("'" + texts).otherwise(texts).name.keep()

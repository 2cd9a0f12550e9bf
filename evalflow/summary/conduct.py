"""How a judge keeps to itself when it is asked again, and to the form that it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_UNPARSABLE = ("schema", "malformed", "truncated")
"""Causes of errors, of `errors.CallError`, that say that a reply came and could not be read."""
_ANSWER = ("case_id", "target", "target_repeat")


def consistency(scores: pl.LazyFrame) -> dict[str, Any] | None:
    """How alike a judge's repeated judgements of one answer are.

    Args:
        scores: The columns of scores.parquet, of one dataset, metric and judge; a panel's members left out.

    Returns:
        answers (judged more than once), repeats (their mean number of judgements), same (the mean, over answers, of the
        share of pairs of judgements with the same value, 0..1), sd (of judgements of one answer, on the scale of
        scores: the square root of the mean variance). None where no answer was judged twice.
    """
    import polars as pl

    k, pairs = pl.col("n"), pl.col("n") * (pl.col("n") - 1)
    by_value = (
        scores.filter(pl.col("status") == "scored")
        .group_by(*_ANSWER, "value")
        .agg(n=pl.len(), total=pl.col("score").sum(), square=(pl.col("score") ** 2).sum())
    )
    answers = (
        by_value.group_by(*_ANSWER)
        .agg(k.sum(), equal=pairs.sum(), total=pl.col("total").sum(), square=pl.col("square").sum())
        .filter(k > 1)
        .with_columns(same=pl.col("equal") / pairs, variance=(pl.col("square") - pl.col("total") ** 2 / k) / (k - 1))
    )
    means = {"repeats": k.mean(), "same": pl.col("same").mean(), "sd": pl.col("variance").clip(0).mean().sqrt()}
    found = answers.select(answers=pl.len(), **means).collect().row(0, named=True)
    return found if found["answers"] else None


def replies(scores: pl.LazyFrame) -> dict[str, Any]:
    """How often a judge's replies could not be read.

    Args:
        scores: As for `consistency`.

    Returns:
        judged (scores for which it replied), unparsable (the share of them that ended in an error since no reply could
        be read), reasked (the share that was scored after it was told what was wrong); shares are None of nothing.
    """
    import polars as pl

    unparsable = pl.col("error_type").is_in(_UNPARSABLE).fill_null(False)
    judged = (pl.col("status") == "scored") | unparsable
    shares = {"unparsable": unparsable.mean(), "reasked": (pl.col("path") == "reasked").fill_null(False).mean()}
    return scores.filter(judged).select(judged=pl.len(), **shares).collect().row(0, named=True)

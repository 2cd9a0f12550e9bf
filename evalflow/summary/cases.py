"""The repeats of each case, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

_HALF = 0.5


def cluster() -> pl.Expr:
    """The group of a row as a number, a 64-bit hash of its name; null without one."""
    import polars as pl

    return pl.when(pl.col("group").is_not_null()).then(pl.col("group").hash()).alias("cluster")


def clusters_of(cases: pl.DataFrame) -> NDArray[np.uint64] | None:
    """The cluster of each row, where rows without one are clusters of their own; None where all are."""
    import polars as pl

    if cases["cluster"].null_count() == cases.height:
        return None
    alone = pl.int_range(pl.len(), dtype=pl.UInt64)
    return cases.select(pl.col("cluster").fill_null(alone))["cluster"].to_numpy()


def repeats_of(cells: pl.LazyFrame) -> pl.LazyFrame:
    """One row per part and case, with its repeats in moments.

    Returns:
        Columns part, case_id, cluster; score and passed, means over all scored cells; share, of the cells that should
        have a score; mean, answers, answer_variance, per_judgement, judge_variance as in `Repeated`; judgements,
        verdicts, passes (of all its answers); judged (answers with a verdict), passing (by most verdicts).
    """
    import polars as pl

    case = ("part", "case_id", "cluster")
    n, score, passes, verdicts = (pl.col(name) for name in ("n", "score", "passes", "verdicts"))
    # An answer's sum and not its mean, so that scores that are 0 and 1 stay exactly that.
    answers = (
        cells.with_columns(cluster())
        .group_by(*case, "target_repeat")
        .agg(
            score.sum(), variance=score.var(), n=score.count(), wanted=(pl.col("status") != "skipped").sum(),
            verdicts=pl.col("passed").count(), passes=pl.col("passed").sum(),
        )
    )  # fmt: skip
    answer = pl.when(n > 0).then(score / n)
    return (
        answers.group_by(case)
        .agg(
            score.sum(), pl.col("wanted").sum(), verdicts.sum(), passes.sum(),
            mean=answer.mean(), answers=(n > 0).sum(), answer_variance=answer.var(),
            per_judgement=(1 / n).filter(n > 0).mean(), judge_variance=pl.col("variance").mean(), judgements=n.sum(),
            judged=(verdicts > 0).sum(), passing=(passes > _HALF * verdicts).sum(),
        )
        .with_columns(
            score=pl.when(pl.col("judgements") > 0).then(score / pl.col("judgements")),
            passed=pl.when(verdicts > 0).then(passes / verdicts),
            share=pl.when(pl.col("wanted") > 0).then(pl.col("judgements") / pl.col("wanted")),
        )
        .drop("wanted")
    )  # fmt: skip

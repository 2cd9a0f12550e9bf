"""Cases that pass everything: none of a case's scores fails, and at least one passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalflow.lazy import pl
from evalflow.records import CASES, CUT_OFF

_CASE = ("dataset", "target", "case_id")
_HALF = 0.5
_FLAGS = ("fails", "passes", "errs", "undefined", "cut_off")


def passing_metrics(scores: pl.LazyFrame) -> dict[str, bool]:
    """The metrics whose scores pass or fail, sorted, and whether each was judged repeatedly."""
    repeated = (pl.col("repeat") > 0).any().alias("repeated")
    return dict(sorted(_counted(scores).group_by("metric").agg(repeated).collect(engine="streaming").iter_rows()))


def passing_cases(scores: pl.LazyFrame, metrics: Mapping[str, bool]) -> pl.DataFrame:
    """One row per case, in the columns of scores: 1 if the case passes everything, 0 if one of its scores fails.

    Only metrics with a threshold count. A case without a failing score is in state error if one of its scores is; it
    is undefined or skipped if no score passes. With repeats the score is the share of passes, over all answers and
    judgements; a metric judged once counts in all of them. `metrics` are as in `passing_metrics`. Columns count a
    case's repeats: `verdicts` are all of these, `passes` those that pass, `judged` its answers with a verdict, and
    `passing` the answers that pass by majority.
    """
    rows = _counted(scores.with_row_index("place"))
    again = [name for name, is_repeated in metrics.items() if is_repeated]
    answer = (*_CASE, "target_repeat")
    draws = _draws(rows, again)
    decided = pl.when("fails").then(0.0).when("errs").then(None).when("passes").then(1.0)
    score = pl.col("score")
    verdicts, passed_draws, states = pl.col("verdicts"), pl.col("passes"), pl.col("errs", "undefined", "cut_off")
    draws = draws.with_columns(decided.alias("score"), errs=pl.col("errs") & ~pl.col("fails"))
    if again:
        answers = draws.group_by(answer).agg(
            states.any(), pl.col("place").min(), verdicts=score.count(), passes=score.sum()
        )
    else:  # each answer has one draw
        answers = draws.with_columns(verdicts=score.is_not_null().cast(pl.UInt32), passes=score.fill_null(0.0))
    cases = (
        answers.group_by(_CASE)
        .agg(
            states.any(),
            pl.col("place").min(),
            verdicts.sum(),
            passed_draws.sum(),
            judged=(verdicts > 0).sum(),
            passing=(passed_draws > _HALF * verdicts).sum(),
        )
        .with_columns(score=pl.when(verdicts > 0).then(passed_draws / verdicts))
        .with_columns(
            *_constants(),
            passed=score,
            status=pl.when(score.is_not_null())
            .then(pl.lit("scored"))
            .when("errs")
            .then(pl.lit("error"))
            .when("undefined")
            .then(pl.lit("undefined"))
            .otherwise(pl.lit("skipped")),
            finish_reason=pl.when("cut_off").then(pl.lit(CUT_OFF)),
        )
    )
    case_rows = cases.collect(engine="streaming")
    # Taking the first of many lists, or a join, would take several times as long.
    about = rows.select("place", "group", "tags").join(case_rows.lazy().select("place"), on="place", how="semi")
    joined = case_rows.join(about.collect(engine="streaming"), on="place")
    return joined.sort("place").drop("errs", "undefined", "cut_off", "place")


def _constants() -> list[pl.Expr]:
    """The columns of scores with the same value for every case as a whole."""
    return [
        pl.lit(CASES).alias("metric"),
        pl.lit(None, pl.String).alias("judge"),
        pl.lit(None, pl.String).alias("member_of"),
        pl.lit(0, pl.Int64).alias("repeat"),
        pl.lit(0, pl.Int64).alias("target_repeat"),
        pl.lit(False).alias("cached"),
        pl.lit(None, pl.Float64).alias("latency_s"),
        pl.lit(0.0).alias("cost_usd"),
        pl.lit(0, pl.Int64).alias("input_tokens"),
        pl.lit(0, pl.Int64).alias("output_tokens"),
    ]


def _draws(rows: pl.LazyFrame, again: Sequence[str]) -> pl.LazyFrame:
    """One row per answer (and judgement, if metrics were judged `again`) with the combined state of its scores."""
    answer = (*_CASE, "target_repeat")
    status, passed = pl.col("status"), pl.col("passed")
    flags = [
        (~passed).any().alias("fails"),
        passed.any().alias("passes"),
        (status == "error").any().alias("errs"),
        (status == "undefined").any().alias("undefined"),
        pl.col("place").min(),
        (pl.col("finish_reason") == CUT_OFF).any().alias("cut_off"),
    ]
    draws = rows.filter(~pl.col("metric").is_in(again)).group_by(answer).agg(flags)
    if not again:
        return draws
    judged = rows.filter(pl.col("metric").is_in(again)).group_by(*answer, "repeat").agg(flags)
    both = judged.join(draws, on=answer, how="full", coalesce=True)
    either = [pl.col(name).fill_null(value=False) | pl.col(f"{name}_right").fill_null(value=False) for name in _FLAGS]
    return both.with_columns(*either, place=pl.min_horizontal("place", "place_right"))


def _counted(scores: pl.LazyFrame) -> pl.LazyFrame:
    return scores.filter(pl.col("member_of").is_null() & pl.col("threshold").is_not_null())

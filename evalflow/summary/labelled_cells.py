"""The score that counts of each answer: people's, if they labelled it, else the judge's."""

from __future__ import annotations

from evalflow.lazy import pl

_ANSWER = ("dataset", "case_id", "target", "target_repeat", "metric")
PASSING_SHARE = 0.5
"""The least share of an answer's labels that pass, so that the answer passes by people."""


def answers_of_people(answers: pl.DataFrame, nothing: pl.DataFrame) -> pl.DataFrame:
    """People's mean `human` of each labelled answer, the share of labels that pass, `accepted`, and `human_undefined`.

    By dataset, case_id, target, target_repeat and metric. `answers` are of `labelled_scores`, which leaves out those of
    `nothing_to_score`: these, `nothing`, are `human_undefined`, without `human` and `accepted`.
    """
    scored = answers.drop_nulls("human").group_by(_ANSWER).agg(pl.col("human", "accepted").mean())
    sides = (side.with_columns(human_undefined=pl.lit(value)) for side, value in ((scored, False), (nothing, True)))
    return pl.concat(sides, how="diagonal")


def with_people(scores: pl.LazyFrame, people: pl.DataFrame | None) -> pl.LazyFrame:
    """The scores with `human` and `human_passed` of `answers_of_people`, null for answers without a label.

    `human_undefined` says whether people found nothing to score: then no score of the answer counts.
    A label is of one answer: other repeats of its case keep their scores. It passes if at least half of the labels do,
    and only if the score of the judge can.
    """
    if people is None:
        nobody = {"human": pl.lit(None, pl.Float64), "human_passed": pl.lit(None, pl.Boolean)}
        return scores.with_columns(**nobody, human_undefined=pl.lit(value=False))
    repeat = pl.col("target_repeat").cast(pl.Int64)
    answers = people.lazy().with_columns(repeat)
    joined = scores.with_columns(repeat).join(answers, on=_ANSWER, how="left", maintain_order="left")
    passed = pl.when(pl.col("passed").is_not_null()).then(pl.col("accepted") >= PASSING_SHARE)
    undefined = pl.col("human_undefined").fill_null(value=False)
    return joined.with_columns(human_passed=passed, human_undefined=undefined).drop("accepted")


def counted_score() -> pl.Expr:
    """The score that counts, of a frame of `with_people`; null if people found nothing to score."""
    return pl.when(~pl.col("human_undefined")).then(pl.coalesce("human", "score"))


def counted_pass() -> pl.Expr:
    """Whether the score that counts passes, of a frame of `with_people`; null if it has no threshold or none counts."""
    return pl.when(~pl.col("human_undefined")).then(pl.coalesce("human_passed", "passed"))

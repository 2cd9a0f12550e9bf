"""The score that counts of each answer: people's, if they labelled it, else the judge's."""

from __future__ import annotations

from evalflow.lazy import pl

_ANSWER = ("dataset", "case_id", "target", "target_repeat", "metric")
_HALF = 0.5


def answers_of_people(answers: pl.DataFrame) -> pl.DataFrame:
    """People's mean `human` of each labelled answer, and the share of labels that pass, `accepted`.

    By dataset, case_id, target, target_repeat and metric; `answers` are of `labelled_scores`.
    """
    return answers.drop_nulls("human").group_by(_ANSWER).agg(pl.col("human", "accepted").mean())


def with_people(scores: pl.LazyFrame, people: pl.DataFrame | None) -> pl.LazyFrame:
    """The scores with `human` and `human_passed` of `answers_of_people`; null for answers without a label.

    A label is of one answer: other repeats of its case keep their scores. It passes if at least half of the labels do,
    and only if the score of the judge can.
    """
    if people is None:
        return scores.with_columns(human=pl.lit(None, pl.Float64), human_passed=pl.lit(None, pl.Boolean))
    repeat = pl.col("target_repeat").cast(pl.Int64)
    found = people.lazy().with_columns(repeat)
    joined = scores.with_columns(repeat).join(found, on=_ANSWER, how="left", maintain_order="left")
    passed = pl.when(pl.col("passed").is_not_null()).then(pl.col("accepted") >= _HALF)
    return joined.with_columns(human_passed=passed).drop("accepted")


def counted_score() -> pl.Expr:
    """The score that counts, of a frame of `with_people`."""
    return pl.coalesce("human", "score")


def counted_pass() -> pl.Expr:
    """Whether the score that counts passes, of a frame of `with_people`; null without a threshold."""
    return pl.coalesce("human_passed", "passed")

"""How far a judge's scores of a metric's fixture are from people's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from evalflow.lazy import pl
from evalflow.records import passes
from evalflow.stats.arrays import Estimated
from evalflow.summary.slices import mean_of

FIXTURE = "fixture"
"""The name of a fixture as a dataset."""
_SHOWN = 5
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class FixtureScore:
    """The score that people would give a case (None if there is nothing to score), and why."""

    score: float | None
    why: str
    question: str | None = None


@dataclass(frozen=True, slots=True)
class FixtureGap:
    """A case whose score differs from people's; None means that there is nothing to score."""

    case_id: str
    question: str | None
    tags: Sequence[str]
    person: float | None
    judge: float | None
    why: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class FixtureAgreement:
    """A judge's scores of a fixture compared with people's.

    Attributes:
        same: The share of cases that agree: scores less than `Proof.by` apart, or both find nothing to score.
        distance: The mean absolute difference over cases that both scored.
        verdict: The share of those cases in which both pass or both fail; None without a threshold.
        tags: `same` by tag.
        unscored: Cases in error or skipped; they are left out.
        furthest: At most five cases that differ most; first those in which only one side found something to score.
    """

    same: Estimated
    distance: Estimated
    verdict: Estimated | None
    tags: Mapping[str, Estimated]
    unscored: int
    furthest: Sequence[FixtureGap]


def agreement_of(
    cells: pl.DataFrame, people: Mapping[str, FixtureScore], *, higher_is_better: bool, by: float, bounded: bool
) -> FixtureAgreement:
    """Compare the scores of a fixture's cases (means over repeats) with people's, by case id.

    `bounded`: scores lie in 0..1.
    """
    done = pl.col("status").is_in(["scored", "undefined"])
    cases = cells.group_by("case_id", maintain_order=True).agg(
        pl.col("tags").first(),
        pl.col("reason").first(),
        cluster=pl.col("group").first(),
        usable=done.all(),
        judge=pl.col("score").mean(),
        threshold=pl.col("threshold").first(),
        # if only some repeats find nothing to score, the majority decides
        scored=(pl.col("status") == "scored").mean() >= _HALF,
    )
    persons = pl.Series([people[one].score for one in cases["case_id"]], dtype=pl.Float64)
    both, apart = pl.col("person").is_not_null() & pl.col("scored"), (pl.col("judge") - pl.col("person")).abs()
    passed = partial(passes, threshold=pl.col("threshold"), higher_is_better=higher_is_better)
    cases = cases.with_columns(person=persons, judge=pl.when("scored").then("judge")).with_columns(
        distance=pl.when(both).then(apart),
        same=pl.when(both).then(apart < by - 1e-9).otherwise(pl.col("person").is_null() & ~pl.col("scored")),
        verdict=pl.when(both).then(passed(pl.col("judge")) == passed(pl.col("person"))),
    )
    usable = cases.filter("usable")
    scored = usable.filter(pl.col("distance").is_not_null())
    names = sorted({tag for tags in usable["tags"] for tag in tags})
    differing = usable.filter(~pl.col("same")).sort("distance", descending=True, nulls_last=False, maintain_order=True)
    return FixtureAgreement(
        same=mean_of(usable, pl.col("same"), bounded=True),
        distance=mean_of(scored, pl.col("distance"), bounded=bounded),
        verdict=None if cases["threshold"].null_count() else mean_of(scored, pl.col("verdict"), bounded=True),
        tags={
            name: mean_of(usable.filter(pl.col("tags").list.contains(name)), pl.col("same"), bounded=True)
            for name in names
        },
        unscored=len(people) - usable.height,
        furthest=[
            FixtureGap(
                row["case_id"],
                people[row["case_id"]].question,
                row["tags"],
                row["person"],
                row["judge"],
                people[row["case_id"]].why,
                row["reason"],
            )
            for row in differing.head(_SHOWN).iter_rows(named=True)
        ],
    )

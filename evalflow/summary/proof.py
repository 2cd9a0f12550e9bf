"""Sensitivity of a metric: how scores react to faults put into good answers, and to changes that should not matter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from evalflow.datasets.perturbations import ABOUT, CHANGES
from evalflow.lazy import pl
from evalflow.records import passes
from evalflow.stats.arrays import Estimated
from evalflow.summary.slices import mean_of
from evalflow.summary.verdicts import Sight, of_change

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
    shown = differing.head(_SHOWN).select("case_id", "tags", "person", "judge", "reason")
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
            FixtureGap(case_id, people[case_id].question, tags, person, judge, people[case_id].why, reason)
            for case_id, tags, person, judge, reason in shown.iter_rows()
        ],
    )


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The scores of answers with one change, compared with those of the unchanged answers.

    Attributes:
        change: Its name; `all faults` and `all other changes` for the totals.
        fault: Whether it must worsen the score; other changes must leave it as it is.
        as_expected: The share of cases whose score reacted so, by at least `Proof.by`.
        shift: The mean change of the score, positive if it became better.
        finding: Whether this is more than half of the cases, or less, with 95 % confidence.
        unscored: Changed answers without a score, left out.
        flips: With a threshold, the share that passes only without the change, or only with it.
    """

    change: str
    fault: bool
    as_expected: Estimated
    shift: Estimated
    finding: Sight
    unscored: int
    flips: Estimated | None


@dataclass(frozen=True, slots=True)
class Proof:
    """How a judge's scores of a metric react to changed answers.

    Attributes:
        by: How far a score must move to count as changed.
        accepted: The share of good answers that pass; None without a threshold. Faults are counted only in these.
        same: The share of pairs of the judge's repeats on one answer that are less than `by` apart; None without
            repeats.
        people: Its scores of the metric's fixture compared with people's; None without a fixture.
        rows: The reaction to each change; empty if the metric does not say which faults must worsen its score.
    """

    metric: str
    judge: str | None
    dataset: str
    by: float
    accepted: Estimated | None
    same: Estimated | None
    people: FixtureAgreement | None
    rows: Sequence[ChangeRow]

    def document(self) -> dict[str, object]:
        return asdict(self)

    def findings(self) -> dict[str, list[str]]:
        by_finding: dict[str, list[str]] = {}
        for row in self.rows:
            if row.change in ABOUT:
                by_finding.setdefault(row.finding, []).append(row.change)
        return by_finding


def proof_of(
    scores: pl.DataFrame,
    metric: str,
    *,
    faults: Collection[str],
    higher_is_better: bool,
    by: float,
    limits: tuple[float, float] | None = (0.0, 1.0),
    people: Mapping[str, FixtureScore] | None = None,
) -> Proof:
    """Compare the scores of changed answers with those of unchanged ones, and a fixture's scores with people's.

    `scores` are the metric's in a run over `perturbed` cases and, in the dataset FIXTURE, over the cases of `people`;
    `limits` are the ends of the metric's scale, if it has any. A fault counts if the good answer passes (without a
    threshold, if its score can still fall by `by`).
    """
    of_fixture, cells = scores.filter(pl.col("dataset") == FIXTURE), scores.filter(pl.col("dataset") != FIXTURE)
    agreement = None
    if people:
        bounded = limits == (0.0, 1.0)
        agreement = agreement_of(of_fixture, people, higher_is_better=higher_is_better, by=by, bounded=bounded)
    change = pl.col("tags").list.first()
    base = pl.col("case_id").str.strip_suffix(pl.concat_str(pl.lit("~"), change))
    cells = cells.with_columns(change=change, base=base, cluster=pl.col("group"))
    sign = 1.0 if higher_is_better else -1.0
    answers = cells.group_by("base", "change", "cluster", maintain_order=True).agg(
        score=pl.when((pl.col("status") == "scored").all()).then(pl.col("score").mean()) * sign,
        passed=pl.when(pl.col("passed").is_not_null().all()).then(pl.col("passed").mean() > _HALF),
    )
    good = answers.filter(~pl.col("change").is_in(CHANGES))
    pairs = answers.filter(pl.col("change").is_in(CHANGES)).join(
        good.select("base", before="score", passed_before="passed"), on="base", maintain_order="left"
    )
    has_threshold = cells["threshold"].is_not_null().any()
    worst = None if limits is None else min(limit * sign for limit in limits)
    if has_threshold:
        usable = pl.col("passed_before")
    else:
        usable = pl.lit(value=True) if worst is None else pl.col("before") - worst >= by
    pairs = pairs.with_columns(
        moved=pl.col("score") - pl.col("before"),
        usable=usable.fill_null(value=False),
        flipped=(pl.col("passed") != pl.col("passed_before")).cast(pl.Float64),
    )
    rows: list[ChangeRow] = []
    for is_fault, heading in ((True, "all faults"), (False, "all other changes")):
        own = [name for name in CHANGES if (name in faults) == is_fault]
        parts = {heading: own, **{name: [name] for name in own}}
        for name, changes in parts.items():
            part = pairs.filter(pl.col("change").is_in(changes))
            if part.height:
                rows.append(_row(name, part, fault=is_fault, by=by, has_threshold=has_threshold))
    judge = next(iter(scores["judge"].drop_nulls()), None)
    dataset = str((cells if cells.height else of_fixture)["dataset"].first())
    accepted = None
    if cells.height and has_threshold:
        passed = good.filter(pl.col("passed").is_not_null())
        accepted = mean_of(passed, pl.col("passed"), bounded=True)
    same = _same(scores.with_columns(cluster=pl.col("group")), by)
    return Proof(metric, judge, dataset, by, accepted, same, agreement, rows)


def _row(name: str, pairs: pl.DataFrame, *, fault: bool, by: float, has_threshold: bool) -> ChangeRow:
    considered = pairs.filter(pl.col("usable") & pl.col("before").is_not_null()) if fault else pairs
    scored = considered.filter(pl.col("moved").is_not_null())
    close = by - 1e-9
    held = (pl.col("moved") <= -close) if fault else (pl.col("moved").abs() < close)
    rate = mean_of(scored, held.cast(pl.Float64), bounded=True)
    flips = mean_of(scored.filter(pl.col("flipped").is_not_null()), pl.col("flipped"), bounded=True)
    return ChangeRow(
        name,
        fault,
        rate,
        mean_of(scored, pl.col("moved"), bounded=False),
        of_change(rate, fault=fault),
        considered.height - scored.height,
        flips if has_threshold else None,
    )


def _same(cells: pl.DataFrame, by: float) -> Estimated | None:
    """The share of pairs of the judge's repeats on one answer that agree."""
    scored = cells.filter(pl.col("status") == "scored").select("dataset", "case_id", "cluster", "repeat", "score")
    pairs = scored.join(scored, on=["dataset", "case_id"], suffix="_other").filter(
        pl.col("repeat") < pl.col("repeat_other")
    )
    if not pairs.height:
        return None
    close = ((pl.col("score") - pl.col("score_other")).abs() < by - 1e-9).cast(pl.Float64)
    answers = pairs.group_by("dataset", "case_id", "cluster", maintain_order=True).agg(value=close.mean())
    return mean_of(answers, pl.col("value"), bounded=True)

"""Rank the judges of a sweep by their agreement with people."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalflow.lazy import np, pl
from evalflow.stats.arrays import Array, Floats
from evalflow.stats.paired import adjust
from evalflow.stats.rank import Agreements, Measure, agreements
from evalflow.summary.agreement import ANSWER_KEY, classes_of, clusters_of, weights_of
from evalflow.summary.verdicts import Standing, above_chance, of_first, of_judge


@dataclass(frozen=True, slots=True)
class JudgeInRun:
    """A judge in one run, with the rows of `labelled_scores` that have a label, of one dataset, metric and target."""

    run: str
    judge: str
    labelled: pl.DataFrame
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class RankedJudge:
    """A judge's agreement with people, and its verdict.

    `cost_usd` is that of its run; `corrected` is the run's mean corrected by people's labels: estimate, ci_low,
    ci_high, method, n_labels.
    """

    run: str
    judge: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    p_adjusted: float | None
    verdict: Standing
    cost_usd: float | None = None
    corrected: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JudgeBoard:
    """The judges of a dataset, metric and target, ranked on `n` labelled answers; empty without a `measure`."""

    dataset: str
    metric: str
    target: str
    measure: Measure | None
    n: int
    ranking: Sequence[RankedJudge]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> JudgeBoard:
        """The board of an entry of `choice` in a sweep's calibration.json."""
        about = {name: value for name, value in document.items() if name != "ranking"}
        return cls(**about, ranking=[RankedJudge(**row) for row in document["ranking"]])


def chooses(key: str, seed: int) -> bool:
    """Whether a label is used to choose the judge: a fixed half of the keys (a hash or the group of answers)."""
    return hashlib.sha256(f"{seed} {key}".encode()).digest()[0] % 2 == 0


def choose(of: tuple[str, str, str], candidates: Sequence[JudgeInRun], seed: int, *, fewest: int = 1) -> JudgeBoard:
    """Rank the judges `of` a dataset, metric and target by their agreement with people.

    Agreement is measured on the answers that all judges scored and people labelled: Cohen's kappa if judges and people
    use the same few classes, else Spearman's correlation. Each judge is compared with the best. Since the data chose
    that one, p-values are adjusted by Holm as if all pairs were tested. A judge without a value has no verdict. With
    fewer than `fewest` labelled answers the ranking is empty.
    """
    sides = _common([one.labelled for one in candidates])
    if sides[0].height < fewest:
        return JudgeBoard(*of, None, sides[0].height, [])
    measure, human, judges, clusters, weights = _as_measured(sides, [one.higher_is_better for one in candidates])
    judge_agreement = replace(agreements(human, judges, measure, clusters, weights, seed=seed), n=sides[0].height)
    ranked = [
        place for place in range(len(candidates)) if judge_agreement.values[place] == judge_agreement.values[place]
    ]
    ranked.sort(key=lambda place: -judge_agreement.values[place])
    verdicts = _verdicts(judge_agreement, ranked)
    ranking = [_entry(candidates[place], judge_agreement, place, *verdicts[place]) for place in ranked]
    rest = [place for place in range(len(candidates)) if place not in ranked]
    ranking += [_entry(candidates[place], judge_agreement, place, None, "undefined") for place in rest]
    return JudgeBoard(*of, measure, judge_agreement.n, ranking)


def _common(sides: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    shared = sides[0].select(ANSWER_KEY)
    for side in sides[1:]:
        shared = shared.join(side.select(ANSWER_KEY), on=ANSWER_KEY, how="semi")
    return [side.join(shared, on=ANSWER_KEY, how="semi").sort(ANSWER_KEY) for side in sides]


def _as_measured(
    sides: Sequence[pl.DataFrame], higher: Sequence[bool]
) -> tuple[Measure, Array, Array, Array | None, Floats | None]:
    """Measure, people's values, the judges' of shape (judges, answers), clusters and weights."""
    side_classes = [classes_of(side, higher_is_better=up) for side, up in zip(sides, higher, strict=True)]
    classes = [one for one in side_classes if one is not None]
    if len(classes) == len(sides) and all(np.array_equal(one.human, classes[0].human) for one in classes):
        first = classes[0]
        judges = np.stack([one.judge for one in classes])
        return "kappa", first.human, judges, first.clusters(sides[0]), first.weights(sides[0])
    scores = np.stack([side["score"].to_numpy() for side in sides])
    return "spearman", sides[0]["human"].to_numpy(), scores, clusters_of(sides[0]), weights_of(sides[0])


def _verdicts(judge_agreement: Agreements, ranked: Sequence[int]) -> Mapping[int, tuple[float | None, Standing]]:
    if not ranked:
        return {}
    best, *others = ranked
    p_values = {place: judge_agreement.difference(best, place).p_value for place in others}
    tested = {place: p for place, p in p_values.items() if p is not None}
    pairs = len(ranked) * (len(ranked) - 1) // 2
    adjusted: list[float] = adjust([*tested.values(), *[1.0] * (pairs - len(tested))], "holm").tolist()
    known = dict(zip(tested, adjusted, strict=False))
    verdicts: dict[int, Standing] = {place: of_judge(known.get(place)) for place in others}
    agrees = above_chance(float(judge_agreement.values[best]), judge_agreement.interval(best).low)
    first = of_first(verdicts.values(), agrees=agrees)
    return {best: (None, first), **{place: (known.get(place), verdicts[place]) for place in others}}


def _entry(one: JudgeInRun, judge_agreement: Agreements, place: int, p: float | None, verdict: Standing) -> RankedJudge:
    value, span = float(judge_agreement.values[place]), judge_agreement.interval(place)
    return RankedJudge(one.run, one.judge, value if value == value else None, span.low, span.high, p, verdict)

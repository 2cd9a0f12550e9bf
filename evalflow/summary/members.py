"""Members of a panel or a cascade compared with people's labels: errors, weights, and when to escalate."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from evalflow.lazy import np, pl
from evalflow.records import passes
from evalflow.stats.arrays import Bools, Estimated, Floats, Ints, cluster_codes
from evalflow.stats.dawid_skene import MISSING, dawid_skene, shared_errors
from evalflow.stats.intervals import mean_estimate
from evalflow.stats.paired import Difference, paired_difference, standard_error
from evalflow.stats.prediction import FOLDS, MIN_LABELS
from evalflow.summary.agreement import nearest_levels
from evalflow.summary.calibration import CalibrationRow

_MAX_CLASSES = 5
_HALF = 0.5
_LEAST_WEIGHT = 0.01
_THRESHOLDS = 11


@dataclass(frozen=True, slots=True)
class MemberScores:
    """Each member's score of each scored answer; members are in the order declared or asked.

    Scores, costs and confidence have the shape (answers, members), NaN if a member was not asked or gave no value;
    `human` is NaN without a label, or if people are tied between two classes. `levels` are the classes, ascending:
    fail and pass, 0 and 1, with a `threshold`.
    """

    names: Sequence[str]
    scores: Floats
    costs: Floats
    confidence: Floats
    human: Floats
    units: Ints
    levels: Floats
    threshold: float | None
    higher_is_better: bool

    def of_class(self, scores: Floats) -> Ints:
        """The class of each score, by the threshold or as the nearest level (ties up); MISSING for NaN."""
        if self.threshold is not None:
            classes = passes(scores, self.threshold, higher_is_better=self.higher_is_better).astype(np.int64)
        else:
            down = self.levels[::-1]
            classes = self.levels.size - 1 - np.abs(np.nan_to_num(scores)[..., None] - down).argmin(axis=-1)
        return np.where(np.isnan(scores), MISSING, classes)

    @property
    def classes(self) -> list[str]:
        return ["fail", "pass"] if self.threshold is not None else [f"{level:g}" for level in self.levels]

    def known(self) -> Bools:
        """The labelled answers that all members scored."""
        return ~np.isnan(self.human) & ~np.isnan(self.scores).any(axis=1)


@dataclass(frozen=True, slots=True)
class PanelAdvice:
    """Advice on a panel, from the `n` labelled answers that all members scored."""

    names: Sequence[str]
    n: int
    classes: Sequence[str]
    confusion: Sequence[Sequence[Sequence[Estimated]]]  # shares, by member, people's class (down) and its own (across)
    weights: Mapping[str, float]  # of each member, for `vote: weighted`; they sum to 1
    useless: Sequence[str]  # members no better than chance
    # How often each way to combine the members says what people say, on labels that did not shape it: majority, best
    # member, weighted, Dawid-Skene.
    ways: Mapping[str, Estimated]
    gain: Difference  # share right by weights minus share right by majority
    # The member that agrees with people most often; its share right minus that of the weighted vote.
    alone: tuple[str, Difference]
    shared: Sequence[
        tuple[str, str, Estimated]
    ]  # by pair of members: how much more often they agree than independent members would


@dataclass(frozen=True, slots=True)
class EscalationPoint:
    """A cascade's threshold: share escalated, mean cost per answer if known, and share judged as people do."""

    threshold: float
    escalated: float
    cost_usd: float | None
    agreement: Estimated


@dataclass(frozen=True, slots=True)
class CascadeAdvice:
    """Advice on a cascade's `escalate_below`: points by threshold. Thresholds above the run's own cannot be evaluated.

    The advised threshold is the cheapest whose agreement is within a standard error of the best. `validated` is the
    agreement of this choice when made on other labels; `gain` is its difference to the run's own threshold.
    """

    names: Sequence[str]
    n: int
    points: Sequence[EscalationPoint]
    advised: EscalationPoint
    validated: Estimated
    gain: Difference


def member_scores(
    row: CalibrationRow, scores: pl.LazyFrame, names: Sequence[str], *, confidence: bool
) -> MemberScores | None:
    """The members' scores of the first judgement; None if these are not few classes and there is no threshold."""
    key = ["case_id", "target_repeat"]
    own = scores.filter(dataset=row.dataset, metric=row.metric, target=row.target, repeat=0)
    first = own.with_columns(pl.col("target_repeat").cast(pl.Int64))
    parts = first.filter(member_of=row.judge).select(*key, "judge", "score", "cost_usd").collect()
    sides = [
        parts.filter(pl.col("judge") == name).select(*key, pl.col("score", "cost_usd").name.suffix(f":{at}"))
        for at, name in enumerate(names)
    ]
    table = row.answers
    for side in sides:
        table = table.join(side, on=key, how="left", maintain_order="left")
    sure = np.full((table.height, len(names)), math.nan)
    if confidence:
        decided = first.filter(pl.col("member_of").is_null() & (pl.col("judge") == row.judge)).select(*key, "steps")
        steps = table.join(decided.collect(), on=key, how="left", maintain_order="left")["steps"]
        for place, by_member in enumerate(map(_confidences, steps)):
            sure[place] = [math.nan if by_member.get(name) is None else by_member[name] for name in names]
    columns = [
        table.select(f"{what}:{at}" for at in range(len(names))).cast(pl.Float64).fill_null(math.nan).to_numpy()
        for what in ("score", "cost_usd")
    ]
    human = table["human"].cast(pl.Float64).fill_null(math.nan).to_numpy().copy()
    values = np.unique(columns[0][~np.isnan(columns[0])])
    threshold = table["threshold"].drop_nulls()
    limit = float(threshold[0]) if threshold.len() else None
    if limit is not None or set(values.tolist()) <= {0.0, 1.0}:
        values = np.array([0.0, 1.0])
    elif values.size > _MAX_CLASSES:
        return None
    shares = human if limit is None else table["accepted"].fill_null(math.nan).to_numpy()
    low, high = nearest_levels(shares, values)
    human[low != high] = math.nan
    return MemberScores(
        names=names,
        scores=columns[0],
        costs=columns[1],
        confidence=sure,
        human=human,
        units=cluster_codes(table["cluster"].to_numpy()),
        levels=values,
        threshold=limit,
        higher_is_better=row.traits.higher_is_better,
    )


def _confidences(steps: str | None) -> dict[str, object]:
    for step in json.loads(steps or "[]"):
        if step["id"] == "members":
            return {name: reply.get("confidence") for name, reply in zip(step["items"], step["reply"], strict=True)}
    return {}


def panel_advice(members: MemberScores, seed: int) -> PanelAdvice | None:
    """Error rates, weights and their gain, and shared errors; None for fewer than MIN_LABELS labels or one class."""
    known = members.known()
    votes, truth = members.of_class(members.scores), members.of_class(members.human)
    known_votes, true, units = votes[known], truth[known], cluster_codes(members.units[known])
    classes = members.levels.size
    if true.size < MIN_LABELS or np.unique(true).size < 2 or np.unique(units).size < 2:
        return None
    weights, useless = _weights(known_votes, true, classes)
    right = _validated_ways(members, known, votes, truth, classes, seed)
    names = members.names
    return PanelAdvice(
        names=names,
        n=true.size,
        classes=members.classes,
        confusion=[_confusion(known_votes[:, at], true, units, classes) for at in range(len(names))],
        weights=dict(zip(names, (weights / weights.sum()).tolist(), strict=True)),
        useless=[name for name, none in zip(names, useless.tolist(), strict=True) if none],
        ways={name: mean_estimate(one, units, bounded=True) for name, one in right.items()},
        gain=paired_difference(right["majority"], right["weighted"], units, seed, bounded=True),
        alone=(
            names[int((known_votes == true[:, None]).mean(axis=0).argmax())],
            paired_difference(right["weighted"], right["best member"], units, seed, bounded=True),
        ),
        shared=[
            (names[a], names[b], shared_errors(known_votes[:, a], known_votes[:, b], true, classes, units, seed))
            for a, b in combinations(range(len(names)), 2)
        ],
    )


def _confusion(votes: Ints, true: Ints, units: Ints, classes: int) -> list[list[Estimated]]:
    return [
        [mean_estimate(votes[true == down] == across, units[true == down], bounded=True) for across in range(classes)]
        for down in range(classes)
    ]


def _weights(votes: Ints, true: Ints, classes: int) -> tuple[Floats, Bools]:
    """Log-odds of each member's accuracy, as a mean over the classes (Nitzan & Paroush 1982), and who is useless."""
    model = dawid_skene(votes, true, classes)
    diagonal = np.diagonal(model.confusion, axis1=1, axis2=2)
    accuracy = diagonal[:, np.unique(true)].mean(axis=1)
    odds = np.log(accuracy * (classes - 1) / (1 - accuracy))
    floor = _LEAST_WEIGHT * max(1.0, float(odds.max()))
    return np.maximum(odds, floor), odds <= 0


def _validated_ways(
    members: MemberScores, known: Bools, votes: Ints, truth: Ints, classes: int, seed: int
) -> dict[str, Floats]:
    """Whether each combination is right on each known answer; weights, model and best member come from other folds."""
    place = np.flatnonzero(known)
    known_votes, true, scores = votes[place], truth[place], members.scores[place]
    folds = _folds(members.units[place], seed)
    shares = (known_votes[:, :, None] == np.arange(classes)).sum(axis=1)
    # A tie goes to the worse class: the first one, or the last one if lower scores are better.
    worst_first = members.threshold is not None or members.higher_is_better
    most = shares.argmax(axis=1) if worst_first else classes - 1 - shares[:, ::-1].argmax(axis=1)
    right = {"majority": (most == true).astype(np.float64)}
    best, weighted, pooled = (np.zeros(true.size) for _ in range(3))
    for fold in np.unique(folds):
        test, train = folds == fold, folds != fold
        winner = (known_votes[train] == true[train, None]).mean(axis=0).argmax()
        best[test] = known_votes[test, winner] == true[test]
        weights, _ = _weights(known_votes[train], true[train], classes)
        weighted[test] = members.of_class(scores[test] @ weights / weights.sum()) == true[test]
        labels = np.where(np.isnan(members.human), MISSING, truth)
        labels[place[test]] = MISSING
        model = dawid_skene(votes, labels, classes)
        pooled[test] = model.truth[place[test]].argmax(axis=1) == true[test]
    return right | {"best member": best, "weighted": weighted, "dawid_skene": pooled}


def _folds(units: Ints, seed: int) -> Ints:
    codes = cluster_codes(units)
    return (np.random.default_rng(seed).permutation(int(codes.max()) + 1) % FOLDS)[codes]


def cascade_advice(members: MemberScores, current: float, seed: int) -> CascadeAdvice | None:
    """Agreement and cost by threshold; None for fewer than MIN_LABELS labels that the cascade scored, or one group."""
    sure = members.confidence[~np.isnan(members.confidence[:, 0]), 0]
    tried = np.round(np.quantile(sure, np.linspace(0, 1, _THRESHOLDS)), 3) if sure.size else sure
    thresholds = np.unique(np.append(tried[(tried > 0) & (tried < current)], current))
    made = [_decide(members, threshold) for threshold in thresholds.tolist()]
    truth = members.of_class(members.human)
    known = (truth != MISSING) & np.all([~np.isnan(scores) for scores, _ in made], axis=0)
    units = cluster_codes(members.units[known]) if known.any() else members.units[:0]
    if known.sum() < MIN_LABELS or np.unique(units).size < 2:
        return None
    right = np.stack([members.of_class(scores[known]) == truth[known] for scores, _ in made]).astype(np.float64)
    costs = np.nan_to_num(members.costs)
    unknown = bool(np.isnan(members.costs[~np.isnan(members.scores)]).any())
    points = [
        EscalationPoint(
            float(threshold),
            float(asked[:, 1:].any(axis=1).mean()),
            None if unknown else float((costs * asked).sum(axis=1).mean()),
            mean_estimate(own, units, bounded=True),
        )
        for threshold, (_, asked), own in zip(thresholds, made, right, strict=True)
    ]
    folds = _folds(units, seed)
    validated = np.zeros(units.size)
    for fold in np.unique(folds):
        validated[folds == fold] = right[_cheapest(right[:, folds != fold], units[folds != fold]), folds == fold]
    return CascadeAdvice(
        names=members.names,
        n=units.size,
        points=points,
        advised=points[_cheapest(right, units)],
        validated=mean_estimate(validated, units, bounded=True),
        gain=paired_difference(right[-1], validated, units, seed, bounded=True),
    )


def _decide(members: MemberScores, threshold: float) -> tuple[Floats, Bools]:
    """The score of each answer, and the members asked, if members with confidence below the threshold are escalated."""
    n, last = members.scores.shape[0], members.scores.shape[1] - 1
    score, asked = np.full(n, math.nan), np.zeros(members.scores.shape, dtype=bool)
    open_ = np.ones(n, dtype=bool)
    for at in range(last + 1):
        asked[:, at] = open_
        sure = open_ & ~np.isnan(members.scores[:, at]) & ((at == last) | (members.confidence[:, at] >= threshold))
        score[sure] = members.scores[sure, at]
        open_ = open_ & ~sure
    return score, asked


def _cheapest(right: Floats, units: Ints) -> int:
    """The lowest threshold whose agreement is within a standard error of the best (Breiman et al. 1984, sec. 3.4.3)."""
    best = int(right.mean(axis=1).argmax())
    for at in range(best):
        error, _ = standard_error(right[best] - right[at], units)
        if right[best].mean() - right[at].mean() <= (error or 0.0):
            return at
    return best

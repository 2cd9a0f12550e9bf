"""Agreement among people: reliability, Fleiss' kappa, Gwet's AC1, Krippendorff's alpha; can a judge replace one?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from evalflow.lazy import np
from evalflow.stats.arrays import LEVEL, ArrayLike, Estimated, Floats, Ints, mean_ranks, undefined
from evalflow.stats.bootstrap import bootstrap_method, percentile_interval, resample
from evalflow.stats.paired import adjust

Level = Literal["ordinal", "interval"]
# More clusters than this are first merged at random into parcels: the same variance at far less cost.
_MANY = 1_000


def mean_reliability(ratings: ArrayLike) -> float | None:
    """Reliability of an answer's mean over k raters, who may differ by answer: the intraclass correlation ICC(1, k).

    Shrout & Fleiss 1979 (Psychological Bulletin 86:420), one-way random. None where undefined.
    """
    table = np.asarray(ratings, dtype=np.float64)
    n, k = table.shape
    if n < 2 or k < 2:
        return None
    whole = table - table.mean()
    rows = k * float((whole.mean(axis=1) ** 2).sum())
    within = max(0.0, float((whole**2).sum()) - rows)
    between, inside = rows / (n - 1), within / (n * (k - 1))
    return _ratio(between - inside, between)


def spearman_brown(reliability: float, times: float) -> float:
    """Reliability of a mean of m times as many ratings (Spearman 1910; Brown 1910): m r / (1 + (m - 1) r)."""
    return times * reliability / (1 + (times - 1) * reliability)


def noise_ceiling(reliability: float) -> float | None:
    """The highest correlation with ratings of this reliability: its square root (Spearman 1904). None below 0."""
    return math.sqrt(reliability) if reliability >= 0 else None


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Agreement beyond chance of several raters of each answer (Fleiss 1971, Psychological Bulletin 76:378).

    `counts` has the shape (answers, classes): how many raters gave the class; equally many raters of each answer, two
    or more. None where all ratings are of one class.
    """
    table, agree = _pairs(counts)
    shares = table.sum(axis=0) / table.sum()
    return _ratio(agree - float((shares**2).sum()), 1 - float((shares**2).sum()))


def gwet_ac1(counts: ArrayLike) -> float | None:
    """Agreement beyond chance that stays meaningful if a class is rare (Gwet 2008, BJMSP 61:29); None for one class."""
    table, agree = _pairs(counts)
    classes = table.shape[1]
    if classes < 2:
        return None
    shares = table.sum(axis=0) / table.sum()
    chance = float((shares * (1 - shares)).sum()) / (classes - 1)
    return _ratio(agree - chance, 1 - chance)


def _pairs(counts: ArrayLike) -> tuple[Floats, float]:
    """The counts, and the share of agreeing pairs among the ratings of an answer."""
    table = np.asarray(counts, dtype=np.float64)
    raters = table.sum(axis=1)
    return table, float(((table * (table - 1)).sum(axis=1) / (raters * (raters - 1))).mean())


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 1e-12 else None


def krippendorff_alpha(
    ratings: ArrayLike, level: Level = "interval", clusters: ArrayLike | None = None, *, seed: int = 0
) -> Estimated:
    """Krippendorff's alpha over the answers that have two ratings or more, of shape (raters, answers), NaN if missing.

    `level` says whether the distance of two ratings counts, or only their order. Undefined if no answer has two
    ratings, and if all ratings are equal.
    """
    table = np.asarray(ratings, dtype=np.float64)
    paired = (~np.isnan(table)).sum(axis=0) >= 2
    table, n = table[:, paired], int(paired.sum())
    if not n:
        return undefined(0, "no answer has two ratings")
    groups = np.arange(n) if clusters is None else np.unique(np.asarray(clusters)[paired], return_inverse=True)[1]
    size = int(groups.max()) + 1
    parcels = np.random.default_rng(seed).permutation(size)[groups] % _MANY
    totals = _parcel_sums(table, level, parcels)
    # Sorted, so that the order of the answers does not change the interval.
    totals = totals[np.lexsort(totals.T)]
    value = float(_alpha(totals.sum(axis=0)[None, :])[0])
    if np.isnan(value):
        return undefined(n, "all ratings are equal")
    if size < 2:
        return undefined(n, "one answer" if n == 1 else "one cluster", value)
    method = bootstrap_method("{}bootstrap", size, clustered=size < n, what="answers")
    draws = _alpha(resample(totals, np.ones(len(totals), dtype=np.int64), seed))
    found = percentile_interval(draws, method, size)
    return Estimated(value, found.low, found.high, found.std_error, n, found.method)


@dataclass(frozen=True, slots=True)
class AlphaComparison:
    """Krippendorff's alpha of two people, of a person and the judge, and the second minus the first.

    All three are of the same answers, those that several people labelled, and have intervals from the same resamples.
    """

    people: Estimated
    judge: Estimated
    difference: Estimated


def compare_alphas(
    people: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None, *, seed: int = 0
) -> AlphaComparison:
    """Compare how a judge agrees with people with how they agree with each other, by one measure.

    `people` has the shape (raters, answers), NaN if missing. Alpha (interval) is of pairs of ratings of one answer: of
    two people's, or of each person's and the judge's; an answer counts by its number of labels in both. A judge that is
    as near to people as another person has the same alpha, however many people there are. Only answers with two labels
    or more count.
    """
    table, own = np.asarray(people, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    paired = (~np.isnan(table)).sum(axis=0) >= 2
    table, own, n = table[:, paired], own[paired], int(paired.sum())
    if not n:
        nothing = undefined(0, "no answer has two ratings")
        return AlphaComparison(nothing, nothing, nothing)
    groups = np.arange(n) if clusters is None else np.unique(np.asarray(clusters)[paired], return_inverse=True)[1]
    size = int(groups.max()) + 1
    parcels = np.random.default_rng(seed).permutation(size)[groups] % _MANY
    totals = np.concatenate([_parcel_sums(table, "interval", parcels), _judge_sums(table, own, parcels)], axis=1)
    totals = totals[np.lexsort(totals.T)]  # so that the order of the answers does not change the intervals
    whole, half = totals.sum(axis=0)[None, :], totals.shape[1] // 2
    values = [_alpha(whole[:, :half]), _alpha(whole[:, half:])]
    values.append(values[1] - values[0])
    if size < 2:
        drawn: list[Floats] = []
    else:
        sums = resample(totals, np.ones(len(totals), dtype=np.int64), seed)
        drawn = [_alpha(sums[:, :half]), _alpha(sums[:, half:])]
        drawn.append(drawn[1] - drawn[0])
    method = bootstrap_method("{}bootstrap", size, clustered=size < n, what="answers")
    found: list[Estimated] = []
    for place, one in enumerate(values):
        value = float(one[0])
        if np.isnan(value):
            found.append(undefined(n, "all ratings are equal"))
        elif not drawn:
            found.append(undefined(n, "one answer" if n == 1 else "one cluster", value))
        else:
            span = percentile_interval(drawn[place], method, size)
            found.append(Estimated(value, span.low, span.high, span.std_error, n, span.method))
    return AlphaComparison(*found)


def _judge_sums(table: Floats, judge: Floats, parcels: Ints) -> Floats:
    """The columns of `_parcel_sums` of the pairs of each person's label and the judge's score."""
    given = ~np.isnan(table)
    centre = float(np.nanmean(table))
    values, own, m = table - centre, judge - centre, given.sum(axis=0)
    apart = np.nansum((values - own) ** 2, axis=0)
    first, second = np.nansum(values, axis=0) + m * own, np.nansum(values**2, axis=0) + m * own**2
    return np.stack([np.bincount(parcels, column) for column in (2 * m, 2 * apart, first, second)], axis=1).astype(
        np.float64
    )


def _alpha(totals: Floats) -> Floats:
    """Alpha for each row of column totals; NaN if the ratings do not differ."""
    n, observed, first, second = (totals[:, i] for i in range(4))
    expected = 2 * (n * second - first**2)
    share = np.divide((n - 1) * observed, expected, out=np.full(n.shape, np.nan), where=expected > 1e-12 * n * second)
    return 1 - share


def _parcel_sums(table: Floats, level: Level, parcels: Ints) -> Floats:
    """Per parcel: number of ratings, their disagreement, and sums of values and squares about the overall mean."""
    given = ~np.isnan(table)
    values = table.copy()
    if level == "ordinal":
        values[given] = mean_ranks(table[given])
    values -= np.nanmean(values)
    m = given.sum(axis=0)
    first, second = np.nansum(values, axis=0), np.nansum(values**2, axis=0)
    within = np.nansum((values - first / m) ** 2, axis=0)
    columns = (m, 2 * m * within / (m - 1), first, second)
    return np.stack([np.bincount(parcels, column) for column in columns], axis=1).astype(np.float64)


EPSILON = 0.2
"""Cost advantage of the judge: 0.2 for experts, 0.15 for trained people, 0.1 for a crowd (section 3 of the paper)."""
NO_AGREEMENT = "no agreement beyond chance"
MIN_PEOPLE = 3
MIN_ANSWERS = 30

Nearness = Literal["accuracy", "neg_rmse"]
"""accuracy: share of the others who give the same label; neg_rmse: minus the root mean squared distance to them."""


@dataclass(frozen=True, slots=True)
class AltTest:
    """The result of the test; None without one, and `method` says why after a colon.

    `passes`: the judge is behind half of the people or more (`winning_rate`) by less than EPSILON. The `advantage` is
    the share of the answers on which the judge is at least as near to the others as the person; mean over people, or by
    person, NaN for one who shares no answers with others. `behind` is the share of the answers on which the person is
    nearer minus that on which the judge is, mean over people. P-values are not adjusted.
    """

    passes: bool | None
    winning_rate: float | None
    advantage: float | None
    p_values: Floats
    advantages: Floats
    method: str
    behind: float | None = None

    @property
    def people(self) -> int:
        """The number of people with whom the judge was compared."""
        return int((~np.isnan(self.p_values)).sum())

    def document(self) -> dict[str, Any]:
        """The test as JSON, without what each person has."""
        shown = {name: getattr(self, name) for name in ("passes", "winning_rate", "advantage", "behind", "method")}
        return {**shown, "epsilon": EPSILON}


def alt_test(people: ArrayLike, judge: ArrayLike, nearness: Nearness = "accuracy", *, agrees: bool = True) -> AltTest:
    """The alternative annotator test: can a judge replace a person?

    Each person is left out in turn, and the judge and that person are both compared with the others. For each answer d
    is 1 if the person is at least as near to the others as the judge, minus 1 if the judge is at least as near as the
    person. The judge can replace the person if the mean of d is below EPSILON, by a one-sided t test, adjusted over
    people after Benjamini & Yekutieli. The judge passes if it can replace half of the people or more (Calderon et al.
    2025, arXiv:2501.10970). A judge that gives all answers the commonest label can win too; so it does not pass unless
    it `agrees` with people beyond chance.
    """
    table, own = np.asarray(people, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    nothing = np.full(len(table), np.nan)
    if len(table) < MIN_PEOPLE:
        return AltTest(None, None, None, nothing, nothing, f"none: fewer than {MIN_PEOPLE} people")
    p_values, advantages, behind, sizes = nothing.copy(), nothing.copy(), nothing.copy(), np.zeros(len(table))
    for person in range(len(table)):
        others = np.delete(table, person, axis=0)
        shared = ~np.isnan(table[person]) & ~np.isnan(others).all(axis=0)
        sizes[person] = shared.sum()
        if shared.sum() < 2:
            continue
        theirs = _near(table[person, shared], others[:, shared], nearness)
        judges = _near(own[shared], others[:, shared], nearness)
        advantages[person] = (judges >= theirs).mean()
        d = (theirs >= judges).astype(np.float64) - (judges >= theirs)
        behind[person], p_values[person] = d.mean(), _below(d)
    tested = ~np.isnan(p_values)
    if tested.sum() < MIN_PEOPLE:
        return AltTest(None, None, None, p_values, advantages, f"none: fewer than {MIN_PEOPLE} people share answers")
    rate = float((adjust(p_values, "by")[tested] < LEVEL).mean())
    notes = [f"fewer than {MIN_ANSWERS} answers of a person"] * bool(sizes[tested].min() < MIN_ANSWERS)
    notes += [] if agrees else [NO_AGREEMENT]
    method = f"alt_test_by{': ' if notes else ''}{', '.join(notes)}"
    means = float(advantages[tested].mean()), float(behind[tested].mean())
    return AltTest(agrees and rate >= 0.5, rate, means[0], p_values, advantages, method, means[1])


def _near(values: Floats, others: Floats, nearness: Nearness) -> Floats:
    if nearness == "accuracy":
        return np.where(np.isnan(others), 0, others == values).sum(axis=0) / (~np.isnan(others)).sum(axis=0)
    return -np.sqrt(np.nanmean((others - values) ** 2, axis=0))


def _below(d: Floats) -> float:
    """One-sided p-value of a mean of at least EPSILON."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    error = float(d.std(ddof=1)) / np.sqrt(d.size)
    if not error > 0:
        return float(d.mean() >= EPSILON)
    return float(stdtr(d.size - 1, (d.mean() - EPSILON) / error))

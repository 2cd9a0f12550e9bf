"""Agreement among people (reliability, Fleiss' kappa, Gwet's AC1, Krippendorff's alpha) and of a judge with them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Estimated, Floats, Ints, cluster_codes, mean_ranks, undefined
from evalflow.stats.bootstrap import bootstrap_method, percentile_interval, resample
from evalflow.stats.paired import adjust
from evalflow.stats.quantiles import student_tail

Level = Literal["ordinal", "interval"]
# More clusters than this are first merged at random into parcels: the same variance at far less cost.
_MANY = 1_000


def reliability(ratings: ArrayLike, clusters: ArrayLike | None = None, *, seed: int = 0) -> Estimated:
    """Reliability, 0..1, of an answer's mean rating, over the answers with two ratings or more.

    `ratings` has the shape (raters, answers), NaN if missing; raters may differ by answer. If all these answers have k
    ratings, this is the intraclass correlation ICC(1, k), one-way random (Shrout & Fleiss 1979, Psychological Bulletin
    86:420); else it comes from alpha (`spearman_brown`), for the mean number of ratings per answer. The interval is a
    percentile bootstrap over answers, or clusters. Undefined if the ratings do not differ, and if answers differ less
    than by chance.
    """
    table, parcels, n, size = _several(ratings, clusters, seed)
    if not n:
        return undefined(0, "no answer has two ratings")
    given = (~np.isnan(table)).sum(axis=0)
    k = int(given[0]) if (given == given[0]).all() else None
    totals = np.column_stack([_parcel_sums(table, "interval", parcels), np.bincount(parcels)]).astype(np.float64)
    totals = totals[np.lexsort(totals.T)]
    value = float(_reliability(totals.sum(axis=0)[None, :], k)[0])
    if not value >= 0:
        return undefined(n, "all ratings are equal" if np.isnan(value) else "answers differ no more than chance")
    return _resampled(value, _reliability(_draws(totals, size, seed), k), n, size)


def _reliability(totals: Floats, k: int | None) -> Floats:
    """Reliability for each row of column totals, whose last column is the number of answers; NaN without variation."""
    ratings, observed, first, second, n = (totals[:, i] for i in range(5))
    if k is None:
        return spearman_brown(np.maximum(_alpha(totals), 0), ratings / n)
    within = observed * (k - 1) / (2 * k)
    between = second - within - first**2 / ratings
    inside = within * (n - 1) / (n * (k - 1))
    return 1 - np.divide(inside, between, out=np.full(n.shape, np.nan), where=between > 1e-12 * n)


def spearman_brown(reliability: Floats, times: ArrayLike) -> Floats:
    """Reliability of a mean of m times as many ratings (Spearman 1910; Brown 1910): m r / (1 + (m - 1) r)."""
    m = np.asarray(times, dtype=np.float64)
    return m * reliability / (1 + (m - 1) * reliability)


def noise_ceiling(reliability: Estimated) -> Estimated:
    """The highest possible correlation with such ratings: the root of their reliability (Spearman 1904)."""
    ends = (reliability.value, reliability.low, reliability.high)
    value, low, high = (None if end is None else math.sqrt(max(0.0, end)) for end in ends)
    return replace(reliability, value=value, low=low, high=high, std_error=None)


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Agreement beyond chance of several raters of each answer (Fleiss 1971, Psychological Bulletin 76:378).

    `counts` has the shape (answers, classes): how many raters gave the class; each answer has the same number of
    raters, two or more. None if all ratings are of one class.
    """
    table, agree = _pairs(counts)
    shares = table.sum(axis=0) / table.sum()
    return _ratio(agree - float((shares**2).sum()), 1 - float((shares**2).sum()))


def gwet_ac1(counts: ArrayLike) -> float | None:
    """Agreement beyond chance that stays meaningful for a rare class (Gwet 2008, BJMSP 61:29); None for one class."""
    table, agree = _pairs(counts)
    classes = table.shape[1]
    if classes < 2:
        return None
    shares = table.sum(axis=0) / table.sum()
    chance = float((shares * (1 - shares)).sum()) / (classes - 1)
    return _ratio(agree - chance, 1 - chance)


def _pairs(counts: ArrayLike) -> tuple[Floats, float]:
    """The counts, and the share of agreeing pairs among the ratings of the same answer."""
    table = np.asarray(counts, dtype=np.float64)
    raters = table.sum(axis=1)
    return table, float(((table * (table - 1)).sum(axis=1) / (raters * (raters - 1))).mean())


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 1e-12 else None


def krippendorff_alpha(
    ratings: ArrayLike, level: Level = "interval", clusters: ArrayLike | None = None, *, seed: int = 0
) -> Estimated:
    """Krippendorff's alpha over the answers that have two ratings or more, of shape (raters, answers), NaN if missing.

    `level`: whether the distance of two ratings counts, or only their order. Undefined if no answer has two ratings,
    and if all ratings are equal.
    """
    table, parcels, n, size = _several(ratings, clusters, seed)
    if not n:
        return undefined(0, "no answer has two ratings")
    totals = _parcel_sums(table, level, parcels)
    # Sorted, so that the order of the answers does not change the interval.
    totals = totals[np.lexsort(totals.T)]
    value = float(_alpha(totals.sum(axis=0)[None, :])[0])
    if np.isnan(value):
        return undefined(n, "all ratings are equal")
    return _resampled(value, _alpha(_draws(totals, size, seed)), n, size)


def _several(ratings: ArrayLike, clusters: ArrayLike | None, seed: int) -> tuple[Floats, Ints, int, int]:
    """Return the answers with two ratings or more, each one's parcel, and the numbers of answers and clusters."""
    table = np.asarray(ratings, dtype=np.float64)
    paired = (~np.isnan(table)).sum(axis=0) >= 2
    n = int(paired.sum())
    names = np.arange(n) if clusters is None else np.asarray(clusters)[paired]
    groups = cluster_codes(names)
    size = int(groups.max()) + 1 if n else 0
    return table[:, paired], np.random.default_rng(seed).permutation(size)[groups] % _MANY, n, size


def _draws(totals: Floats, size: int, seed: int) -> Floats:
    """Column totals of resamples of the rows; none of a single cluster."""
    return totals[:0] if size < 2 else resample(totals, np.ones(len(totals), dtype=np.int64), seed)


def _resampled(value: float, draws: Floats, n: int, size: int) -> Estimated:
    if size < 2:
        return undefined(n, "one answer" if n == 1 else "one cluster", value)
    interval = percentile_interval(
        draws, bootstrap_method("{}bootstrap", size, clustered=size < n, what="answers"), size
    )
    return Estimated(value, interval.low, interval.high, interval.std_error, n, interval.method)


@dataclass(frozen=True, slots=True)
class AlphaComparison:
    """Krippendorff's alpha of two people, of a person and the judge, and the second minus the first.

    All three use the answers that several people labelled, with intervals from the same resamples.
    """

    people: Estimated
    judge: Estimated
    difference: Estimated


def compare_alphas(
    people: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None, *, seed: int = 0
) -> AlphaComparison:
    """Compare a judge's agreement with people with people's agreement among themselves, by the same measure.

    `people` has the shape (raters, answers), NaN if missing. Interval alpha is computed over pairs of ratings of one
    answer: of two people, or of one person and the judge. Both weight an answer by its number of labels. A judge that
    is as near to people as another person has the same alpha, however many people there are. Only answers with two
    labels or more count.
    """
    own = np.asarray(judge, dtype=np.float64)[(~np.isnan(np.asarray(people, dtype=np.float64))).sum(axis=0) >= 2]
    table, parcels, n, size = _several(people, clusters, seed)
    if not n:
        nothing = undefined(0, "no answer has two ratings")
        return AlphaComparison(nothing, nothing, nothing)
    totals = np.concatenate([_parcel_sums(table, "interval", parcels), _judge_sums(table, own, parcels)], axis=1)
    totals = totals[np.lexsort(totals.T)]  # so that the order of the answers does not change the intervals
    half = totals.shape[1] // 2
    whole, sums = totals.sum(axis=0)[None, :], _draws(totals, size, seed)
    values = [_alpha(whole[:, :half]), _alpha(whole[:, half:])]
    draws = [_alpha(sums[:, :half]), _alpha(sums[:, half:])]
    values.append(values[1] - values[0])
    draws.append(draws[1] - draws[0])
    alphas: list[Estimated] = []
    for [value], own_draws in zip(values, draws, strict=True):
        differs = not np.isnan(value)
        alphas.append(
            _resampled(float(value), own_draws, n, size) if differs else undefined(n, "all ratings are equal")
        )
    return AlphaComparison(*alphas)


def _judge_sums(table: Floats, judge: Floats, parcels: Ints) -> Floats:
    """The columns of `_parcel_sums` for pairs of a person's label and the judge's score."""
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
MIN_PEOPLE = 3
MIN_ANSWERS = 30

Nearness = Literal["accuracy", "neg_rmse"]
"""accuracy: share of the others who give the same label; neg_rmse: minus the root mean squared distance to them."""


@dataclass(frozen=True, slots=True)
class AltTest:
    """The result of the test, for `verdicts.may_replace`; if undefined, `method` says why.

    `p_adjusted` has for each person the p-value of the judge being behind by EPSILON or more, adjusted over people; NaN
    for a person who shares too few answers with others. `advantage` is the share of answers on which the judge is at
    least as near to the others as the person, averaged over people. `behind` is the share of answers on which the
    person is nearer minus the share on which the judge is, averaged over people.
    """

    p_values: Floats
    p_adjusted: Floats
    advantages: Floats
    method: str
    advantage: float | None = None
    behind: float | None = None


def alt_test(people: ArrayLike, judge: ArrayLike, nearness: Nearness = "accuracy") -> AltTest:
    """The alternative annotator test: whether a judge can replace a person.

    Each person is left out in turn, and the judge and that person are both compared with the others. For each answer, d
    is 1 if the person is at least as near to the others as the judge, minus 1 if the judge is at least as near as the
    person. The judge can replace the person if the mean of d is below EPSILON, by a one-sided t test, adjusted over
    people after Benjamini & Yekutieli (Calderon et al. 2025, arXiv:2501.10970).
    """
    table, own = np.asarray(people, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    nothing = np.full(len(table), np.nan)
    if len(table) < MIN_PEOPLE:
        return AltTest(nothing, nothing, nothing, f"none: fewer than {MIN_PEOPLE} people")
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
        return AltTest(p_values, nothing, advantages, f"none: fewer than {MIN_PEOPLE} people share answers")
    caveat = f": fewer than {MIN_ANSWERS} answers of a person" if sizes[tested].min() < MIN_ANSWERS else ""
    means = float(advantages[tested].mean()), float(behind[tested].mean())
    return AltTest(p_values, adjust(p_values, "by"), advantages, f"alt_test_by{caveat}", *means)


def _near(values: Floats, others: Floats, nearness: Nearness) -> Floats:
    if nearness == "accuracy":
        return np.where(np.isnan(others), 0, others == values).sum(axis=0) / (~np.isnan(others)).sum(axis=0)
    return -np.sqrt(np.nanmean((others - values) ** 2, axis=0))


def _below(d: Floats) -> float:
    """One-sided p-value of the hypothesis that the mean is EPSILON or more."""
    error = float(d.std(ddof=1)) / np.sqrt(d.size)
    if not error > 0:
        return float(d.mean() >= EPSILON)
    return float(student_tail(d.size - 1, (d.mean() - EPSILON) / error))

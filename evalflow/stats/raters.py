"""Agreement among people: intraclass correlation, Fleiss' kappa, Gwet's AC1, Krippendorff's alpha, noise ceiling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.lazy import np
from evalflow.stats.agreement import Agreement, undefined
from evalflow.stats.arrays import mean_ranks
from evalflow.stats.bootstrap import bootstrap_method, percentile_bounds, resample
from evalflow.stats.intervals import CONFIDENCE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Reliability:
    """Intraclass correlations (Shrout & Fleiss 1979, Psychological Bulletin 86:420); None where undefined.

    Attributes:
        icc1: One rating; each answer has its own raters (one-way random).
        icc2: One rating; all answers have the same raters, a sample of all raters (two-way random).
        icc3: One rating by these very raters; a rater's overall strictness does not matter (two-way mixed).
        icc1k, icc2k, icc3k: The same for the mean of the k raters.
    """

    icc1: float | None
    icc2: float | None
    icc3: float | None
    icc1k: float | None
    icc2k: float | None
    icc3k: float | None


def icc(ratings: ArrayLike) -> Reliability:
    """Intraclass correlations of a table without gaps.

    Args:
        ratings: Shape (answers, raters), two of each or more.
    """
    table = np.asarray(ratings, dtype=np.float64)
    n, k = table.shape
    if n < 2 or k < 2:
        return Reliability(None, None, None, None, None, None)
    whole = table - table.mean()
    rows, columns = k * float((whole.mean(axis=1) ** 2).sum()), n * float((whole.mean(axis=0) ** 2).sum())
    within = max(0.0, float((whole**2).sum()) - rows)
    between, inside = rows / (n - 1), within / (n * (k - 1))
    raters, rest = columns / (k - 1), max(0.0, within - columns) / ((n - 1) * (k - 1))
    return Reliability(
        _ratio(between - inside, between + (k - 1) * inside),
        _ratio(between - rest, between + (k - 1) * rest + k * (raters - rest) / n),
        _ratio(between - rest, between + (k - 1) * rest),
        _ratio(between - inside, between),
        _ratio(between - rest, between + (raters - rest) / n),
        _ratio(between - rest, between),
    )


def spearman_brown(reliability: float, times: float) -> float:
    """Reliability of a mean of m times as many ratings (Spearman 1910; Brown 1910): m r / (1 + (m - 1) r)."""
    return times * reliability / (1 + (times - 1) * reliability)


def noise_ceiling(reliability: float) -> float | None:
    """The highest correlation with ratings of this reliability: its square root (Spearman 1904). None below 0."""
    return math.sqrt(reliability) if reliability >= 0 else None


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Agreement beyond chance of several raters of each answer (Fleiss 1971, Psychological Bulletin 76:378).

    Args:
        counts: Shape (answers, classes): how many raters gave the class; equally many raters of each answer, two or
            more.

    Returns:
        None where all ratings are of one class.
    """
    table, agree = _pairs(counts)
    shares = table.sum(axis=0) / table.sum()
    return _ratio(agree - float((shares**2).sum()), 1 - float((shares**2).sum()))


def gwet_ac1(counts: ArrayLike) -> float | None:
    """Agreement beyond chance that stays meaningful if one class is rare, unlike kappa (Gwet 2008, BJMSP 61:29).

    Arguments as of `fleiss_kappa`; None for a single class.
    """
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


Level = Literal["nominal", "ordinal", "interval", "ratio"]
# More clusters than this are resampled in random parcels: the same variance at far less cost.
_MANY = 1_000
_DIFFERENT = 1_000


def krippendorff_alpha(
    ratings: ArrayLike,
    level: Level = "nominal",
    clusters: ArrayLike | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Agreement:
    """Alpha over the answers that have two ratings or more.

    Args:
        ratings: Shape (raters, answers), numbers, NaN for a missing rating; classes by their number.
        level: Level of measurement. For ratio, values must not be negative.
        clusters: The cluster of each answer; None if each stands alone.
        confidence: Coverage.
        seed: Seed of the bootstrap.

    Returns:
        Undefined if no answer has two ratings, if all ratings are equal, and for more than 1,000 different nominal or
        ratio values.
    """
    table = np.asarray(ratings, dtype=np.float64)
    paired = (~np.isnan(table)).sum(axis=0) >= 2
    table, n = table[:, paired], int(paired.sum())
    if not n:
        return undefined(0, "no answer has two ratings")
    groups = np.arange(n) if clusters is None else np.unique(np.asarray(clusters)[paired], return_inverse=True)[1]
    size = int(groups.max()) + 1
    parcels = np.random.default_rng(seed).permutation(size)[groups] % _MANY
    distances = None
    if level in ("interval", "ordinal"):
        totals = _moments(table, level, parcels)
    else:
        values = np.unique(table[~np.isnan(table)])
        if values.size > _DIFFERENT:
            return undefined(n, f"more than {_DIFFERENT:,} different values")
        distances = _distances(values, level)
        totals = _counts(table, values, distances, parcels)
    # Sorted, so that the order of the answers does not change the interval.
    totals = totals[np.lexsort(totals.T)]
    value = float(_alpha(totals.sum(axis=0)[None, :], distances)[0])
    if np.isnan(value):
        return undefined(n, "all ratings are equal")
    return _interval(value, totals, distances, (n, size), confidence, seed)


def _interval(
    value: float, totals: Floats, distances: Floats | None, sizes: tuple[int, int], confidence: float, seed: int
) -> Agreement:
    n, groups = sizes
    if groups < 2:
        return undefined(n, "one answer" if n == 1 else "one cluster", value)
    draws = _alpha(resample(totals, np.ones(len(totals), dtype=np.int64), seed), distances)
    low, high, error, why = percentile_bounds(draws, confidence)
    method = why or bootstrap_method("{}bootstrap", groups, clustered=groups < n, what="answers")
    return Agreement(value, low, high, error, n, method)


def _alpha(totals: Floats, distances: Floats | None) -> Floats:
    """Alpha for each row of column totals; NaN if the ratings do not differ."""
    n, observed = totals[:, 0], totals[:, 1]
    if distances is None:
        first, second = totals[:, 2], totals[:, 3]
        expected = 2 * (n * second - first**2)
        least = 1e-12 * n * second
    else:
        expected, least = ((totals[:, 2:] @ distances) * totals[:, 2:]).sum(axis=1), 1e-12
    share = np.divide((n - 1) * observed, expected, out=np.full(n.shape, np.nan), where=expected > least)
    return 1 - share


def _moments(table: Floats, level: Level, parcels: Ints) -> Floats:
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


def _counts(table: Floats, values: Floats, distances: Floats, parcels: Ints) -> Floats:
    """Per parcel: number of ratings, their disagreement, and the count of each value."""
    given = ~np.isnan(table)
    places = np.where(given, np.searchsorted(values, np.where(given, table, values[0])), 0)
    m = given.sum(axis=0)
    observed = np.zeros(m.size)
    for i in range(len(table)):
        for j in range(i):
            observed += 2 * np.where(given[i] & given[j], distances[places[i], places[j]], 0)
    size = int(parcels.max()) + 1
    cells = (np.broadcast_to(parcels, table.shape) * values.size + places)[given]
    counts = np.bincount(cells, minlength=size * values.size).reshape(size, values.size)
    columns = [np.bincount(parcels, column) for column in (m, observed / (m - 1))]
    return np.column_stack([*columns, counts]).astype(np.float64)


def _distances(values: Floats, level: Level) -> Floats:
    """Disagreement of each pair of values."""
    if level == "nominal":
        return 1 - np.eye(values.size)
    sums = values[:, None] + values
    return np.divide(values[:, None] - values, sums, out=np.zeros(sums.shape), where=sums != 0) ** 2

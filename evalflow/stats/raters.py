"""How far people agree among themselves: Krippendorff's alpha, and the best score a judge could reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.stats.agreement import Agreement, undefined
from evalflow.stats.bootstrap import percentiles, resample
from evalflow.stats.intervals import CONFIDENCE, FEW_CASES, FEW_CLUSTERS
from evalflow.stats.ratios import MAX_UNDEFINED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reliability:
    """Intraclass correlations (Shrout & Fleiss 1979, Psychological Bulletin 86:420); None where undefined.

    Attributes:
        icc1: Of one rating, each answer with raters of its own.
        icc2: Of one rating, all answers with the same raters, who stand for others.
        icc3: Of one rating, these raters alone: a rater who is stricter throughout does not count.
        icc1k, icc2k, icc3k: The same of the mean of the k raters.
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
    import numpy as np

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
    """Reliability of the mean of so many times as many ratings (Spearman 1910; Brown 1910): m r / (1 + (m - 1) r)."""
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
    """Agreement beyond chance where one class is rare, of which kappa makes little (Gwet 2008, BJMSP 61:29).

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
    """The counts, and the share of pairs of ratings of one answer that agree."""
    import numpy as np

    table = np.asarray(counts, dtype=np.float64)
    raters = table.sum(axis=1)
    return table, float(((table * (table - 1)).sum(axis=1) / (raters * (raters - 1))).mean())


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 1e-12 else None


Level = Literal["nominal", "ordinal", "interval", "ratio"]
# More clusters than these are drawn in random parcels, which have the same variance and cost far less.
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
        ratings: Shape (raters, answers), numbers, NaN where a rater gave none; classes by their number.
        level: Of measurement. For ratio, values are not negative.
        clusters: The cluster of each answer; None where each stands alone.
        confidence: Coverage.
        seed: Of the bootstrap.

    Returns:
        Undefined where no answer has two ratings, where all ratings are equal, and for more than 1,000 different values
        where these are classes or ratios.
    """
    import numpy as np

    table = np.asarray(ratings, dtype=np.float64)
    paired = (~np.isnan(table)).sum(axis=0) >= 2
    table, n = table[:, paired], int(paired.sum())
    if not n:
        return undefined(0, "no answer has two ratings")
    groups = np.arange(n) if clusters is None else np.unique(np.asarray(clusters)[paired], return_inverse=True)[1]
    size = int(groups.max()) + 1
    parcels = np.random.default_rng(seed).permutation(size)[groups] % _MANY
    apart = None
    if level in ("interval", "ordinal"):
        totals = _moments(table, level, parcels)
    else:
        values = np.unique(table[~np.isnan(table)])
        if values.size > _DIFFERENT:
            return undefined(n, f"more than {_DIFFERENT:,} different values")
        apart = _apart(values, level)
        totals = _counts(table, values, apart, parcels)
    # Sorted, since the same answers in another order are to have the same interval.
    totals = totals[np.lexsort(totals.T)]
    value = float(_alpha(totals.sum(axis=0)[None, :], apart)[0])
    if np.isnan(value):
        return undefined(n, "all ratings are equal")
    return _interval(value, totals, apart, (n, size), confidence, seed)


def _interval(
    value: float, totals: Floats, apart: Floats | None, sizes: tuple[int, int], confidence: float, seed: int
) -> Agreement:
    import numpy as np

    n, groups = sizes
    if groups < 2:
        return undefined(n, "one answer" if n == 1 else "one cluster", value)
    draws = _alpha(resample(totals, np.ones(len(totals), dtype=np.int64), seed), apart)
    known = draws[~np.isnan(draws)]
    if known.size < (1 - MAX_UNDEFINED) * draws.size:
        return undefined(n, f"undefined in {1 - known.size / draws.size:.0%} of the resamples", value)
    low, high = percentiles(known, confidence)
    if low == high:
        return undefined(n, "the resamples do not differ", value)
    name, few, what = ("", FEW_CASES, "answers") if groups == n else ("cluster_", FEW_CLUSTERS, "clusters")
    method = f"{name}bootstrap" + (f": fewer than {few} {what}" if groups < few else "")
    return Agreement(value, low, high, float(known.std(ddof=1)), n, method)


def _alpha(totals: Floats, apart: Floats | None) -> Floats:
    """Alpha for each row of column totals; NaN where the ratings do not differ."""
    import numpy as np

    n, observed = totals[:, 0], totals[:, 1]
    if apart is None:
        first, second = totals[:, 2], totals[:, 3]
        expected = 2 * (n * second - first**2)
        least = 1e-12 * n * second
    else:
        expected, least = ((totals[:, 2:] @ apart) * totals[:, 2:]).sum(axis=1), 1e-12
    share = np.divide((n - 1) * observed, expected, out=np.full(n.shape, np.nan), where=expected > least)
    return 1 - share


def _moments(table: Floats, level: Level, parcels: Ints) -> Floats:
    """Per parcel: ratings, their disagreement, and the sums of values and of squares, about the mean of all."""
    import numpy as np

    values = _mean_ranks(table) if level == "ordinal" else table
    values = values - np.nanmean(values)
    m = (~np.isnan(values)).sum(axis=0)
    first, second = np.nansum(values, axis=0), np.nansum(values**2, axis=0)
    within = np.nansum((values - first / m) ** 2, axis=0)
    columns = (m, 2 * m * within / (m - 1), first, second)
    return np.stack([np.bincount(parcels, column) for column in columns], axis=1).astype(np.float64)


def _counts(table: Floats, values: Floats, apart: Floats, parcels: Ints) -> Floats:
    """Per parcel: ratings, their disagreement, and how many of them have each value."""
    import numpy as np

    given = ~np.isnan(table)
    places = np.where(given, np.searchsorted(values, np.where(given, table, values[0])), 0)
    m = given.sum(axis=0)
    observed = np.zeros(m.size)
    for i in range(len(table)):
        for j in range(i):
            observed += 2 * np.where(given[i] & given[j], apart[places[i], places[j]], 0)
    size = int(parcels.max()) + 1
    cells = (np.broadcast_to(parcels, table.shape) * values.size + places)[given]
    counts = np.bincount(cells, minlength=size * values.size).reshape(size, values.size)
    columns = [np.bincount(parcels, column) for column in (m, observed / (m - 1))]
    return np.column_stack([*columns, counts]).astype(np.float64)


def _apart(values: Floats, level: Level) -> Floats:
    """How far each two values disagree."""
    import numpy as np

    if level == "nominal":
        return 1 - np.eye(values.size)
    sums = values[:, None] + values
    return np.divide(values[:, None] - values, sums, out=np.zeros(sums.shape), where=sums != 0) ** 2


def _mean_ranks(table: Floats) -> Floats:
    """The rank of each rating among all, ties at their mean."""
    import numpy as np

    given = ~np.isnan(table)
    _, place, count = np.unique(table[given], return_inverse=True, return_counts=True)
    ranks = np.full(table.shape, np.nan)
    ranks[given] = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks

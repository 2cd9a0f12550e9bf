"""95 % intervals of a mean over cases, from scores or from sufficient statistics, many rows at once.

The method of each row (`intervals`) is the first that applies:

    no case                                        none
    some cluster holds several cases
      scores between fixed ends                    plus_two_cr2_t: cr2_t with a pseudo-cluster at each end
      others                                       cr2_t: cluster-robust, t with the clusters' own degrees of freedom;
                                                   none as for t
    every score is exactly 0 or 1                  wilson
    scores between fixed ends                      plus_two_t: t with a pseudo-case at each end
    fewer than 10 cases or clusters, or too skewed none (`evalflow.stats.skewness`)
    others                                         t

A pseudo-case scores 0 and another 1; a pseudo-cluster has as many cases as clustering makes count as one, a whole
cluster unless the data show less correlation (`pseudo_cluster_size`). They stand for outcomes that a small sample
misses, such as a rare bad answer or cluster among nearly perfect ones; their weight fades as cases are added. (The idea
of Agresti & Coull 1998, The American Statistician 52:119, for scores between the ends.) The errors of both ends are
measured in bench/coverage, from two cases or clusters on.

Data without variation (one case, one cluster, equal scores without fixed ends) have no interval, and the method says
why: a width of zero would claim a certainty that the data do not have. Text after a colon in a method's name is a
caveat: few cases, few clusters, clusters of very unequal size, or the rule of three.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from evalflow.lazy import np
from evalflow.stats.arrays import (
    UPPER,
    Array,
    ArrayLike,
    Bools,
    Estimated,
    Floats,
    Interval,
    cluster_codes,
    cluster_sums,
)
from evalflow.stats.bootstrap import FEW_CASES, FEW_CLUSTERS
from evalflow.stats.quantiles import normal_quantile, student_quantile
from evalflow.stats.skewness import FEWEST, MOST, mean_skewness, unreliable, unseen_outliers

# A spread below this, relative to the size of the scores, is rounding, not variation.
_ROUNDING = 1e-12
UNEVEN = "clusters of very unequal size"


@dataclass(frozen=True, slots=True)
class Intervals:
    """One interval per row, NaN if undefined."""

    low: Floats
    high: Floats
    std_error: Floats
    method: Array

    def __getitem__(self, row: int) -> Interval:
        low, high, error = (_number(column[row]) for column in (self.low, self.high, self.std_error))
        return Interval(low, high, error, str(self.method[row]))


class Moments(NamedTuple):
    """The sufficient statistics of each row's scores; every field is an array with one entry per row."""

    n: Floats
    mean: Floats
    std: Floats  # sample standard deviation (n - 1), NaN below two cases
    low: Floats
    high: Floats
    binary: Bools  # whether every score is exactly 0 or 1
    clusters: Floats  # number of clusters; n if all cases are independent
    # Cluster-robust moments of the mean, from here on; only used if some cluster holds several cases.
    std_error: Floats
    # The centre of the interval, the standard error that gives its width, and the degrees of freedom: with
    # pseudo-clusters for scores between fixed ends, else the mean and its standard error.
    centre: Floats
    spread: Floats
    df: Floats
    skewness: Floats  # of the mean of scores without fixed ends (`mean_skewness`); 0 for others


def wilson(k: ArrayLike, n: ArrayLike, upper: float = UPPER) -> tuple[Floats, Floats]:
    """Score interval of a proportion (Wilson 1927, JASA 22:209), wide even at 0 and n successes; NaN for no trials."""
    trials = np.asarray(n, dtype=np.float64)
    z2 = normal_quantile(upper) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.asarray(k, dtype=np.float64) / trials
        centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
        half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    # Exactly 0 for no success and 1 for nothing else: an end just below 1 would be shown as >99.9 %.
    return np.clip(centre - half, 0, share > 0), np.clip(centre + half, share >= 1, 1)


def t_interval(mean: ArrayLike, std_error: ArrayLike, df: ArrayLike, upper: float = UPPER) -> tuple[Floats, Floats]:
    """Mean +- t * std_error with Student's t at `df` degrees of freedom (Miller 2024, arXiv:2411.00640)."""
    centre = np.asarray(mean, dtype=np.float64)
    half = student_quantile(df, upper) * np.asarray(std_error, dtype=np.float64)
    return centre - half, centre + half


def cr2(sums: Floats, sizes: Floats) -> tuple[float, float]:
    """Cluster-robust standard error of a mean, and its degrees of freedom; NaN for fewer than two clusters.

    CR2 with the degrees of freedom of Bell & McCaffrey 2002 (Survey Methodology 28:169), in closed form for a mean,
    from the residuals summed by cluster. With p = size / n, a cluster's share, the variance is sum(sums^2 / (1 - p)) /
    n^2. With w = p^2 / (1 - p) the degrees of freedom are 1 / (sum p^2 + (sum w)^2 - sum w^2): G - 1 if all clusters
    have the same size. For single cases this is the usual standard error of a mean.
    """
    if sums.size < 2:
        return np.nan, np.nan
    share = sizes / sizes.sum()
    weight = share**2 / (1 - share)
    df = 1 / float((share**2).sum() + weight.sum() ** 2 - (weight**2).sum())
    return float(np.sqrt((sums**2 / (1 - share)).sum()) / sizes.sum()), df


def mean_error(values: ArrayLike, clusters: ArrayLike | None = None) -> tuple[float, float]:
    """Standard error of the mean of values, and its degrees of freedom: `cr2` over clusters; NaN below two."""
    x = np.asarray(values, dtype=np.float64)
    residuals = x - x.mean() if x.size else x
    codes = None if clusters is None else cluster_codes(clusters)
    return cr2(
        *(x if codes is None else np.bincount(codes, x).astype(np.float64) for x in (residuals, np.ones(x.size)))
    )


def cluster_spread(scores: Floats, clusters: ArrayLike | None, *, bounded: bool) -> tuple[float, ...]:
    """Return clusters, std_error, centre, spread and df of `Moments` for one row."""
    if clusters is None or not scores.size:
        return (float(scores.size), *(np.nan,) * 4)
    codes = cluster_codes(clusters)
    sums, sizes = np.bincount(codes, scores).astype(np.float64), np.bincount(codes).astype(np.float64)
    mean = float(scores.mean())
    residuals = sums - mean * sizes
    error, df = cr2(residuals, sizes)
    if not bounded:
        return float(sizes.size), error, mean, error, df
    added = pseudo_cluster_size(residuals, sizes, float(scores.size * scores.var()))
    sums, sizes = np.append(sums, [0, added]), np.append(sizes, [added, added])
    centre = float(sums.sum() / sizes.sum())
    return float(sizes.size - 2), error, centre, *cr2(sums - centre * sizes, sizes)


def pseudo_cluster_size(sums: Floats, sizes: Floats, squares: float) -> float:
    """Cases in a pseudo-cluster: the design effect (how many count as one) if one more cluster were all bad.

    That cluster has the size of the average case's cluster. As long as the scores hardly vary, the data do not show how
    strongly the cases of a cluster correlate, and the pseudo-cluster gets that full size; the more they vary, the more
    the data decide. `sums` are of residuals by cluster, `squares` is the sum of the cases' squared residuals.
    """
    whole = float((sizes**2).sum() / sizes.sum())
    return min(max((float((sums**2).sum()) + whole**2) / (squares + whole), 1.0), whole)


def moments(scores: ArrayLike, clusters: ArrayLike | None = None, *, bounded: bool = False) -> Moments:
    """Moments of one row of case scores; arrays of length 1. `bounded`: 0 and 1 are the fixed ends of the scores."""
    s = np.asarray(scores, dtype=np.float64)
    std = s.std(ddof=1) if s.size > 1 else np.nan
    mean, low, high = (s.mean(), s.min(), s.max()) if s.size else (np.nan, np.nan, np.nan)
    binary = s.size > 0 and bool(((s == 0.0) | (s == 1.0)).all())
    skewness = 0.0 if bounded or binary else mean_skewness(cluster_sums(s - mean, clusters))
    n, mean, std, low, high, groups, error, centre, spread, df, skewness = (
        np.array([float(x)])
        for x in (s.size, mean, std, low, high, *cluster_spread(s, clusters, bounded=bounded), skewness)
    )
    return Moments(n, mean, std, low, high, np.array([binary]), groups, error, centre, spread, df, skewness)


def row_moments(scores: Floats, *, bounded: bool = False) -> Moments:
    """Moments of many rows of independent case scores, shape (rows, cases), at least one case; see `moments`."""
    rows, cases = scores.shape
    missing, n = np.full(rows, np.nan), np.full(rows, float(cases))
    mean, binary = scores.mean(axis=1), ((scores == 0.0) | (scores == 1.0)).all(axis=1)
    skewness = np.zeros(rows)
    for row in () if bounded else np.flatnonzero(~binary):
        skewness[row] = mean_skewness(scores[row] - mean[row])
    std = scores.std(axis=1, ddof=1) if cases > 1 else missing
    low, high = scores.min(axis=1), scores.max(axis=1)
    return Moments(n, mean, std, low, high, binary, n, missing, missing, missing, missing, skewness)


def stacked(rows: Iterable[Moments]) -> Moments:
    """Stack the moments of several rows into one table."""
    return Moments(*map(np.concatenate, zip(*rows, strict=True)))


def interval(
    scores: ArrayLike, clusters: ArrayLike | None = None, *, bounded: bool = False, upper: float = UPPER
) -> Interval:
    """The interval of the mean of case scores, by this module's rules; `bounded`: 0 and 1 are the scores' ends."""
    return intervals(moments(scores, clusters, bounded=bounded), bounded=bounded, upper=upper)[0]


def mean_estimate(scores: ArrayLike, clusters: ArrayLike | None = None, *, bounded: bool = False) -> Estimated:
    """The mean of case scores with its `interval`."""
    values = np.asarray(scores, dtype=np.float64)
    ci = interval(values, clusters, bounded=bounded)
    mean = float(values.mean()) if values.size else None
    return Estimated(mean, ci.low, ci.high, ci.std_error, values.size, ci.method)


def intervals(m: Moments, *, bounded: ArrayLike = False, upper: float = UPPER) -> Intervals:
    """The intervals of many means, by this module's rules; `bounded` rows have scores, and so intervals, within 0..1.

    `upper` is the probability below the upper end; by default that of a 95 % interval.
    """
    ends = np.broadcast_to(np.asarray(bounded, dtype=bool), m.n.shape)
    clustered = m.clusters < m.n
    method = _methods(m, clustered, ends)
    centre, spread, df = np.where(clustered, (m.centre, m.spread, m.df), _alone(m, ends))
    low, high = t_interval(centre, spread, df, upper)
    low, high = np.where(ends, np.clip(low, 0, 1), low), np.where(ends, np.clip(high, 0, 1), high)
    by_wilson = method == "wilson"
    w_low, w_high = wilson(m.mean * m.n, m.n, upper)
    low, high = np.where(by_wilson, w_low, low), np.where(by_wilson, w_high, high)
    none = np.char.startswith(method.astype(str), "none")
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(clustered, m.std_error, m.std / np.sqrt(m.n))
    error = np.where(none | _negligible(error, m), np.nan, error)
    for row in np.flatnonzero(m.binary & (m.low == m.high) & ~none & (ends | by_wilson)):
        units = "groups" if clustered[row] else "cases"
        method[row] = rule_of_three(method[row], m.mean[row] * m.clusters[row], m.clusters[row], units)
    return Intervals(np.where(none, np.nan, low), np.where(none, np.nan, high), error, method)


def _alone(m: Moments, ends: Bools) -> tuple[Floats, Floats, Floats]:
    """Centre, spread and degrees of freedom of rows whose cases are independent."""
    n, mean = m.n + 2, (m.n * m.mean + 1) / (m.n + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = (m.n - 1) * m.std**2 + m.n * (m.mean - mean) ** 2 + mean**2 + (1 - mean) ** 2
        spread = np.where(ends, np.sqrt(squares / (n - 1) / n), m.std / np.sqrt(m.n))
    return np.where(ends, mean, m.mean), spread, np.where(ends, n, m.n) - 1


def rule_of_three(method: str, successes: float, trials: float, units: str) -> str:
    """The method's name with the rule of three: if all n trials agree, the other outcome has a rate of at most 3 / n.

    Hanley & Lippman-Hand 1983 (JAMA 249:1743). `units` is the word for trials.
    """
    rest = 3 / trials
    bound = f"by the rule of three {f'at least {1 - rest:.3g}' if successes else f'at most {rest:.3g}'}"
    bound = bound if rest < 1 else "too few for the rule of three"
    return f"{method}: {successes:.0f} of {trials:.0f} {units}, {bound}"


def _negligible(error: Floats, m: Moments) -> Bools:
    """Whether a standard error is only a rounding error."""
    return (m.low == m.high) | (error <= _ROUNDING * np.maximum(np.abs(m.low), np.abs(m.high)))


def _methods(m: Moments, clustered: Bools, ends: Bools) -> Array:
    small_sample = f"cr2_t: fewer than {FEW_CLUSTERS} clusters"
    # Fewer degrees of freedom than those of half as many clusters of equal size.
    uneven = m.df < (m.clusters - 1) / 2
    unsure = ~m.binary & ((m.clusters < FEWEST) | (m.skewness > MOST))
    rules = [
        (m.n == 0, "none: no scores"),
        (clustered & (m.clusters == 1), "none: one cluster"),
        (clustered & ends & uneven, f"plus_two_cr2_t: {UNEVEN}"),
        (clustered & ends, "plus_two_cr2_t"),
        (~clustered & m.binary, "wilson"),
        (m.n == 1, "none: one case"),
        (ends, "plus_two_t"),
        (m.low == m.high, "none: all scores equal"),
        (clustered & _negligible(m.std_error, m), "none: clusters do not differ"),
        (unsure, "none: "),
        (clustered & (m.clusters < FEW_CLUSTERS), small_sample),
        (clustered & uneven, f"cr2_t: {UNEVEN}"),
        (clustered, "cr2_t"),
        (m.n < FEW_CASES, f"t: fewer than {FEW_CASES} cases"),
    ]
    chosen = np.select([when for when, _ in rules], [np.array(name, dtype=object) for _, name in rules], default="t")
    for row in np.flatnonzero(np.isin(chosen, ("none: ", "t", "cr2_t"))):
        units = "clusters" if clustered[row] else "cases"
        if chosen[row] == "none: ":
            chosen[row] += unreliable(m.skewness[row], m.clusters[row], units)
        elif missing := unseen_outliers(m.clusters[row], units):
            chosen[row] += f": {missing}"
    return np.asarray(chosen, dtype=object)


def _number(value: np.float64) -> float | None:
    number = float(value)
    return number if number == number else None

"""Partly labelled answers: the mean of the labels, the judge's bias against them, and a test for sampling bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, Interval, cluster_codes, constant, mean_ranks, n_clusters, no_interval
from evalflow.stats.intervals import interval, t_interval, wilson
from evalflow.stats.paired import newcombe, paired_table, t_test
from evalflow.stats.skewness import mean_skewness, unreliable
from evalflow.stats.unpaired import fisher

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Sample:
    """Labels and the judge's scores of labelled answers, and the judge's scores of unlabelled ones.

    Units are clusters, numbered from 0 across labelled and unlabelled answers; without clusters, each answer is a unit.
    Weights of the labelled answers sum to 1; None if all were equally likely to be drawn. `step` is the largest error
    that a judge can make.
    """

    labels: Floats
    judged: Floats
    unlabelled: Floats
    units: Ints
    unlabelled_units: Ints
    weights: Floats | None
    step: float

    @property
    def labelled_units(self) -> int:
        """Number of clusters with a label; without clusters, of labelled answers."""
        return n_clusters(self.units)

    @property
    def clustered(self) -> bool:
        """Whether some cluster holds several labelled answers."""
        return self.labelled_units < self.labels.size

    def mean(self, values: Floats) -> float:
        """The mean over labelled answers; Hajek's ratio if weighted."""
        return float(np.average(values, weights=self.weights))


def sample(
    labels: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    unlabelled_clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    step: float | None = None,
) -> Sample:
    """Build a `Sample` from the arguments of `corrected_mean`; `step` is `widest` of labels and scores if None."""
    y, f, u = (np.asarray(x, dtype=np.float64) for x in (labels, judged, unlabelled))
    own, others = (np.arange(y.size) if clusters is None else cluster_codes(clusters)), np.arange(u.size) + y.size
    if clusters is not None and unlabelled_clusters is not None:
        both = cluster_codes(np.concatenate([np.asarray(clusters), np.asarray(unlabelled_clusters)]))
        own, others = both[: y.size], both[y.size :]
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    if w is not None and w.size and np.ptp(w) <= ROUNDING * w.max():
        w = None
    step = widest(y, np.concatenate([f, u])) if step is None else step
    return Sample(y, f, u, own, others, None if w is None else w / w.sum(), step)


def widest(*sides: Floats) -> float:
    """Largest range of the values of a side."""
    return max(float(np.ptp(side)) if side.size else 0.0 for side in sides)


def human_interval(s: Sample, binary: bool, *, bounded: bool = False) -> Interval:
    """The interval of the mean of the labels alone.

    For weighted labels Wilson's interval uses the effective sample size (Korn & Graubard 1998, Survey Methodology
    24:193); if all labels are equal, (sum w)^2 / sum w^2 (Kish 1965, sec. 11.2).
    """
    if s.weights is None or s.labelled_units < 2:
        return interval(s.labels, s.units if s.clustered else None, bounded=bounded or binary)
    if not binary and constant(s.labels):
        return no_interval("all labels equal")
    mean = s.mean(s.labels)
    sums = np.bincount(s.units, s.weights * (s.labels - mean)).astype(np.float64)
    error = float(np.sqrt(cluster_variance(sums, s.units) + unseen_variance(s.labels, s.weights, s.units, s.step)))
    if binary and not s.clustered:
        trials = mean * (1 - mean) / error**2 if error else 1 / float((s.weights**2).sum())
        low, high = wilson(mean * trials, trials)
        return Interval(float(low), float(high), error or None, "wilson_weighted")
    units = "clusters" if s.clustered else "labels"
    if not (bounded or binary) and (why := unreliable(mean_skewness(sums), s.labelled_units, units)):
        return no_interval(why)
    low, high = t_interval(mean, error, s.labelled_units - 1)
    return Interval(float(low), float(high), error, "cr1_t_weighted" if s.clustered else "t_weighted")


def bias_interval(s: Sample, *, has_ends: bool = True) -> tuple[float | None, float | None]:
    """The interval of the judge's mean minus the labels' mean: Newcombe's for paired pass rates, otherwise t.

    `has_ends`: scores lie between fixed ends; else undefined if t cannot be trusted (`evalflow.stats.skewness`).
    """
    off = s.judged - s.labels
    shares = bool(np.isin(s.labels, (0.0, 1.0)).all() and np.isin(s.judged, (0.0, 1.0)).all())
    if off.size and shares and s.weights is None and not s.clustered:
        return newcombe(*paired_table(s.labels, s.judged))
    if s.labelled_units < 2 or constant(off):
        return None, None
    share = np.full(off.size, 1 / off.size) if s.weights is None else s.weights
    sums = np.bincount(s.units, share * (off - s.mean(off))).astype(np.float64)
    if not has_ends and unreliable(mean_skewness(sums), s.labelled_units):
        return None, None
    seen = cluster_variance(sums, s.units)
    error = float(np.sqrt(seen + unseen_variance(off, s.weights, s.units, s.step)))
    low, high = t_interval(s.mean(off), error, s.labelled_units - 1)
    return float(low), float(high)


def unseen_variance(values: Floats, weights: Floats | None, units: Ints, step: float) -> float:
    """Variance that strata without observed variation add to a weighted mean; 0 without weights.

    If n values of a stratum are equal, the rate of another value is smoothed to (1/2) / (n + 1) (Jeffreys). A stratum
    is the set of answers with the same weight (all weights sum to 1); one with a single label adds nothing. `values`
    are labels, or the judge's errors, and `step` is the distance to another value.
    """
    added = 0.0
    for weight in np.unique(weights) if weights is not None else ():
        own = weights == weight
        n = n_clusters(units[own])
        if n > 1 and constant(values[own]):
            rate = 0.5 / (n + 1)
            added += float(own.sum() * weight * step) ** 2 * rate * (1 - rate) / n
    return added


def alike(values: Floats, step: float) -> float:
    """Share of pairs of answers with the most common value: 1 if all are equal or there is only one, 0 if no two are.

    Values are equal if they differ only by rounding, relative to `step`.
    """
    n = values.size
    if n < 2 or not step:
        return 1.0
    most = int(np.unique(np.round(values / step, 9), return_counts=True)[1].max())
    return most * (most - 1) / (n * (n - 1))


def pseudo_size(values: Floats, units: Ints) -> float:
    """Labels in a pseudo-cluster: the geometric mean of the number that counts as one and the mean cluster size."""
    off, size = values - values.mean(), values.size / n_clusters(units)
    alone = float((off**2).sum())
    together = float((np.bincount(units, off) ** 2).sum())
    return math.sqrt(size * min(max(together / alone, 1.0), size)) if alone else math.sqrt(size)


def pseudo_variance(values: Floats, units: Ints, step: float) -> float:
    """Variance that two pseudo-labels add to an unweighted mean, one a step above the others and one below.

    They stand for rare values that a small sample misses, so they are weighted by how far the values are `alike`. With
    clusters, each is a pseudo-cluster (`pseudo_size`).
    """
    size = pseudo_size(values, units)
    return 2 * alike(values, step) * (size * step / (values.size + 2 * size)) ** 2


def cluster_variance(sums: ArrayLike, units: Ints) -> float:
    """Sum of the squared cluster sums, times G / (G - 1) for G clusters; NaN for one."""
    groups, squares = n_clusters(units), float((np.asarray(sums, dtype=np.float64) ** 2).sum())
    return squares * groups / (groups - 1) if groups > 1 else np.nan


_FEW_RANKED = 8
FEW_LABELLED_CLUSTERS = 7
"""With fewer labelled clusters the test has almost no power, since t has so few degrees of freedom."""


@dataclass(frozen=True, slots=True)
class SamplingBias:
    """The difference of mean scores between labelled answers and the others.

    `p_value` is None if one side is empty or nothing varies; `clusters` (of labelled answers) is None without clusters.
    """

    labelled: float | None
    rest: float | None
    p_value: float | None
    method: str
    clusters: int | None = None

    @property
    def has_power(self) -> bool:
        """Whether there are enough clusters for the test."""
        return self.clusters is None or self.clusters >= FEW_LABELLED_CLUSTERS


def sampling_bias(
    labelled: ArrayLike, rest: ArrayLike, clusters: ArrayLike | None = None, rest_clusters: ArrayLike | None = None
) -> SamplingBias:
    """Compare the judge's scores of labelled answers with its scores of the others, two-sided.

    Fisher's exact test for binary scores (Fisher 1922, JRSS 85:87), else the Mann-Whitney test with ties (Mann &
    Whitney 1947, Ann. Math. Stat. 18:50); a score test over clusters if answers share clusters.
    """
    a, b = np.asarray(labelled, dtype=np.float64), np.asarray(rest, dtype=np.float64)
    labelled_mean, rest_mean = (float(side.mean()) if side.size else None for side in (a, b))
    values = np.unique(np.concatenate([a, b]))
    codes = None
    if clusters is not None and rest_clusters is not None:
        codes = cluster_codes(np.concatenate([clusters, rest_clusters]))
        codes = None if n_clusters(codes) == codes.size else codes
    clustered = None if codes is None else n_clusters(codes[: a.size])
    method = "score_cr0" if codes is not None else "fisher" if values.size <= 2 else "mann_whitney"
    if not a.size or not b.size or values.size < 2:
        return SamplingBias(labelled_mean, rest_mean, None, method, clustered)
    p = _independent_test(a, b, method) if codes is None else _clustered_test(a, b, codes)
    return SamplingBias(labelled_mean, rest_mean, p, method, clustered)


def _independent_test(a: Floats, b: Floats, method: str) -> float:
    if method == "mann_whitney":
        return _mann_whitney(a, b)
    high = max(a.max(), b.max())
    return fisher(int((a == high).sum()), int((b == high).sum()), a.size, b.size)


def _mann_whitney(a: Floats, b: Floats) -> float:
    """p-value by the normal approximation with tie and continuity corrections; exact for few values without ties."""
    both = np.concatenate([a, b])
    tied, n = np.unique(both, return_counts=True)[1].astype(np.float64), both.size
    u = float(mean_ranks(both)[: a.size].sum()) - a.size * (a.size + 1) / 2
    if tied.max() == 1 and min(a.size, b.size) <= _FEW_RANKED:
        return exact_mann_whitney(round(u), a.size, b.size)
    variance = a.size * b.size / 12 * (n + 1 - float((tied**3 - tied).sum()) / (n * (n - 1)))
    z = (abs(u - a.size * b.size / 2) - 0.5) / math.sqrt(variance)
    return min(1.0, math.erfc(z / math.sqrt(2)))


def exact_mann_whitney(u: int, n_a: int, n_b: int) -> float:
    """Two-sided p-value of U without ties, by counting the orders with the coefficients of a Gaussian binomial."""
    smaller, many = sorted((n_a, n_b))
    end = min(u, n_a * n_b - u) + 1
    orders = [1] + [0] * (end - 1)
    for i in range(1, smaller + 1):
        for at in range(end - 1, many + i - 1, -1):
            orders[at] -= orders[at - many - i]
        for at in range(i, end):
            orders[at] += orders[at - i]
    return min(1.0, 2 * sum(orders) / math.comb(n_a + n_b, smaller))


def _clustered_test(a: Floats, b: Floats, codes: Ints) -> float | None:
    """p-value over clusters; None if a side has a single cluster."""
    ranks = mean_ranks(np.concatenate([a, b]))
    sampled = np.repeat([1.0, 0.0], [a.size, b.size])
    parts = np.bincount(codes, (sampled - sampled.mean()) * (ranks - ranks.mean()))
    fewest = min(n_clusters(codes[: a.size]), n_clusters(codes[a.size :]))
    error = float(np.sqrt((parts**2).sum()))
    return t_test(float(parts.sum()), error, fewest - 1) if fewest > 1 and error else None

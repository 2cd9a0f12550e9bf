"""95 % intervals of a mean over cases, from scores or from sufficient statistics, many rows at once.

The method of each row (`intervals`) is the first that applies:

    no case                                        none
    some cluster holds several cases               cr1_t: cluster-robust, t with G - 1 degrees of freedom
      all scores equal, and all 0 or all 1         wilson_clusters: each cluster is one trial
    every score is exactly 0 or 1                  wilson
    bounded scores of fewer than 30 cases          bootstrap_t, with Student's t beside it
    otherwise                                      t

If the data show no variation (one case, one cluster, all scores equal) there is no interval, and the method says why:
a width of zero would claim a certainty that the data do not have. Text after a colon in a method's name is a caveat:
few cases, few clusters, or the rule of three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.lazy import np
from evalflow.stats.arrays import UPPER, Interval
from evalflow.stats.bootstrap import FEW_CASES, FEW_CLUSTERS, bootstrap_t
from evalflow.stats.quantiles import normal_quantile, student_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from evalflow.stats.arrays import Bools, Floats


# Sums of squares below this, relative to the scores' own size, are rounding, not variation.
_ROUNDING = 1e-24
_FEW = f"t: fewer than {FEW_CASES} cases"


@dataclass(frozen=True, slots=True)
class Intervals:
    """One interval per row, NaN if none. `t_low` and `t_high`: Student's bounds for a bootstrap-t, else NaN."""

    low: Floats
    high: Floats
    std_error: Floats
    method: NDArray[Any]
    t_low: Floats
    t_high: Floats

    def __getitem__(self, row: int) -> Interval:
        low, high, error = (_number(column[row]) for column in (self.low, self.high, self.std_error))
        return Interval(low, high, error, str(self.method[row]))


@dataclass(frozen=True, slots=True)
class Moments:
    """The sufficient statistics of each row's scores; every field is an array with one entry per row.

    `std` is the sample standard deviation (n - 1), NaN below two cases; `binary` whether every score is exactly 0 or 1;
    `clusters` is n if each case stands alone; `cluster_ss` is sum_c (sum_i s_i - mean)^2.
    """

    n: Floats
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    binary: Bools
    clusters: Floats
    cluster_ss: Floats


def wilson(k: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Score interval of a proportion (Wilson 1927, JASA 22:209), wide even at 0 and n successes; NaN for no trials."""
    trials = np.asarray(n, dtype=np.float64)
    z2 = normal_quantile(UPPER) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(k, dtype=np.float64) / trials
        centre = (p + z2 / (2 * trials)) / (1 + z2 / trials)
        half = np.sqrt(z2 * (p * (1 - p) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def t_interval(mean: ArrayLike, std_error: ArrayLike, df: ArrayLike) -> tuple[Floats, Floats]:
    """Mean +- t * std_error with Student's t at `df` degrees of freedom (Miller 2024, arXiv:2411.00640)."""
    centre = np.asarray(mean, dtype=np.float64)
    half = student_quantile(df, UPPER) * np.asarray(std_error, dtype=np.float64)
    return centre - half, centre + half


def cr1(n: ArrayLike, clusters: ArrayLike, cluster_ss: ArrayLike) -> Floats:
    """Cluster-robust standard error of a mean, CR1: sqrt(cluster_ss) / n * sqrt(G / (G - 1)).

    Liang & Zeger 1986 (Biometrika 73:13) with the usual correction for few clusters; NaN below two clusters.
    """
    cases, count = np.asarray(n, dtype=np.float64), np.asarray(clusters, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(count > 1, count / (count - 1), np.nan)
        return np.sqrt(np.asarray(cluster_ss, dtype=np.float64) * factor) / cases


def moments(scores: ArrayLike, clusters: ArrayLike | None = None) -> Moments:
    """The moments of one row of case scores; arrays of length 1."""
    s = np.asarray(scores, dtype=np.float64)
    mean = s.mean() if s.size else np.nan
    residuals = s - mean
    count, cluster_ss = s.size, float((residuals**2).sum())
    if clusters is not None and s.size:
        names, codes = np.unique(np.asarray(clusters), return_inverse=True)
        count, cluster_ss = names.size, float((np.bincount(codes, weights=residuals) ** 2).sum())
    std = s.std(ddof=1) if s.size > 1 else np.nan
    low, high = (s.min(), s.max()) if s.size else (np.nan, np.nan)
    binary = s.size > 0 and bool(np.isin(s, (0.0, 1.0)).all())
    n, mean, std, low, high, groups, ss = (
        np.array([float(x)]) for x in (s.size, mean, std, low, high, count, cluster_ss)
    )
    return Moments(n, mean, std, low, high, np.array([binary]), groups, ss)


def interval(scores: ArrayLike, clusters: ArrayLike | None = None, *, bounded: bool = False, seed: int = 0) -> Interval:
    """The interval of the mean of these case scores, by this module's rules; `bounded` scores clip it to 0..1."""
    samples = {0: np.asarray(scores, dtype=np.float64)}
    return intervals(moments(scores, clusters), samples, bounded=bounded, seed=seed)[0]


def intervals(
    m: Moments, samples: Mapping[int, Floats] | None = None, *, bounded: ArrayLike = False, seed: int = 0
) -> Intervals:
    """The intervals of many means, by this module's rules.

    `samples` has the scores of rows with fewer than FEW_CASES cases, whose skew the moments do not show; other rows
    have a t interval. Bounds of rows that are `bounded` are clipped to 0..1.
    """
    clustered = m.clusters < m.n
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(clustered, cr1(m.n, m.clusters, m.cluster_ss), m.std / np.sqrt(m.n))
    method = _methods(m, clustered)
    trials = np.where(clustered, m.clusters, m.n)
    low, high = t_interval(m.mean, error, trials - 1)
    clip = np.broadcast_to(np.asarray(bounded, dtype=bool), low.shape)
    low, high = np.where(clip, np.clip(low, 0, 1), low), np.where(clip, np.clip(high, 0, 1), high)
    resampled = {row: s for row, s in (samples or {}).items() if clip[row] and method[row] == _FEW}
    t_low, t_high = (np.where([row in resampled for row in range(low.size)], bound, np.nan) for bound in (low, high))
    for rows, bounds in _bootstrap_t(resampled, seed):
        low[rows], high[rows] = bounds
        method[rows] = f"bootstrap_{_FEW}"
    by_wilson = np.isin(method, ("wilson", "wilson_clusters"))
    w_low, w_high = wilson(m.mean * trials, trials)
    low, high = np.where(by_wilson, w_low, low), np.where(by_wilson, w_high, high)
    none = np.char.startswith(method.astype(str), "none")
    error = np.where(none | (m.low == m.high), np.nan, error)
    for row in np.flatnonzero(by_wilson & (m.low == m.high)):
        units = "groups" if clustered[row] else "cases"
        method[row] = rule_of_three(method[row], m.mean[row] * trials[row], trials[row], units)
    return Intervals(np.where(none, np.nan, low), np.where(none, np.nan, high), error, method, t_low, t_high)


def rule_of_three(method: str, successes: float, trials: float, units: str) -> str:
    """The method's name with the rule of three: if all n trials agree, the other outcome has a rate of at most 3 / n.

    Hanley & Lippman-Hand 1983 (JAMA 249:1743). `units` is the word for trials.
    """
    rest = 3 / trials
    bound = f"by the rule of three {f'at least {1 - rest:.3g}' if successes else f'at most {rest:.3g}'}"
    bound = bound if rest < 1 else "too few for the rule of three"
    return f"{method}: {successes:.0f} of {trials:.0f} {units}, {bound}"


def _methods(m: Moments, clustered: Bools) -> NDArray[Any]:
    constant = m.low == m.high
    scale = np.maximum(np.abs(m.low), np.abs(m.high))
    clusters_equal = m.cluster_ss <= _ROUNDING * (scale * m.n) ** 2
    few = m.clusters < FEW_CLUSTERS
    rules = [
        (m.n == 0, "none: no scores"),
        (clustered & (m.clusters == 1), "none: one cluster"),
        (clustered & constant & m.binary, "wilson_clusters"),
        (~clustered & m.binary, "wilson"),
        (m.n == 1, "none: one case"),
        (constant, "none: all scores equal"),
        (clustered & clusters_equal, "none: clusters do not differ"),
        (clustered & few, f"cr1_t: fewer than {FEW_CLUSTERS} clusters"),
        (clustered, "cr1_t"),
        (m.n < FEW_CASES, _FEW),
    ]
    chosen = np.select([when for when, _ in rules], [np.array(name, dtype=object) for _, name in rules], default="t")
    return np.asarray(chosen, dtype=object)


def _bootstrap_t(samples: Mapping[int, Floats], seed: int) -> Iterator[tuple[list[int], tuple[Floats, Floats]]]:
    """Rows and their bounds within 0..1; rows with the same number of cases are computed together."""
    by_size: dict[int, list[int]] = {}
    for row, scores in samples.items():
        by_size.setdefault(len(scores), []).append(row)
    for rows in by_size.values():
        # Sorted, so that the order of the scores does not change the interval.
        low, high = bootstrap_t(np.sort(np.stack([samples[row] for row in rows]), axis=1), seed)
        yield rows, (np.clip(low, 0, 1), np.clip(high, 0, 1))


def _number(value: np.float64) -> float | None:
    number = float(value)
    return number if number == number else None

"""Bootstrap intervals: seeded resampling of the observed data, many rows at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist

from evalflow.lazy import np
from evalflow.stats.arrays import UPPER, Floats, Interval, Ints, constant, no_interval
from evalflow.stats.quantiles import quantile

DRAWS = 2_000
_CHUNK = 4_000_000
_HELD = 1_000_000  # values of resamples held in memory at once
_FEW_PATTERNS = 100  # up to this many patterns, drawn counts are cached: 1.6 MB
FEW_CASES = 30
FEW_CLUSTERS = 10
MAX_UNDEFINED = 0.05  # largest share of resamples in which a figure may be undefined and still have an interval


def resample(counts: Floats, weights: Ints, seed: int) -> Floats:
    """Column totals of resamples of clusters, drawn with replacement, shape (DRAWS, columns).

    `counts` is what a cluster of each pattern adds to each column, `weights` the number of clusters with that pattern.
    """
    if len(weights) <= _FEW_PATTERNS:
        return _resample_counts(tuple(weights.tolist()), seed) @ counts
    rng = np.random.default_rng(seed)
    n = int(weights.sum())
    chunk = max(1, min(DRAWS, _CHUNK // len(weights)))
    sizes = [min(chunk, DRAWS - start) for start in range(0, DRAWS, chunk)]
    return np.concatenate([rng.multinomial(n, weights / n, size=size) @ counts for size in sizes])


@lru_cache(maxsize=8)
def _resample_counts(weights: tuple[int, ...], seed: int) -> Ints:
    """How often each resample has each pattern; cached for the other measures of a row, and for rows of equal size."""
    n = sum(weights)
    counts: Ints = np.random.default_rng(seed).multinomial(n, [weight / n for weight in weights], size=DRAWS)
    return counts


def cluster_counts(clusters: int, values: int, seed: int) -> Iterator[Ints]:
    """How often each of DRAWS resamples has each cluster, shape (resamples, clusters), some resamples at a time.

    `values` is how many values of a resample the caller holds in memory.
    """
    rng, size = np.random.default_rng(seed), max(1, min(DRAWS, _HELD // max(1, values)))
    for start in range(0, DRAWS, size):
        picked = rng.integers(clusters, size=(min(size, DRAWS - start), clusters))
        yield np.stack([np.bincount(one, minlength=clusters) for one in picked])


def percentiles(values: Floats, units: int) -> tuple[float, float]:
    """Percentile interval of values resampled over `units` cases or clusters (Efron & Tibshirani 1993, ch. 13).

    Expanded to be as wide as a t interval: its percentiles correspond to the normal quantile sqrt(G / (G - 1)) * t,
    with G - 1 degrees of freedom (Hesterberg 2015, The American Statistician 69:371).
    """
    level = NormalDist().cdf(math.sqrt(units / (units - 1)) * quantile(UPPER, units - 1))
    low, high = np.quantile(values, (1 - level, level))
    return float(low), float(high)


def percentile_interval(values: Floats, method: str, units: int) -> Interval:
    """Percentile interval and standard error of values resampled over `units` cases or clusters, ignoring NaN.

    Undefined if too many resamples are undefined, or if all are equal.
    """
    defined = values[~np.isnan(values)]
    if defined.size < (1 - MAX_UNDEFINED) * values.size:
        return no_interval(f"undefined in {1 - defined.size / values.size:.0%} of the resamples")
    low, high = percentiles(defined, units)
    if low == high or constant(defined):
        return no_interval("the resamples do not differ")
    return Interval(low, high, float(defined.std(ddof=1)), method)


def small_sample_note(units: int, *, clustered: bool, what: str = "cases") -> str:
    """A caveat such as "fewer than 30 cases" or "fewer than 10 clusters"; empty if there are enough."""
    needed, what = (FEW_CLUSTERS, "clusters") if clustered else (FEW_CASES, what)
    return f"fewer than {needed} {what}" if units < needed else ""


def few_resampled(units: int, what: str) -> str:
    """A caveat such as "fewer than 30 clusters"; empty if there are enough. Bootstraps need more than t does."""
    return f"fewer than {FEW_CASES} {what}" if units < FEW_CASES else ""


def bootstrap_method(name: str, units: int, *, clustered: bool, what: str = "cases") -> str:
    """Method name of a bootstrap, such as "cluster_bootstrap: fewer than 30 clusters"."""
    note = few_resampled(units, "clusters" if clustered else what)
    return name.format("cluster_" if clustered else "") + (f": {note}" if note else "")

"""Bootstrap intervals: seeded resampling of the observed data, many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.stats.arrays import LOWER, ROUNDING, UPPER, Interval, no_interval

if TYPE_CHECKING:
    from evalflow.stats.arrays import Floats, Ints


DRAWS = 2_000
_DRAWS_OF_T = 9_999
_CHUNK = 4_000_000
FEW_CASES = 30
FEW_CLUSTERS = 10
MAX_UNDEFINED = 0.05
"""Largest share of resamples in which a figure may be undefined and still have an interval."""


def resample(counts: Floats, weights: Ints, seed: int) -> Floats:
    """Column totals of resamples of clusters, drawn with replacement, shape (DRAWS, columns).

    `counts` is what each pattern of cluster adds to each column, `weights` how many clusters have that pattern.
    """
    rng = np.random.default_rng(seed)
    n = int(weights.sum())
    chunk = max(1, min(DRAWS, _CHUNK // len(weights)))
    sizes = [min(chunk, DRAWS - start) for start in range(0, DRAWS, chunk)]
    return np.concatenate([rng.multinomial(n, weights / n, size=size) @ counts for size in sizes])


def percentiles(values: Floats) -> tuple[float, float]:
    """Percentile interval of resampled values (Efron & Tibshirani 1993, ch. 13)."""
    low, high = np.quantile(values, (LOWER, UPPER))
    return float(low), float(high)


def percentile_interval(values: Floats, method: str) -> Interval:
    """Percentile interval and standard error of resampled values, leaving out NaN.

    There is none if too many resamples are undefined, or none differs.
    """
    defined = values[~np.isnan(values)]
    if defined.size < (1 - MAX_UNDEFINED) * values.size:
        return no_interval(f"undefined in {1 - defined.size / values.size:.0%} of the resamples")
    low, high = percentiles(defined)
    if low == high:
        return no_interval("the resamples do not differ")
    return Interval(low, high, float(defined.std(ddof=1)), method)


def small_sample_note(units: int, *, clustered: bool, what: str = "cases") -> str:
    """A caveat such as "fewer than 30 cases" or "fewer than 10 clusters"; empty if there are enough."""
    few, what = (FEW_CLUSTERS, "clusters") if clustered else (FEW_CASES, what)
    return f"fewer than {few} {what}" if units < few else ""


def bootstrap_method(name: str, units: int, *, clustered: bool, what: str = "cases") -> str:
    """Method name of a bootstrap, such as "cluster_bootstrap: fewer than 10 clusters"."""
    note = small_sample_note(units, clustered=clustered, what=what)
    return name.format("cluster_" if clustered else "") + (f": {note}" if note else "")


def bootstrap_t(scores: Floats, seed: int = 0) -> tuple[Floats, Floats]:
    """Bootstrap-t interval of the mean of each row, shape (rows, n) (Efron & Tibshirani 1993, sec. 12.5).

    It uses the quantiles of t* = (mean* - mean) / se* instead of Student's, so that a skewed sample has a skewed
    interval. A resample of equal scores has no standard error and an infinite t*; with many of these a bound is
    infinite too, which on a bounded scale means the end of the scale. No row may have all scores equal. All rows share
    the draws, so that a row's interval does not depend on the other rows.
    """
    rows, n = scores.shape
    rng = np.random.default_rng([seed, n])
    weights = rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS_OF_T) / n
    mean = scores.mean(axis=1)
    centred = scores - mean[:, None]
    error = scores.std(axis=1, ddof=1) / np.sqrt(n)
    low, high = np.empty(rows), np.empty(rows)
    ends = (LOWER, UPPER)
    # Order statistics, not interpolated quantiles: there is no mean of a number and infinity.
    at = [round(end * (_DRAWS_OF_T + 1)) - 1 for end in ends]
    step = max(1, _CHUNK // _DRAWS_OF_T)
    for first in range(0, rows, step):
        part = slice(first, first + step)
        t = np.partition(_studentised(centred[part], weights), at, axis=1)
        with np.errstate(invalid="ignore"):
            low[part] = mean[part] - t[:, at[1]] * error[part]
            high[part] = mean[part] - t[:, at[0]] * error[part]
    return low, high


def _studentised(centred: Floats, weights: Floats) -> Floats:
    n = centred.shape[1]
    shift = centred @ weights.T
    variance = (centred**2) @ weights.T - shift**2
    # Below this the resample repeats a single score, and the rest is rounding.
    least = ROUNDING * (centred**2).mean(axis=1, keepdims=True)
    error = np.sqrt(np.where(variance <= least, 0, variance) / (n - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shift**2 <= least, 0.0, shift / error)

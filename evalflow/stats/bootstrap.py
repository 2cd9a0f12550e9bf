"""Bootstrap intervals: resampling what was observed, seeded, many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DRAWS = 2_000
_DRAWS_OF_T = 9_999
_CHUNK = 4_000_000
# A resample whose variance is below this share of the sample's consists of one score only; the rest is rounding.
_ROUNDING = 1e-12


def resample(counts: Floats, weights: NDArray[np.int64], seed: int) -> Floats:
    """Column totals of resamples of clusters, drawn with replacement.

    Args:
        counts: What each pattern of cluster adds to each column, shape (patterns, columns).
        weights: How many clusters have that pattern, shape (patterns,).
        seed: Of the draws.

    Returns:
        Shape (DRAWS, columns). Made in chunks, which bounds the memory.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    n = int(weights.sum())
    chunk = max(1, min(DRAWS, _CHUNK // len(weights)))
    sizes = [min(chunk, DRAWS - start) for start in range(0, DRAWS, chunk)]
    return np.concatenate([rng.multinomial(n, weights / n, size=size) @ counts for size in sizes])


def percentiles(values: Floats, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of what the resamples gave (Efron & Tibshirani 1993, ch. 13)."""
    import numpy as np

    low, high = np.quantile(values, (0.5 - confidence / 2, 0.5 + confidence / 2))
    return float(low), float(high)


def bootstrap_t(scores: Floats, seed: int = 0, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Bootstrap-t interval of a mean (Efron & Tibshirani 1993, sec. 12.5).

    The quantiles of t* = (mean* - mean) / se* take the place of Student's, so that a skewed sample has a skewed
    interval. A resample of equal scores has no standard error: its t* is infinite, and so is a bound, where such
    resamples are many. On a bounded scale that bound is the end of the scale.

    Args:
        scores: One sample per row, shape (rows, n), n at least 2; no row with all scores equal.
        seed: Of the draws. All rows share them, so that a row's interval does not depend on what stands beside it.
        confidence: Coverage.
    """
    import numpy as np

    rows, n = scores.shape
    rng = np.random.default_rng([seed, n])
    weights = rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS_OF_T) / n
    mean = scores.mean(axis=1)
    centred = scores - mean[:, None]
    error = scores.std(axis=1, ddof=1) / np.sqrt(n)
    low, high = np.empty(rows), np.empty(rows)
    ends = (0.5 - confidence / 2, 0.5 + confidence / 2)
    # Order statistics, and not a mean of two: there is none between a number and infinity.
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
    """t* of every resample, shape (rows, draws)."""
    import numpy as np

    n = centred.shape[1]
    shift = centred @ weights.T
    variance = (centred**2) @ weights.T - shift**2
    least = _ROUNDING * (centred**2).mean(axis=1, keepdims=True)
    error = np.sqrt(np.where(variance <= least, 0, variance) / (n - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shift**2 <= least, 0.0, shift / error)

"""Calibration of stated confidences: of the answers with confidence 0.9, nine in ten should be right.

The Brier score is the mean of (confidence - right)^2, with right 1 or 0 (Brier 1950, Monthly Weather Review 78:1); of a
prediction with several classes it is about the predicted one. The expected calibration error is the mean over records
of |accuracy - confidence| of their bin, with bins of equal width (Naeini et al. 2015, AAAI 29). 0 is best of both.

Noise makes each bin's gap too large, and resampling adds more noise. The interval of the calibration error is therefore
the basic bootstrap's, which corrects this bias (Davison & Hinkley 1997, sec. 5.2), clipped to 0..1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.lazy import np, pl
from evalflow.records import Figure
from evalflow.stats.bootstrap import Bounds, bootstrap_method, percentile_bounds, resample
from evalflow.stats.intervals import mean_figure

if TYPE_CHECKING:
    from evalflow.stats.arrays import Floats, Ints


BINS = 10
# Records with the same confidence to 1 / _STEPS are resampled together: totals stay exact, and it is far faster.
_STEPS = 100


def reliability_figures(counts: pl.DataFrame, seed: int = 0, bins: int = BINS) -> list[Figure]:
    """Brier score and expected calibration error of predictions that state their confidence.

    Args:
        counts: Columns: cluster, confidence (0..1, null if none is stated), correct (bool), n, clusters; counts as of
            `mean_figure`.
        seed: Seed of the bootstrap.
        bins: Number of bins of equal width; use fewer for few records.

    Returns:
        brier and ece. The details of ece are the reliability diagram: `bins`, each with low, high, n, confidence and
        accuracy (means; null where n is 0).
    """
    gap = pl.col("confidence") - pl.col("correct").cast(pl.Float64)
    rows = counts.with_columns(squared=gap**2)
    brier = mean_figure("brier", rows["squared"], rows, seed)
    stated = counts.drop_nulls("confidence")
    return [brier, _calibration_error(stated, seed, bins)]


def calibration_error(totals: Floats) -> Floats:
    """The expected calibration error for each row of totals.

    The columns of `totals` are the sum of (right - confidence) in each bin, then the number of records.
    """
    found: Floats = np.abs(totals[:, :-1]).sum(axis=1)
    return np.divide(found, totals[:, -1], out=np.full(found.shape, np.nan), where=totals[:, -1] > 0)


def bin_of(confidence: Floats, bins: int = BINS) -> Ints:
    """The bin of each confidence."""
    return np.minimum((confidence * bins).astype(np.int64), bins - 1)


def _calibration_error(counts: pl.DataFrame, seed: int, bins: int) -> Figure:
    if not counts.height:
        return Figure(statistic="ece", value=None, n=0, ci_method="none: no confidence is stated")
    confidence = counts["confidence"].to_numpy().astype(np.float64)
    correct = counts["correct"].to_numpy().astype(np.float64)
    records = (counts["n"] * counts["clusters"]).to_numpy().astype(np.float64)
    place = bin_of(confidence, bins)
    n, stated, right = (_by_bin(place, records * x, bins) for x in (1.0, confidence, correct))
    total = float(records.sum())
    value = float(np.abs(right - stated).sum() / total)
    low, high, error, method = _bounds(value, *_patterns(counts, place, correct - confidence, bins), seed)
    return Figure(
        statistic="ece", value=value, n=int(total), std_error=error, ci_low=low, ci_high=high, ci_method=method,
        details={"bins": _diagram(n, stated, right)},
    )  # fmt: skip


def _by_bin(place: Ints, weights: Floats, bins: int) -> Floats:
    return np.bincount(place, weights=weights, minlength=bins).astype(np.float64)


def _diagram(n: Floats, confidence: Floats, correct: Floats) -> list[dict[str, Any]]:
    return [
        {
            "low": i / n.size,
            "high": (i + 1) / n.size,
            "n": int(n[i]),
            "confidence": float(confidence[i] / n[i]) if n[i] else None,
            "accuracy": float(correct[i] / n[i]) if n[i] else None,
        }
        for i in range(n.size)
    ]


def _patterns(counts: pl.DataFrame, place: Ints, gap: Floats, bins: int) -> tuple[Floats, Ints, str]:
    """Each pattern of cluster's share of each bin's gap and of the records, its number of clusters, and the method."""
    n, clusters = counts["n"].to_numpy().astype(np.float64), counts["clusters"].to_numpy().astype(np.int64)
    names = counts["cluster"].hash().to_numpy()
    alone = bool((n == 1).all()) and np.unique(names).size == names.size
    if alone:
        names = place * 3 * _STEPS + np.rint(gap * _STEPS).astype(np.int64)
    _, codes = np.unique(names, return_inverse=True)
    size = int(codes.max()) + 1
    weights = np.bincount(codes, weights=clusters).astype(np.int64) if alone else np.ones(size, np.int64)
    table = np.zeros((size, bins + 1))
    share = clusters / weights[codes] if alone else n
    np.add.at(table, (codes, place), share * gap)
    np.add.at(table[:, bins], codes, share)
    return table, weights, bootstrap_method("{}basic_bootstrap", int(weights.sum()), clustered=not alone)


def _bounds(value: float, table: Floats, weights: Ints, method: str, seed: int) -> Bounds:
    if weights.sum() == 1:
        return None, None, None, f"none: one {'cluster' if method.startswith('cluster') else 'case'}"
    low, high, error, why = percentile_bounds(calibration_error(resample(table, weights, seed)))
    if low is None or high is None:
        return None, None, None, why
    low, high = (float(np.clip(2 * value - end, 0, 1)) for end in (high, low))
    return low, high, error, method

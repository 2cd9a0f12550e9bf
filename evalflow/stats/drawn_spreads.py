"""The spreads of many resamples of labelled answers at once, from counts of clusters instead of copies."""

from __future__ import annotations

from evalflow.lazy import np
from evalflow.stats.arrays import Floats, Ints
from evalflow.stats.prediction import Spread


def drawn_spreads(labels: Floats, judged: Floats, clusters: Ints, times: Ints) -> Spread:
    """The `observed_spread` of every resample, which contains cluster c `times[resample, c]` times.

    Keeps several numbers in memory for each label of each resample.
    """
    off, sizes, counts = labels - judged, np.bincount(clusters), times[:, clusters].astype(np.float64)
    n, there = counts.sum(axis=1), counts > 0

    def shared(one: Floats, other: Floats) -> Floats:
        mean, other_mean = ((counts @ side / n)[:, None] for side in (one, other))
        product: Floats = (counts * (one - mean) * (other - other_mean)).sum(axis=1)
        return product / (n - 1)

    def range_of(side: Floats) -> Floats:
        high: Floats = np.where(there, side, -np.inf).max(axis=1)
        return high - np.where(there, side, np.inf).min(axis=1)

    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.bincount(clusters, off) - sizes * (counts @ off / n)[:, None]
        alone = shared(off, off) / n
        together = (times * sums**2 / (1 - sizes / n[:, None])).sum(axis=1) / n**2
        effects = np.where((alone > 0) & (together > 0), together / alone, 1.0).clip(1.0)
    ranges = range_of(labels), range_of(judged)
    varies = ranges[1] > 0  # rounding can make the mean of equal scores inexact, so that they seem to vary
    steps = np.maximum(*ranges)
    covariances = shared(labels, labels), varies * shared(judged, judged), varies * shared(labels, judged)
    return Spread(*covariances, effects, steps, _alike_when_drawn(off, counts, n, steps))


def _alike_when_drawn(off: Floats, counts: Floats, n: Floats, steps: Floats) -> Floats:
    """Return `alike` of each resample's values, relative to its own step."""
    shares = np.ones(n.size)
    for step in np.unique(steps[steps > 0]):
        rows = steps == step
        rounded: Floats = np.rint(off / step * 1e9)  # as `alike` does
        most = (counts[rows] @ np.equal.outer(rounded, np.unique(rounded))).max(axis=1)
        shares[rows] = most * (most - 1) / (n[rows] * (n[rows] - 1))
    return shares

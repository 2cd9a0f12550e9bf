"""The interval of a mean difference of scores in 0..1, allowing for rare large changes that the sample may have missed.

Two collapsed answers in 200 are a drop of one point, but a sample that happens to contain neither shows no drop and no
variance: the t interval is then too short in that direction. Here a hypothesised difference has the variance that it
would have if it came from such changes (a score interval, like Wilson's for a proportion): the bound towards worse is
the mu with

    (mean - mu)^2 = t^2 (std_error^2 + rare * (min(mean, 0) - mu))

and likewise towards better. `rare` is the size of such a change divided by the number of cases: WEIGHT times the third
moment of the differences on that side over their second moment, both with one change of size 1 added. Without other
variation this is close to the exact limit of a count: 3.5 / n if nothing changed, 5.3 / n after one change of 1. If
small changes vary a lot by themselves, the result is close to the t interval. Zero is excluded if and only if t's
interval excludes it, since two equal runs are as likely to drop as to rise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from evalflow.lazy import np
from evalflow.stats.arrays import UPPER, ArrayLike, Floats, cluster_codes
from evalflow.stats.intervals import pseudo_cluster_size
from evalflow.stats.quantiles import quantile

WEIGHT = 0.9  # keeps false passes of a margin at most 3.5 %; see bench/false_passes


class RareChanges(NamedTuple):
    """Variance that a hypothesised difference adds, per unit of distance: towards lower and towards higher values."""

    down: float = 0.0
    up: float = 0.0


NO_RARE_CHANGES = RareChanges()


def rare_changes(d: Floats, clusters: ArrayLike | None = None, room: tuple[float, float] = (1.0, 1.0)) -> RareChanges:
    """Estimate the rare changes of these differences; with clusters, of the sums by cluster.

    A cluster is assumed to change as a whole unless the data show less correlation (`pseudo_cluster_size`). `room` is
    how far a case can change, down and up.
    """
    off = d - d.mean()
    size, sums = 1.0, off
    if clusters is not None:
        codes = cluster_codes(clusters)
        sums = np.bincount(codes, off).astype(np.float64)
        size = pseudo_cluster_size(sums, np.bincount(codes).astype(np.float64), float((off**2).sum()))
    squares, scale = float((sums**2).sum()), WEIGHT / (d.size + 2 * size)
    down, up = (
        scale * ((size * most) ** 3 + float((np.maximum(side, 0) ** 3).sum())) / ((size * most) ** 2 + squares)
        if most or squares
        else 0.0
        for side, most in zip((-sums, sums), room, strict=True)
    )
    return RareChanges(down, up)


def rare_changes_of_two(
    a: Floats, b: Floats, clusters_a: ArrayLike | None = None, clusters_b: ArrayLike | None = None
) -> RareChanges:
    """Estimate the rare changes of B minus A on different cases: the larger of both runs'; rises of A count as down."""
    of_a, of_b = (
        rare_changes(side, clusters, (float(side.mean()), 1 - float(side.mean())))
        for side, clusters in ((a, clusters_a), (b, clusters_b))
    )
    return RareChanges(max(of_b.down, of_a.up), max(of_b.up, of_a.down))


def rare_interval(mean: float, error: float, df: float, rare: RareChanges) -> tuple[float, float]:
    """The interval of a mean difference; NaN without a standard error."""
    t = quantile(UPPER, df) if df > 0 else math.nan
    low, high = mean - _reach(mean, error, t, rare.down), mean + _reach(-mean, error, t, rare.up)
    return max(low, -1.0), min(high, 1.0)


def _reach(mean: float, error: float, t: float, rare: float) -> float:
    """The distance from the mean down to its lower bound."""
    ahead, plain = max(mean, 0.0), t * error
    if ahead >= plain:
        return plain
    middle = ahead - t * t * rare / 2
    return ahead - middle + math.sqrt(middle * middle + plain * plain - ahead * ahead)


def rare_t(mean: float, error: float, rare: RareChanges, at: float) -> float:
    """Student's t of the hypothesis that the difference is `at`, by the variance of `rare_interval`.

    Evidence against 0 is also evidence against what lies beyond it.
    """
    added = rare.down * max(min(mean, 0.0) - at, 0.0) + rare.up * max(at - max(mean, 0.0), 0.0)
    statistic, plain = (mean - at) / math.sqrt(error * error + added), mean / error
    return max(statistic, plain) if at < 0 < mean else min(statistic, plain) if mean < 0 < at else statistic

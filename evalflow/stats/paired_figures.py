"""The difference of two runs in a figure that is not a mean over cases, such as precision or F1.

The interval is a paired percentile bootstrap of the difference: cases, or clusters of them, are resampled together with
the results of both runs (Efron & Tibshirani 1993, ch. 13), expanded for few of them. As for means, the p-value is the
larger of two: of t with the bootstrap's standard error, and of approximate randomisation, which swaps the two runs of
each cluster at random (Noreen 1989; Yeh 2000, aclanthology.org/C00-2137).

If no answer changed, no resample varies. For precision, recall and F scores the rule of three (as in `paired`) then
bounds the difference, from the m cases that the figure counts: those predicted, true, or either. If none of them
differs, the true share d of differing cases is below 1 - 0.05^(1/m) with 95 % confidence. Precision and recall then
differ by at most d, and an F score with w = 1 + beta^2 by at most w d / (1 + (w - 1) d): the maximum is reached if the
changed cases are all right in one run and all wrong in the other, and all other cases are wrong in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evalflow.lazy import np
from evalflow.stats.arrays import Floats, Interval, Ints, no_interval
from evalflow.stats.bootstrap import bootstrap_method, percentile_interval, resample
from evalflow.stats.classification import Of, Ratio
from evalflow.stats.paired import DRAWS, Difference, no_difference, t_test

_CHUNK = 4_000_000
_TIE = 1e-10


@dataclass(frozen=True)
class PairedClusters:
    """The results of two runs on the same clusters of cases; clusters with equal counts share one pattern.

    `a` and `b` hold the number of cases of each run by pattern and cell, `weights` the number of clusters with the
    pattern. A case whose repeats differ is split over cells and still counts as one.
    """

    a: Floats
    b: Floats
    weights: Ints
    cases: int
    seed: int

    @property
    def clusters(self) -> int:
        """Number of clusters; equals `cases` without clusters."""
        return int(self.weights.sum())

    def values(self, of: Of) -> tuple[float, float]:
        """A figure in both runs; NaN if undefined."""
        a, b = (float(of((self.weights @ side)[None, :])[0]) for side in (self.a, self.b))
        return a, b

    @cached_property
    def unchanged(self) -> bool:
        """Whether both runs have the same results in every cluster."""
        return bool((self.a == self.b).all())

    @cached_property
    def draws(self) -> tuple[Floats, Floats]:
        """Cell totals of both runs in each resample."""
        totals = resample(np.concatenate([self.a, self.b], axis=1), self.weights, self.seed)
        return totals[:, : self.a.shape[1]], totals[:, self.a.shape[1] :]

    @cached_property
    def swaps(self) -> tuple[Floats, Floats]:
        """Cell totals of both runs after swapping the runs of each cluster at random, for each draw."""
        shift = np.concatenate(list(self._shifts()))
        return self.weights @ self.a + shift, self.weights @ self.b - shift

    def _shifts(self) -> Iterator[Floats]:
        """Run A's gains from the swaps, in chunks of draws."""
        rng = np.random.default_rng(self.seed)
        differ = (self.a != self.b).any(axis=1)
        gain, weights = (self.b - self.a)[differ], self.weights[differ]
        step = max(1, _CHUNK // max(1, weights.size))
        for start in range(0, DRAWS, step):
            size = (min(step, DRAWS - start), weights.size)
            yield rng.binomial(weights, 0.5, size=size) @ gain


def figure_difference(figure: Of | Ratio, clusters: PairedClusters) -> Difference:
    """Compare a figure of two runs, B minus A, by this module's rules."""
    of = figure.of if isinstance(figure, Ratio) else figure
    n, groups = clusters.cases, clusters.clusters
    value_a, value_b = clusters.values(of)
    if np.isnan(value_a) or np.isnan(value_b):
        return undefined(clusters, value_a, value_b)
    if isinstance(figure, Ratio) and clusters.unchanged:
        counted = int(clusters.weights @ ((clusters.a @ figure.trials) > 0))
        return no_difference(n, groups, (value_a, value_b), counted, figure.leverage)
    difference, ci = value_b - value_a, _interval(of, clusters)
    p, error, df = _p_value(of, clusters, difference), ci.std_error, None
    if error is not None:
        df = groups - 1
        p = max(p, t_test(difference, error, df))
    return Difference(n, groups, value_a, value_b, difference, error, df, ci.low, ci.high, p, ci.method)


def undefined(clusters: PairedClusters, value_a: float, value_b: float) -> Difference:
    """A difference without a value, since the figure is undefined in a run."""
    a, b = (None if value != value else value for value in (value_a, value_b))
    return Difference(clusters.cases, clusters.clusters, a, b, method="none: undefined in a run")


def resampled_difference(of: Of, clusters: PairedClusters, method: str, units: int) -> Interval:
    """Percentile interval and standard error of a figure's difference over resamples of `units` cases or clusters."""
    return percentile_interval(of(clusters.draws[1]) - of(clusters.draws[0]), method, units)


def _interval(of: Of, clusters: PairedClusters) -> Interval:
    units, clustered = clusters.clusters, clusters.clusters < clusters.cases
    if units == 1:
        return no_interval("one cluster" if clustered else "one case")
    if clusters.unchanged:
        return no_interval("no answer changed, which says nothing of how much it varies")
    method = bootstrap_method("paired_{}bootstrap_swaps", units, clustered=clustered)
    return resampled_difference(of, clusters, method, units)


def _p_value(of: Of, clusters: PairedClusters, difference: float) -> float:
    """p-value of the random swaps. A swap that leaves the figure undefined counts as extreme, which is conservative."""
    swap_differences = np.abs(of(clusters.swaps[1]) - of(clusters.swaps[0]))
    far = int((np.isnan(swap_differences) | (swap_differences >= abs(difference) - _TIE)).sum())
    return (1 + far) / (1 + swap_differences.size)

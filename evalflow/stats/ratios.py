"""Ratios over the cells of a confusion matrix, with the intervals that classification figures have.

A proportion of independent records has Wilson's interval. F scores, and all figures of clustered records, have a
percentile bootstrap over clusters. A score of 0 or 1 never varies in a bootstrap; it has Wilson's interval with
clusters as trials, for an F score by way of the Jaccard index J = TP / (TP + FP + FN): given J, F lies between
(1 + b) J / ((1 + b) J + (1 - J) max(1, b)) and the same with min, for b = beta squared; for F1 both are 2J / (1 + J).
A single cluster has no interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.records import Figure
from evalflow.stats.bootstrap import Bounds, bootstrap_method, percentile_bounds, resample
from evalflow.stats.intervals import rule_of_three, wilson

if TYPE_CHECKING:
    from evalflow.stats.arrays import Floats, Ints


Of = Callable[["Floats"], "Floats"]
"""A figure as a function of cell totals: one value for each row, NaN if undefined."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of weighted sums of confusion cells.

    Attributes:
        name: Name of the figure.
        above, below: Weight of each confusion cell in numerator and denominator.
        jaccard: For an F score the cells that count as trials, else None.
        beta: Beta of the F score.
    """

    name: str
    above: Floats
    below: Floats
    jaccard: Floats | None = None
    beta: float = 1

    @property
    def trials(self) -> Floats:
        """The cells that the figure depends on."""
        return self.below if self.jaccard is None else self.jaccard

    @property
    def leverage(self) -> float:
        """Weight of a single record: at most 1 + beta squared in an F score, else 1."""
        return 1.0 if self.jaccard is None else 1 + self.beta**2

    def of(self, totals: Floats) -> Floats:
        """The ratio for each row of cell totals; NaN if the denominator is 0."""
        above, below = totals @ self.above, totals @ self.below
        return np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)


@dataclass(frozen=True)
class Clusters:
    """Clusters of records. Clusters with equal counts are one pattern, which makes resampling much faster.

    Attributes:
        counts: Records of each pattern in each confusion cell, shape (patterns, cells).
        weights: Number of clusters with that pattern, shape (patterns,).
        seed: Seed of the bootstrap.
    """

    counts: Floats
    weights: Ints
    seed: int

    @cached_property
    def totals(self) -> Floats:
        """Records in each confusion cell."""
        return self.weights @ self.counts

    @cached_property
    def single(self) -> bool:
        """Whether every cluster is one record."""
        return bool((self.counts.sum(axis=1) == 1).all())

    @cached_property
    def method(self) -> str:
        """Name of the bootstrap, with a caveat if the clusters are few."""
        return bootstrap_method("{}bootstrap", int(self.weights.sum()), clustered=not self.single)

    @cached_property
    def draws(self) -> Floats:
        """Cell totals of every resample of the clusters, shape (draws, cells)."""
        return resample(self.counts, self.weights, self.seed)


def figure(ratio: Ratio, clusters: Clusters, details: dict[str, object] | None = None) -> Figure:
    """The ratio over all records, with its interval."""
    totals = clusters.totals
    k, n = float(totals @ ratio.above), float(totals @ ratio.below)
    records = int(n if ratio.jaccard is None else totals.sum())
    if not n:
        return Figure(statistic=ratio.name, value=None, n=0, ci_method="none: nothing to divide by", details=details)
    low, high, error, method = _interval(ratio, clusters, k, n)
    return Figure(
        statistic=ratio.name, value=k / n, n=records, std_error=error, ci_low=low, ci_high=high, ci_method=method,
        details=details,
    )  # fmt: skip


def _interval(ratio: Ratio, clusters: Clusters, k: float, n: float) -> Bounds:
    trials = float(clusters.weights @ ((clusters.counts @ ratio.trials) > 0))
    if trials == 1 and not clusters.single:
        return None, None, None, "none: one cluster"
    proportion = ratio.jaccard is None and clusters.single
    if proportion or k in (0.0, n):
        low, high = (float(bound) for bound in wilson(trials * k / n, trials))
        if ratio.jaccard is not None:
            low, high = _f_of_jaccard(low, ratio.beta, max), _f_of_jaccard(high, ratio.beta, min)
        error = (k / n * (1 - k / n) / (n - 1)) ** 0.5 if 0 < k < n else None
        method = "wilson" if clusters.single else "wilson_clusters"
        note = ratio.jaccard is None and error is None
        units = "cases" if clusters.single else "cases or groups"
        return low, high, error, rule_of_three(method, trials * k / n, trials, units) if note else method
    return resampled_bounds(ratio.of(clusters.draws), clusters)


def _f_of_jaccard(jaccard: float, beta: float, end: Callable[[float, float], float]) -> float:
    """The smallest (`max`) or largest (`min`) F score that goes with a Jaccard index."""
    weight = 1 + beta**2
    return weight * jaccard / (weight * jaccard + (1 - jaccard) * end(1.0, beta**2))


def resampled_bounds(values: Floats, clusters: Clusters) -> Bounds:
    """Percentile interval of a figure's values over the resamples of the clusters; NaN values are left out."""
    low, high, error, why = percentile_bounds(values)
    return low, high, error, why or clusters.method

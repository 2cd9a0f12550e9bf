"""Ratios over the cells of a confusion matrix, with the intervals that classification figures have.

The interval of a proportion is Wilson's where each record is a cluster of its own. That of an F score, and of
everything where clusters hold several records, comes from a percentile bootstrap over clusters. A bootstrap of a
perfect, or a hopeless, score never varies; Wilson's interval stands in, with clusters as trials, and for an F score
through the Jaccard index J = TP / (TP + FP + FN): given J, F lies between (1 + b) J / ((1 + b) J + (1 - J) max(1, b))
and the same with min, for b = beta squared; for F1 both are 2J / (1 + J). One cluster shows nothing of how clusters
vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.bootstrap import percentiles, resample
from evalflow.stats.intervals import FEW_CASES, FEW_CLUSTERS, rule_of_three, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Bounds = tuple[float | None, float | None, float | None, str]
"""Low, high, standard error and method of an interval; all but the method None where there is none."""
Of = Callable[["Floats"], "Floats"]
"""A figure as a function of cell totals: one value for each of their rows, NaN where it is undefined."""
# A percentile of draws of which more than this share is undefined says nothing.
MAX_UNDEFINED = 0.05


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of sums over the records: cells that are counted above, and below, the line.

    Attributes:
        name: The statistic.
        above, below: Weight of each confusion cell.
        jaccard: The cells that are trials where the ratio is an F score, else None.
        beta: Of the F score.
    """

    name: str
    above: Floats
    below: Floats
    jaccard: Floats | None = None
    beta: float = 1

    @property
    def trials(self) -> Floats:
        """The cells whose records the figure is about; of no others does it change."""
        return self.below if self.jaccard is None else self.jaccard

    @property
    def leverage(self) -> float:
        """How many times a record may count: 1 + beta squared in an F score, else 1."""
        return 1.0 if self.jaccard is None else 1 + self.beta**2

    def of(self, totals: Floats) -> Floats:
        """The ratio for each row of cell totals, NaN where there is nothing to divide by."""
        import numpy as np

        above, below = totals @ self.above, totals @ self.below
        return np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)


@dataclass(frozen=True)
class Clusters:
    """Clusters with equal counts, taken together: they draw alike, in far less time.

    Attributes:
        counts: Records of each pattern in each confusion cell, shape (patterns, cells).
        weights: How many clusters have that pattern, shape (patterns,).
        seed: Of the bootstrap.
    """

    counts: Floats
    weights: NDArray[np.int64]
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
        """The bootstrap's name, and what a reader should know of it."""
        name, few, what = (
            ("bootstrap", FEW_CASES, "cases") if self.single else ("cluster_bootstrap", FEW_CLUSTERS, "clusters")
        )
        return f"{name}: fewer than {few} {what}" if self.weights.sum() < few else name

    @cached_property
    def draws(self) -> Floats:
        """Cell totals of every resample of the clusters, shape (draws, cells)."""
        return resample(self.counts, self.weights, self.seed)


def figure(ratio: Ratio, clusters: Clusters, details: dict[str, object] | None = None) -> Figure:
    """The ratio over all records, with its interval.

    Args:
        ratio: What is divided by what.
        clusters: The records.
        details: What goes with the figure.
    """
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
    touched = float(clusters.weights @ ((clusters.counts @ ratio.trials) > 0))
    if touched == 1 and not clusters.single:
        return None, None, None, "none: one cluster"
    proportion = ratio.jaccard is None and clusters.single
    if proportion or k in (0.0, n):
        low, high = (float(bound) for bound in wilson(touched * k / n, touched))
        if ratio.jaccard is not None:
            low, high = _f_of_jaccard(low, ratio.beta, max), _f_of_jaccard(high, ratio.beta, min)
        error = (k / n * (1 - k / n) / (n - 1)) ** 0.5 if 0 < k < n else None
        method = "wilson" if clusters.single else "wilson_clusters"
        note = ratio.jaccard is None and error is None
        units = "cases" if clusters.single else "cases or groups"
        return low, high, error, rule_of_three(method, touched * k / n, touched, units) if note else method
    return resampled_bounds(ratio.of(clusters.draws), clusters)


def _f_of_jaccard(jaccard: float, beta: float, end: Callable[[float, float], float]) -> float:
    """The smallest (`max`) or largest (`min`) F score that goes with a Jaccard index."""
    weight = 1 + beta**2
    return weight * jaccard / (weight * jaccard + (1 - jaccard) * end(1.0, beta**2))


def resampled_bounds(values: Floats, clusters: Clusters) -> Bounds:
    """The percentile interval of what the resamples of the clusters gave, NaN where one gave nothing.

    Args:
        values: One per draw.
        clusters: What was drawn from.
    """
    import numpy as np

    defined = values[~np.isnan(values)]
    if defined.size < (1 - MAX_UNDEFINED) * values.size:
        return None, None, None, f"none: undefined in {1 - defined.size / values.size:.0%} of the resamples"
    low, high = percentiles(defined)
    if low == high:
        return None, None, None, "none: the resamples do not differ"
    return low, high, float(defined.std(ddof=1)), clusters.method

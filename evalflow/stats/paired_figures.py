"""The difference of two runs in a figure that is no mean over cases, such as precision or F1.

The interval is a percentile bootstrap of the difference: cases, or clusters of them, are drawn together with what both
runs said of them, so that the pairing stays (Efron & Tibshirani 1993, ch. 13). The p-value is the larger of two, as for
means: t on the bootstrap's standard error, and approximate randomisation, in which the two runs of each cluster change
places by the toss of a coin (Noreen 1989; Yeh 2000, aclanthology.org/C00-2137).

Where no answer changed no resample varies. Of precision, recall and F scores the rule of three then says how far apart
the runs may be. It is that of `paired`, on the m cases that the figure is about: those predicted, true, or
either. Where none of them differs, the share d that does is with 95 % confidence below 1 - 0.05^(1/m). Precision and
recall are then at most d apart. An F score with w = 1 + beta^2 is at most w d / (1 + (w - 1) d) apart, which it reaches
where the cases that differ are all right in one run and all wrong in the other, and all others are wrong in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalflow.stats.bootstrap import percentiles, resample
from evalflow.stats.intervals import FEW_CASES, FEW_CLUSTERS
from evalflow.stats.paired import DRAWS, Difference, alike, t_test
from evalflow.stats.ratios import MAX_UNDEFINED, Of, Ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CHUNK = 4_000_000
_TIE = 1e-10


@dataclass(frozen=True)
class PairedClusters:
    """What two runs said of the same clusters of cases; clusters with equal counts are taken together.

    Attributes:
        a: Cases of each pattern of cluster in each cell, shape (patterns, cells); a case counts once in all, split
            over cells where its repeats differ.
        b: The other run's.
        weights: How many clusters have that pattern, shape (patterns,).
        cases: How many cases there are.
        seed: Of all that is drawn.
    """

    a: Floats
    b: Floats
    weights: NDArray[np.int64]
    cases: int
    seed: int

    @property
    def clusters(self) -> int:
        """How many there are; `cases` where each case stands alone."""
        return int(self.weights.sum())

    def values(self, of: Of) -> tuple[float, float]:
        """A figure of both runs; NaN where it is undefined."""
        a, b = (float(of((self.weights @ side)[None, :])[0]) for side in (self.a, self.b))
        return a, b

    @cached_property
    def unchanged(self) -> bool:
        """Whether both runs say the same of every cluster."""
        return bool((self.a == self.b).all())

    @cached_property
    def draws(self) -> tuple[Floats, Floats]:
        """Cell totals of both runs in each resample."""
        import numpy as np

        totals = resample(np.concatenate([self.a, self.b], axis=1), self.weights, self.seed)
        return totals[:, : self.a.shape[1]], totals[:, self.a.shape[1] :]

    @cached_property
    def swaps(self) -> tuple[Floats, Floats]:
        """Cell totals of both runs where in each draw each cluster's runs changed places, or did not, by chance."""
        import numpy as np

        shift = np.concatenate(list(self._shifts()))
        return self.weights @ self.a + shift, self.weights @ self.b - shift

    def _shifts(self) -> Iterator[Floats]:
        """What run A gains by the swaps, some draws at a time."""
        import numpy as np

        rng = np.random.default_rng(self.seed)
        differ = (self.a != self.b).any(axis=1)
        gain, weights = (self.b - self.a)[differ], self.weights[differ]
        step = max(1, _CHUNK // max(1, weights.size))
        for start in range(0, DRAWS, step):
            size = (min(step, DRAWS - start), weights.size)
            yield rng.binomial(weights, 0.5, size=size) @ gain


def figure_difference(figure: Of | Ratio, clusters: PairedClusters) -> Difference:
    """Compare a figure of two runs, B minus A, by the rule of this module.

    Args:
        figure: As a function of cell totals, or as a ratio of them.
        clusters: The cases that both runs have.
    """
    import numpy as np

    of = figure.of if isinstance(figure, Ratio) else figure
    n, groups = clusters.cases, clusters.clusters
    value_a, value_b = clusters.values(of)
    if np.isnan(value_a) or np.isnan(value_b):
        return undefined(clusters, value_a, value_b)
    if isinstance(figure, Ratio) and clusters.unchanged:
        touched = int(clusters.weights @ ((clusters.a @ figure.trials) > 0))
        return alike(n, groups, (value_a, value_b), touched, figure.leverage)
    difference = value_b - value_a
    low, high, error, method = _bounds(of, clusters)
    p = _p_value(of, clusters, difference)
    if error is not None:
        p = max(p, t_test(difference, error, groups - 1))
    df = None if error is None else groups - 1
    return Difference(n, groups, value_a, value_b, difference, error, df, low, high, p, method)


def undefined(clusters: PairedClusters, value_a: float, value_b: float) -> Difference:
    """No difference, since the figure of a run is NaN."""
    a, b = (None if value != value else value for value in (value_a, value_b))
    why = "none: undefined in a run"
    return Difference(clusters.cases, clusters.clusters, a, b, None, None, None, None, None, None, why)


def resampled_difference(of: Of, clusters: PairedClusters) -> tuple[float | None, float | None, float | None, str]:
    """Percentile interval and standard error of a figure's difference over the resamples; else None, and why."""
    import numpy as np

    found = of(clusters.draws[1]) - of(clusters.draws[0])
    defined = found[~np.isnan(found)]
    if defined.size < (1 - MAX_UNDEFINED) * found.size:
        return None, None, None, f"none: undefined in {1 - defined.size / found.size:.0%} of the resamples"
    low, high = percentiles(defined)
    if low == high:
        return None, None, None, "none: the resamples do not differ"
    return low, high, float(defined.std(ddof=1)), ""


def _bounds(of: Of, clusters: PairedClusters) -> tuple[float | None, float | None, float | None, str]:
    if clusters.clusters == 1:
        return None, None, None, "none: one case" if clusters.cases == 1 else "none: one cluster"
    if clusters.unchanged:
        return None, None, None, "none: no answer changed, which says nothing of how much it varies"
    low, high, error, why = resampled_difference(of, clusters)
    if error is None:
        return None, None, None, why
    alone = clusters.clusters == clusters.cases
    name, few, what = ("", FEW_CASES, "cases") if alone else ("cluster_", FEW_CLUSTERS, "clusters")
    note = f": fewer than {few} {what}" if clusters.clusters < few else ""
    return low, high, error, f"paired_{name}bootstrap_swaps{note}"


def _p_value(of: Of, clusters: PairedClusters, difference: float) -> float:
    """Of the swaps. One that leaves the figure undefined counts as far from 0, which makes p larger, never smaller."""
    import numpy as np

    found = np.abs(of(clusters.swaps[1]) - of(clusters.swaps[0]))
    far = int((np.isnan(found) | (found >= abs(difference) - _TIE)).sum())
    return (1 + far) / (1 + found.size)

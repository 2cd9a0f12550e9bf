"""Answers of which some have a label: what the labels alone, and the judge beside them, say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.stats.intervals import Interval, interval, t_interval, wilson
from evalflow.stats.paired import newcombe, paired_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Differences below this share of the largest value are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Sample:
    """Labelled and unlabelled answers.

    Attributes:
        labels, judged: Of the labelled, shape (n,).
        unlabelled: The judge's scores of the others, shape (N,).
        units, unlabelled_units: The cluster of each, numbered from 0 over both; each its own where none is known.
        weights: Of the labelled, summing to 1; None where all were as likely to be drawn.
    """

    labels: Floats
    judged: Floats
    unlabelled: Floats
    units: Ints
    unlabelled_units: Ints
    weights: Floats | None

    @property
    def labelled_units(self) -> int:
        """Clusters, or answers where each stands alone, that have a label."""
        import numpy as np

        return int(np.unique(self.units).size)

    @property
    def clustered(self) -> bool:
        """Whether some cluster holds several labels."""
        return self.labelled_units < self.labels.size

    @property
    def step(self) -> float:
        """How far one label, or one score, can lie from another."""
        import numpy as np

        sides = (self.labels, np.concatenate([self.judged, self.unlabelled]))
        return max(float(np.ptp(side)) if side.size else 0.0 for side in sides)

    def mean(self, values: Floats) -> float:
        """Over the labelled answers; by Hajek's ratio where they are weighted."""
        import numpy as np

        return float(np.average(values, weights=self.weights))


def sample(
    labels: ArrayLike, judged: ArrayLike, unlabelled: ArrayLike, *, clusters: ArrayLike | None = None,
    unlabelled_clusters: ArrayLike | None = None, weights: ArrayLike | None = None,
) -> Sample:  # fmt: skip
    """Bring arrays into the form of a `Sample`; the arguments are those of `corrected_mean`."""
    import numpy as np

    y, f, u = (np.asarray(x, dtype=np.float64) for x in (labels, judged, unlabelled))
    own, others = (np.arange(y.size) if clusters is None else _codes(clusters)), np.arange(u.size) + y.size
    if clusters is not None and unlabelled_clusters is not None:
        both = _codes(np.concatenate([np.asarray(clusters), np.asarray(unlabelled_clusters)]))
        own, others = both[: y.size], both[y.size :]
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    if w is not None and w.size and np.ptp(w) <= _ROUNDING * w.max():
        w = None
    return Sample(y, f, u, own, others, None if w is None else w / w.sum())


def human_interval(s: Sample, binary: bool, confidence: float) -> Interval:
    """The interval of the labels' mean, without the judge.

    Wilson's of weighted ones has as trials the number that, drawn alike, would have the same error (Korn & Graubard
    1998, Survey Methodology 24:193); where all are equal, (sum w)^2 / sum w^2 (Kish 1965, sec. 11.2).
    """
    import numpy as np

    if s.weights is None or s.labelled_units < 2:
        return interval(s.labels, s.units if s.clustered else None, confidence=confidence)
    if not binary and constant(s.labels):
        return Interval(None, None, None, "none: all labels equal")
    mean = s.mean(s.labels)
    sums = np.bincount(s.units, s.weights * (s.labels - mean))
    error = float(np.sqrt(cluster_variance(sums, s.units) + unseen_variance(s.labels, s.weights, s.units, s.step)))
    if binary and not s.clustered:
        trials = mean * (1 - mean) / error**2 if error else 1 / float((s.weights**2).sum())
        low, high = wilson(mean * trials, trials, confidence)
        return Interval(float(low), float(high), error or None, "wilson_weighted")
    low, high = t_interval(mean, error, s.labelled_units - 1, confidence)
    return Interval(float(low), float(high), error, "cr1_t_weighted" if s.clustered else "t_weighted")


def bias_interval(s: Sample, confidence: float) -> tuple[float | None, float | None]:
    """The interval of the judge's mean minus the labels': Newcombe's of two shares of the same answers, or t."""
    import numpy as np

    off = s.judged - s.labels
    shares = bool(np.isin(s.labels, (0.0, 1.0)).all() and np.isin(s.judged, (0.0, 1.0)).all())
    if off.size and shares and s.weights is None and not s.clustered:
        return newcombe(*paired_table(s.labels, s.judged), confidence)
    if s.labelled_units < 2 or constant(off):
        return None, None
    share = np.full(off.size, 1 / off.size) if s.weights is None else s.weights
    seen = cluster_variance(np.bincount(s.units, share * (off - s.mean(off))), s.units)
    error = float(np.sqrt(seen + unseen_variance(off, s.weights, s.units, s.step)))
    low, high = t_interval(s.mean(off), error, s.labelled_units - 1, confidence)
    return float(low), float(high)


def unseen_variance(values: Floats, weights: Floats | None, units: Ints, step: float) -> float:
    """What strata whose labels show no error, or nothing but errors, add to the variance of a weighted mean.

    Of n values all alike nothing shows how often another turns up: its rate is smoothed to 1/2 of n + 1 (Jeffreys). A
    stratum is what has one weight; one of a single label shows neither accord nor error, and adds nothing.

    Args:
        values: Of the labelled: labels, or how far the judge is off.
        weights: Summing to 1; None where all were as likely to be drawn, and then nothing is added.
        units: The cluster of each.
        step: How far another value would lie away.
    """
    import numpy as np

    added = 0.0
    for weight in np.unique(weights) if weights is not None else ():
        own = weights == weight
        n = int(np.unique(units[own]).size)
        if n > 1 and constant(values[own]):
            rate = 0.5 / (n + 1)
            added += float(own.sum() * weight * step) ** 2 * rate * (1 - rate) / n
    return added


def cluster_variance(sums: ArrayLike, units: Ints) -> float:
    """Sum of squares of the clusters' sums, times G / (G - 1) for so many clusters; NaN for one."""
    import numpy as np

    groups, squares = int(np.unique(units).size), float((np.asarray(sums, dtype=np.float64) ** 2).sum())
    return squares * groups / (groups - 1) if groups > 1 else np.nan


def constant(values: Floats) -> bool:
    """Whether nothing varies but by rounding; so it is of no values."""
    import numpy as np

    return bool(not values.size or np.ptp(values) <= _ROUNDING * max(1.0, float(np.abs(values).max())))


def _codes(names: ArrayLike) -> Ints:
    import numpy as np

    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64)

"""Means over the classes of a classification: each class once (macro), or each as often as it occurs (weighted)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.ratios import Clusters, Of, Ratio, resampled_bounds

if TYPE_CHECKING:
    from evalflow.stats.ratios import Floats


Ratios = Sequence[Ratio]
"""Precision, recall, F1 and F2 of a class."""
_NAMES = ("precision", "recall", "f1", "f2")
_RECALL, _F1 = 1, 2


def means(per_class: Mapping[str, Ratios]) -> dict[str, Of]:
    """Each mean over the classes, by its name, as a function of cell totals; NaN where it is undefined."""
    macro = {f"macro_{name}": partial(_macro_mean, per_class, i) for i, name in enumerate(_NAMES[: _F1 + 1])}
    return macro | {f"weighted_{name}": partial(_weighted_mean, per_class, i) for i, name in enumerate(_NAMES)}


def averages(per_class: Mapping[str, Ratios], clusters: Clusters) -> Iterator[Figure]:
    """Macro means of precision, recall and F1, then weighted means of those and F2, with their intervals."""
    for name, of in means(per_class).items():
        why = "a class is never predicted" if per_class and name.startswith("macro") else "nothing to divide by"
        yield resampled_figure(name, of, clusters, why)


def resampled_figure(name: str, of: Of, clusters: Clusters, why: str) -> Figure:
    """A figure over all records; each draw of the bootstrap goes by the same rule as the value itself.

    Args:
        name: The statistic.
        of: As a function of cell totals.
        clusters: The records.
        why: What makes it undefined, where it is.
    """
    records = int(clusters.totals.sum())
    value = float(of(clusters.totals[None, :])[0]) if records else math.nan
    if math.isnan(value):
        return Figure(statistic=name, value=None, n=records, ci_method=f"none: {why}")
    if clusters.weights.sum() == 1 and not clusters.single:
        return Figure(statistic=name, value=value, n=records, ci_method="none: one cluster")
    low, high, error, method = resampled_bounds(of(clusters.draws), clusters)
    return Figure(
        statistic=name, value=value, n=records, std_error=error, ci_low=low, ci_high=high, ci_method=method
    )  # fmt: skip


def _macro_mean(per_class: Mapping[str, Ratios], position: int, totals: Floats) -> Floats:
    """One mean over the classes per row of `totals`; NaN where a class occurs whose value is undefined."""
    import numpy as np

    values = np.stack([r[position].of(totals) for r in per_class.values()], axis=1)
    defined = ~np.isnan(values)
    # Precision asks of every class that occurs or is predicted, which is where its F1 is defined.
    counted = ~np.isnan(np.stack([r[_F1].of(totals) for r in per_class.values()], axis=1)) if position == 0 else defined
    return np.where(counted, values, 0).sum(axis=1) / counted.sum(axis=1)


def _weighted_mean(per_class: Mapping[str, Ratios], position: int, totals: Floats) -> Floats:
    """One mean per row of `totals`. A true class that is never predicted has found none of its own: it counts as 0."""
    import numpy as np

    support = np.stack([totals @ ratios[_RECALL].below for ratios in per_class.values()], axis=1)
    values = np.stack([ratios[position].of(totals) for ratios in per_class.values()], axis=1)
    found = (support * np.where(np.isnan(values), 0.0, values)).sum(axis=1)
    records: Floats = support.sum(axis=1)
    return np.divide(found, records, out=np.full(records.shape, np.nan), where=records > 0)

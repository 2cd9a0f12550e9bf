"""Confusion matrix, accuracy, precision, recall and F1 with their intervals, from counts of (truth, prediction).

A figure with nothing to divide by is None, never 0. With several classes each has its own precision, recall and F1,
and `macro_*` are their means: recall over the classes that occur, F1 over the classes that occur or are predicted.
The precision of a class that is never predicted is undefined, and so is then macro_precision: to leave the class out,
as is often done, would raise the mean exactly because a class was given up on. Its F1 is 0 and counts.

Intervals of accuracy, precision and recall are Wilson's where each record is a cluster of its own. F1, the macro
means, and everything where clusters hold several records, come from a percentile bootstrap over clusters. A bootstrap
of a perfect, or a hopeless, score never varies; Wilson's interval stands in, with clusters as trials, and for F1
through the Jaccard index J = TP / (TP + FP + FN), since F1 = 2J / (1 + J). One cluster shows nothing of how clusters
vary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.bootstrap import percentiles, resample
from evalflow.stats.intervals import FEW_CASES, FEW_CLUSTERS, rule_of_three, wilson

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# A percentile of draws of which more than this share is undefined says nothing.
MAX_UNDEFINED = 0.05


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A proportion over the records: cells that are counted above, and below, the line.

    Attributes:
        name: The statistic.
        above, below: Weight of each confusion cell.
        jaccard: The cells that are trials where the ratio is an F1, else None.
    """

    name: str
    above: Floats
    below: Floats
    jaccard: Floats | None = None

    def of(self, totals: Floats) -> Floats:
        """The ratio for each row of cell totals, NaN where there is nothing to divide by."""
        import numpy as np

        above, below = totals @ self.above, totals @ self.below
        return np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)


_Ratios = tuple[_Ratio, _Ratio, _Ratio]


@dataclass(frozen=True)
class _Clusters:
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


def classification_figures(counts: pl.DataFrame, positive: str | None, seed: int = 0) -> list[Figure]:
    """All figures of one classification metric over one slice of a run.

    Args:
        counts: Scored records, counted. Columns: cluster (any), truth and prediction (canonical JSON text), n (records
            of one cluster), clusters (how many clusters alike the row stands for).
        positive: The positive label as canonical JSON text, or None for several classes.
        seed: Of the bootstrap.

    Returns:
        accuracy (with the confusion matrix in its details: `matrix[truth][prediction]`), then precision, recall and
        f1 of the positive label; or macro_precision, macro_recall, macro_f1 and each class's `precision[label]` and so
        on. `n` is what each was divided by; of a macro mean, and of an F1, the records.
    """
    import polars as pl

    labels = sorted({*counts["truth"].to_list(), *counts["prediction"].to_list()})
    records = (pl.col("n") * pl.col("clusters")).sum().alias("n")
    cells = counts.group_by("truth", "prediction").agg(records).sort("truth", "prediction")
    pairs = [(truth, prediction) for truth, prediction, _ in cells.iter_rows()]
    clusters = _patterns(counts, cells, seed)
    per_class = {label: _class_ratios(pairs, label, named=positive is None) for label in labels}
    figures = [_figure(_accuracy(pairs), clusters, _matrix(cells, labels))]
    if positive is not None:
        ratios = per_class.get(positive) or _class_ratios(pairs, positive, named=False)
        return figures + [_figure(ratio, clusters) for ratio in ratios]
    figures += _macro(per_class, clusters)
    return figures + [_figure(ratio, clusters) for ratios in per_class.values() for ratio in ratios]


def label_text(label: str) -> str:
    """A label of canonical JSON text as people read it: a string without its quotes."""
    value = json.loads(label)
    return value if isinstance(value, str) else label


def _patterns(counts: pl.DataFrame, cells: pl.DataFrame, seed: int) -> _Clusters:
    import numpy as np
    import polars as pl

    codes = cells.select("truth", "prediction", cell=pl.int_range(pl.len(), dtype=pl.Int64))
    listed = (
        counts.join(codes, on=["truth", "prediction"])
        .group_by("cluster", "cell")
        .agg(pl.col("n").sum(), pl.col("clusters").first())
        .sort("cluster", "cell")
        .group_by("cluster", maintain_order=True)
        .agg("cell", "n", pl.col("clusters").first())
        .group_by("cell", "n")
        .agg(weight=pl.col("clusters").sum())
        .sort("cell", "n")
    )
    matrix = np.zeros((listed.height, cells.height))
    for row, (cell, n) in enumerate(zip(listed["cell"], listed["n"], strict=True)):
        matrix[row, cell.to_numpy()] = n.to_numpy()
    return _Clusters(matrix, listed["weight"].cast(pl.Int64).to_numpy(), seed)


def _accuracy(pairs: Sequence[tuple[str, str]]) -> _Ratio:
    import numpy as np

    return _Ratio("accuracy", np.array([float(t == p) for t, p in pairs]), np.ones(len(pairs)))


def _class_ratios(pairs: Sequence[tuple[str, str]], label: str, *, named: bool) -> _Ratios:
    import numpy as np

    true = np.array([float(truth == label) for truth, _ in pairs])
    predicted = np.array([float(prediction == label) for _, prediction in pairs])
    hit = true * predicted
    suffix = f"[{label_text(label)}]" if named else ""
    return (
        _Ratio(f"precision{suffix}", hit, predicted),
        _Ratio(f"recall{suffix}", hit, true),
        _Ratio(f"f1{suffix}", 2 * hit, true + predicted, jaccard=true + predicted - hit),
    )


def _matrix(cells: pl.DataFrame, labels: Sequence[str]) -> dict[str, object]:
    at = {label: i for i, label in enumerate(labels)}
    matrix = [[0] * len(labels) for _ in labels]
    for truth, prediction, n in cells.iter_rows():
        matrix[at[truth]][at[prediction]] = n
    return {"labels": [label_text(label) for label in labels], "matrix": matrix}


def _figure(ratio: _Ratio, clusters: _Clusters, details: dict[str, object] | None = None) -> Figure:
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


_Bounds = tuple[float | None, float | None, float | None, str]


def _interval(ratio: _Ratio, clusters: _Clusters, k: float, n: float) -> _Bounds:
    trials = ratio.below if ratio.jaccard is None else ratio.jaccard
    touched = float(clusters.weights @ ((clusters.counts @ trials) > 0))
    if touched == 1 and not clusters.single:
        return None, None, None, "none: one cluster"
    proportion = ratio.jaccard is None and clusters.single
    if proportion or k in (0.0, n):
        low, high = (float(bound) for bound in wilson(touched * k / n, touched))
        if ratio.jaccard is not None:
            low, high = 2 * low / (1 + low), 2 * high / (1 + high)
        error = (k / n * (1 - k / n) / (n - 1)) ** 0.5 if 0 < k < n else None
        method = "wilson" if clusters.single else "wilson_clusters"
        note = ratio.jaccard is None and error is None
        return low, high, error, rule_of_three(method, touched * k / n, touched) if note else method
    return _percentiles(ratio.of(clusters.draws), clusters)


def _macro(per_class: Mapping[str, _Ratios], clusters: _Clusters) -> list[Figure]:
    """Means over the classes; each draw of the bootstrap goes by the same rule as the value itself."""
    figures: list[Figure] = []
    records = int(clusters.totals.sum())
    for position, name in enumerate(("precision", "recall", "f1")):
        value = float(_macro_mean(clusters.totals[None, :], per_class, position)[0]) if per_class else float("nan")
        if value == value:
            low, high, error, method = _percentiles(_macro_mean(clusters.draws, per_class, position), clusters)
        else:
            why = "a class is never predicted" if per_class else "nothing to divide by"
            low, high, error, method = None, None, None, f"none: {why}"
        figures.append(
            Figure(
                statistic=f"macro_{name}", value=value if value == value else None, n=records, std_error=error,
                ci_low=low, ci_high=high, ci_method=method,
            )
        )  # fmt: skip
    return figures


def _macro_mean(totals: Floats, per_class: Mapping[str, _Ratios], position: int) -> Floats:
    """One mean over the classes per row of `totals`; NaN where a class occurs whose value is undefined."""
    import numpy as np

    values = np.stack([r[position].of(totals) for r in per_class.values()], axis=1)
    defined = ~np.isnan(values)
    # Precision asks of every class that occurs or is predicted, which is where its F1 is defined.
    counted = ~np.isnan(np.stack([r[2].of(totals) for r in per_class.values()], axis=1)) if position == 0 else defined
    return np.where(counted, values, 0).sum(axis=1) / counted.sum(axis=1)


def _percentiles(values: Floats, clusters: _Clusters) -> _Bounds:
    import numpy as np

    defined = values[~np.isnan(values)]
    if defined.size < (1 - MAX_UNDEFINED) * values.size:
        return None, None, None, f"none: undefined in {1 - defined.size / values.size:.0%} of the resamples"
    low, high = percentiles(defined)
    if low == high:
        return None, None, None, "none: the resamples do not differ"
    return low, high, float(defined.std(ddof=1)), clusters.method

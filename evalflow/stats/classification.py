"""Confusion matrix, accuracy, precision, recall and F1 with their intervals, from counts of (truth, prediction).

A figure with nothing to divide by is None, never 0. With several classes each has its own precision, recall and F1,
and `macro_*` are their means: recall over the classes that occur, F1 over the classes that occur or are predicted.
The precision of a class that is never predicted is undefined, and so is then macro_precision: to leave the class out,
as is often done, would raise the mean exactly because a class was given up on. Its F1 is 0 and counts.

`weighted_*` are means over the classes too, each counted as often as it is true, as are f2 and F-beta in general
(van Rijsbergen 1979). There a class that occurs and is never predicted counts as 0: of the records that bear it, none
was found. Leaving it out would inflate the mean exactly when a class is given up on.

How intervals are made is told in `ratios`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.averages import Ratios, averages, means, resampled_figure
from evalflow.stats.matthews import matthews
from evalflow.stats.ratios import Clusters, Of, Ratio, figure

if TYPE_CHECKING:
    import polars as pl


def classification_figures(counts: pl.DataFrame, positive: str | None, seed: int = 0) -> list[Figure]:
    """All figures of one classification metric over one slice of a run.

    Args:
        counts: Scored records, counted. Columns: cluster (any), truth and prediction (canonical JSON text), n (records
            of one cluster), clusters (how many clusters alike the row stands for).
        positive: The positive label as canonical JSON text, or None for several classes.
        seed: Of the bootstrap.

    Returns:
        accuracy (with the confusion matrix in its details: `matrix[truth][prediction]`), then precision, recall, f1
        and mcc of the positive label; or macro_precision, macro_recall, macro_f1, weighted_precision, weighted_recall,
        weighted_f1, weighted_f2, mcc and each class's `precision[label]`, recall, f1 and f2. `n` is what each was
        divided by; of a mean over classes, an F score and mcc, the records.
    """
    import polars as pl

    labels = sorted({*counts["truth"].to_list(), *counts["prediction"].to_list()})
    records = (pl.col("n") * pl.col("clusters")).sum().alias("n")
    cells = counts.group_by("truth", "prediction").agg(records).sort("truth", "prediction")
    pairs = [(truth, prediction) for truth, prediction, _ in cells.iter_rows()]
    clusters = _patterns(counts, cells, seed)
    per_class = {label: _class_ratios(pairs, label, named=positive is None) for label in labels}
    figures = [figure(_accuracy(pairs), clusters, _matrix(cells, labels))]
    if positive is not None:
        ratios = per_class.get(positive) or _class_ratios(pairs, positive, named=False)
        return [*figures, *(figure(ratio, clusters) for ratio in ratios[:3]), _matthews(pairs, positive, clusters)]
    figures += [*averages(per_class, clusters), _matthews(pairs, None, clusters)]
    return figures + [figure(ratio, clusters) for ratios in per_class.values() for ratio in ratios]


def over_classes(pairs: Sequence[tuple[str, str]]) -> dict[str, Of]:
    """The means over the classes, and mcc, by name, as functions of cell totals.

    Args:
        pairs: Truth and prediction of each cell, as canonical JSON text.
    """
    mean = means({label: list(of_class(pairs, label).values()) for label in labels_of(pairs)})
    return {**mean, "mcc": matthews(pairs)}


def of_class(pairs: Sequence[tuple[str, str]], label: str) -> dict[str, Ratio]:
    """Precision, recall, f1 and f2 of one class, by name.

    Args:
        pairs: Truth and prediction of each cell, as canonical JSON text.
        label: The class, likewise.
    """
    return {ratio.name: ratio for ratio in _class_ratios(pairs, label, named=False)}


def labels_of(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The classes that occur or are predicted, in the order of their text."""
    return sorted({label for pair in pairs for label in pair})


def label_text(label: str) -> str:
    """A label of canonical JSON text as people read it: a string without its quotes."""
    value = json.loads(label)
    return value if isinstance(value, str) else label


def _patterns(counts: pl.DataFrame, cells: pl.DataFrame, seed: int) -> Clusters:
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
    return Clusters(matrix, listed["weight"].cast(pl.Int64).to_numpy(), seed)


def _matthews(pairs: Sequence[tuple[str, str]], positive: str | None, clusters: Clusters) -> Figure:
    why = "all records bear, or are given, one class"
    return resampled_figure("mcc", matthews(pairs, positive), clusters, why)


def _accuracy(pairs: Sequence[tuple[str, str]]) -> Ratio:
    import numpy as np

    return Ratio("accuracy", np.array([float(t == p) for t, p in pairs]), np.ones(len(pairs)))


def _class_ratios(pairs: Sequence[tuple[str, str]], label: str, *, named: bool) -> Ratios:
    import numpy as np

    true = np.array([float(truth == label) for truth, _ in pairs])
    predicted = np.array([float(prediction == label) for _, prediction in pairs])
    hit = true * predicted
    suffix = f"[{label_text(label)}]" if named else ""
    either = true + predicted - hit
    return (
        Ratio(f"precision{suffix}", hit, predicted),
        Ratio(f"recall{suffix}", hit, true),
        Ratio(f"f1{suffix}", 2 * hit, true + predicted, jaccard=either),
        Ratio(f"f2{suffix}", 5 * hit, 4 * true + predicted, jaccard=either, beta=2),
    )


def _matrix(cells: pl.DataFrame, labels: Sequence[str]) -> dict[str, object]:
    at = {label: i for i, label in enumerate(labels)}
    matrix = [[0] * len(labels) for _ in labels]
    for truth, prediction, n in cells.iter_rows():
        matrix[at[truth]][at[prediction]] = n
    return {"labels": [label_text(label) for label in labels], "matrix": matrix}

"""Figures of a classification: confusion matrix, precision, recall, F1, averages over classes, Matthews' phi."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evalflow.lazy import np, pl
from evalflow.records import Figure
from evalflow.stats.intervals import mean_figure
from evalflow.stats.ratios import Clusters, Of, Ratio, figure, resampled_bounds

if TYPE_CHECKING:
    from evalflow.stats.arrays import Floats


Ratios = Sequence[Ratio]
"""Precision, recall, F1 and F2 of a class."""
_NAMES = ("precision", "recall", "f1", "f2")
_RECALL, _F1 = 1, 2


def means(per_class: Mapping[str, Ratios]) -> dict[str, Of]:
    """Means over the classes by name, each as a function of cell totals; NaN if undefined."""
    macro = {f"macro_{name}": partial(_macro_mean, per_class, i) for i, name in enumerate(_NAMES[: _F1 + 1])}
    return macro | {f"weighted_{name}": partial(_weighted_mean, per_class, i) for i, name in enumerate(_NAMES)}


def averages(per_class: Mapping[str, Ratios], clusters: Clusters) -> Iterator[Figure]:
    """Macro means of precision, recall and F1, then weighted means of those and F2, with their intervals."""
    for name, of in means(per_class).items():
        why = "a class is never predicted" if per_class and name.startswith("macro") else "nothing to divide by"
        yield resampled_figure(name, of, clusters, why)


def resampled_figure(name: str, of: Of, clusters: Clusters, why: str) -> Figure:
    """A figure over all records; bootstrap draws are computed like the value itself."""
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
    """The mean over classes for each row of `totals`; NaN if the value of a class that occurs is undefined."""
    values = np.stack([r[position].of(totals) for r in per_class.values()], axis=1)
    defined = ~np.isnan(values)
    # Precision needs every class that occurs or is predicted: the classes whose F1 is defined.
    counted = ~np.isnan(np.stack([r[_F1].of(totals) for r in per_class.values()], axis=1)) if position == 0 else defined
    return np.where(counted, values, 0).sum(axis=1) / counted.sum(axis=1)


def _weighted_mean(per_class: Mapping[str, Ratios], position: int, totals: Floats) -> Floats:
    """The mean weighted by support for each row of `totals`. A true class that is never predicted counts as 0."""
    support = np.stack([totals @ ratios[_RECALL].below for ratios in per_class.values()], axis=1)
    values = np.stack([ratios[position].of(totals) for ratios in per_class.values()], axis=1)
    found = (support * np.where(np.isnan(values), 0.0, values)).sum(axis=1)
    records: Floats = support.sum(axis=1)
    return np.divide(found, records, out=np.full(records.shape, np.nan), where=records > 0)


def matthews(pairs: Sequence[tuple[str, str]], positive: str | None = None) -> Of:
    """Matthews' correlation coefficient as a function of cell totals; NaN if undefined."""
    sides = [[side if positive is None else str(side == positive) for side in pair] for pair in pairs]
    labels = sorted({label for pair in sides for label in pair})
    true, predicted = (np.array([[float(pair[i] == k) for k in labels] for pair in sides]) for i in (0, 1))
    return partial(_coefficient, true, predicted)


def _coefficient(true: Floats, predicted: Floats, totals: Floats) -> Floats:
    n = totals.sum(axis=1)
    occur, given = totals @ true, totals @ predicted
    hits = totals @ (true * predicted).sum(axis=1)
    above = hits * n - (occur * given).sum(axis=1)
    below: Floats = np.sqrt((n**2 - (occur**2).sum(axis=1)) * (n**2 - (given**2).sum(axis=1)))
    return np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)


def classification_figures(counts: pl.DataFrame, positive: str | None, seed: int = 0) -> list[Figure]:
    """All figures of one classification metric over one slice of a run.

    `counts` also has truth, prediction; these and `positive` are canonical JSON text, None for several classes.

    Returns:
        accuracy (with the confusion matrix in its details: `matrix[truth][prediction]`), then precision, recall, f1
        and mcc of the positive label; or macro_precision, macro_recall, macro_f1, weighted_precision, weighted_recall,
        weighted_f1, weighted_f2, mcc and each class's `precision[label]`, recall, f1 and f2. `n` is the denominator;
        for a mean over classes, an F score and mcc the number of records.
    """
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
    """The means over the classes, and mcc, by name, as functions of cell totals."""
    mean = means({label: list(of_class(pairs, label).values()) for label in labels_of(pairs)})
    return {**mean, "mcc": matthews(pairs)}


def of_class(pairs: Sequence[tuple[str, str]], label: str) -> dict[str, Ratio]:
    """Precision, recall, f1 and f2 of one class, by name."""
    return {ratio.name: ratio for ratio in _class_ratios(pairs, label, named=False)}


def labels_of(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The classes that occur or are predicted, in the order of their text."""
    return sorted({label for pair in pairs for label in pair})


def label_text(label: str) -> str:
    """A label in canonical JSON for display: strings lose their quotes."""
    value = json.loads(label)
    return value if isinstance(value, str) else label


def _patterns(counts: pl.DataFrame, cells: pl.DataFrame, seed: int) -> Clusters:
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
    return Ratio("accuracy", np.array([float(t == p) for t, p in pairs]), np.ones(len(pairs)))


def _class_ratios(pairs: Sequence[tuple[str, str]], label: str, *, named: bool) -> Ratios:
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


_TRUE = "true"
_CELLS = {"true_positives": (1, 1), "false_positives": (0, 1), "false_negatives": (1, 0), "true_negatives": (0, 0)}


def label_figures(counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """Accuracy over all labels together, then precision, recall and F1 of each.

    Args:
        counts: One row per record (or group of equal records) and label; every record has all labels. Columns: record
            (its number), cluster, label, truth and prediction ("true" or "false"), unexpected and unsaid (whether the
            label was absent from the truth, or the prediction, and taken as false), n and clusters as of
            `mean_figure`.
        seed: Seed of the bootstrap.

    Returns:
        accuracy: the share of records that agree on every label; then `precision[label]`, `recall[label]` and
        `f1[label]` in the order of the labels' names. The details of the precision are the counts of records: the four
        cells, and how often the label was absent from the truth and from the prediction.
    """
    agree = (pl.col("truth") == pl.col("prediction")).all().cast(pl.Float64)
    whole = pl.col("cluster", "n", "clusters").first()
    records = counts.group_by("record").agg(whole, agree=agree).sort("record")
    found = [mean_figure("accuracy", records["agree"], records, seed)]
    for (label,), part in counts.sort("label", "record").group_by("label", maintain_order=True):
        _, precision, recall, f1, _ = classification_figures(part, _TRUE, seed)
        precision = replace(precision, details=_counts(part))
        found += [replace(one, statistic=f"{one.statistic}[{label}]") for one in (precision, recall, f1)]
    return found


def _counts(part: pl.DataFrame) -> dict[str, int]:
    records = pl.col("n").cast(pl.Int64) * pl.col("clusters").cast(pl.Int64)
    truth, prediction = (pl.col(side) == _TRUE for side in ("truth", "prediction"))
    cells = {
        name: records.filter((truth == bool(t)) & (prediction == bool(p))).sum() for name, (t, p) in _CELLS.items()
    }
    absent = {
        "absent_from_truth": records.filter("unexpected").sum(),
        "absent_from_prediction": records.filter("unsaid").sum(),
    }
    return part.select(**cells, **absent).row(0, named=True)

"""Figures of a classification: confusion matrix, precision, recall, F1, averages over classes, Matthews' phi.

A proportion of independent records has Wilson's interval. The intervals of other figures of independent records come
from the Dirichlet posterior of the confusion cells, with a quarter of a record right and a quarter wrong added to each
class, so that a class with few records, all of them right, does not count as perfect (Goutte & Gaussier 2005, ECIR, for
F scores). Figures of clustered records have a percentile bootstrap over clusters. A score of 0 or 1 has Wilson's
interval with clusters as trials, for an F score by way of the Jaccard index J = TP / (TP + FP + FN): given J, F lies
between (1 + b) J / ((1 + b) J + (1 - J) max(1, b)) and the same with min, for b = beta squared; for F1 both are 2J / (1
+ J). A single cluster has no interval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from evalflow.lazy import np, pl
from evalflow.stats.arrays import Floats, Interval, Ints, no_interval
from evalflow.stats.bootstrap import DRAWS, bootstrap_method, percentile_interval, resample
from evalflow.stats.figures import Figure, figure_of, mean_figure
from evalflow.stats.intervals import rule_of_three, wilson

# Records added to each class in the draws, right and wrong each, and the number below which a class is called rare.
_ADDED = 0.25
_RARE = 20

Of = Callable[["Floats"], "Floats"]
"""A figure as a function of cell totals: one value for each row, NaN if undefined."""
_TRUE = "true"
_CELLS = {"true_positives": (1, 1), "false_positives": (0, 1), "false_negatives": (1, 0), "true_negatives": (0, 0)}


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of weighted sums of confusion cells: weights `above` for the numerator, `below` for the denominator.

    For an F score `jaccard` holds the cells that count as trials.
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
    """Clusters of records. Clusters with equal counts share one pattern, which makes resampling much faster.

    `counts` holds each pattern's records by confusion cell, `weights` the number of clusters with the pattern.
    """

    counts: Floats
    weights: Ints
    seed: int
    added: Floats
    """Records added to each cell when independent records are drawn."""
    rarest: int
    """Records of the rarest class."""

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
        """Name of the interval, with a caveat if there are few clusters, or few records of a class."""
        name = "dirichlet" if self.single else bootstrap_method("{}bootstrap", int(self.weights.sum()), clustered=True)
        rare = f"{self.rarest} in the rarest class" if self.rarest < _RARE else ""
        return f"{name}{', ' if ':' in name else ': '}{rare}" if rare else name

    @cached_property
    def draws(self) -> Floats:
        """Cell totals of each resample of clusters, or posterior draw for independent records; shape (draws, cells)."""
        if not self.single:
            return resample(self.counts, self.weights, self.seed)
        cells = self.totals + self.added
        return np.random.default_rng(self.seed).standard_gamma(cells, size=(DRAWS, cells.size))

    def interval(self, of: Of) -> Interval:
        """The interval of a figure over the draws, widened to contain the figure itself."""
        ends = percentile_interval(of(self.draws), self.method, int(self.weights.sum()))
        if ends.low is None or ends.high is None:
            return ends
        value = float(of(self.totals[None, :])[0])
        return replace(ends, low=min(ends.low, value), high=max(ends.high, value))


def figure(ratio: Ratio, clusters: Clusters, details: dict[str, object] | None = None) -> Figure:
    """The ratio over all records, with its interval."""
    totals = clusters.totals
    k, n = float(totals @ ratio.above), float(totals @ ratio.below)
    if not n:
        return figure_of(ratio.name, None, 0, no_interval("nothing to divide by"), details)
    records = int(n if ratio.jaccard is None else totals.sum())
    return figure_of(ratio.name, k / n, records, _interval(ratio, clusters, k, n), details)


def _interval(ratio: Ratio, clusters: Clusters, k: float, n: float) -> Interval:
    trials = float(clusters.weights @ ((clusters.counts @ ratio.trials) > 0))
    if trials == 1 and not clusters.single:
        return no_interval("one cluster")
    proportion = ratio.jaccard is None and clusters.single
    if proportion or k in (0.0, n):
        low, high = (float(bound) for bound in wilson(trials * k / n, trials))
        if ratio.jaccard is not None:
            low, high = _f_of_jaccard(low, ratio.beta, max), _f_of_jaccard(high, ratio.beta, min)
        error = (k / n * (1 - k / n) / (n - 1)) ** 0.5 if 0 < k < n else None
        method = "wilson" if clusters.single else "wilson_clusters"
        note = ratio.jaccard is None and error is None
        units = "cases" if clusters.single else "cases or groups"
        method = rule_of_three(method, trials * k / n, trials, units) if note else method
        return Interval(low, high, error, method)
    return clusters.interval(ratio.of)


def _f_of_jaccard(jaccard: float, beta: float, end: Callable[[float, float], float]) -> float:
    """The smallest (`max`) or largest (`min`) F score with this Jaccard index."""
    weight = 1 + beta**2
    return weight * jaccard / (weight * jaccard + (1 - jaccard) * end(1.0, beta**2))


Ratios = Sequence[Ratio]
"""Precision, recall, F1 and F2 of a class."""
_NAMES = ("precision", "recall", "f1", "f2")
_RECALL, _F1 = 1, 2


def means(per_class: Mapping[str, Ratios]) -> dict[str, Of]:
    """Means over the classes by name, each as a function of cell totals; NaN if undefined."""
    macro = {f"macro_{name}": partial(_macro_mean, per_class, i) for i, name in enumerate(_NAMES[: _F1 + 1])}
    return macro | {f"weighted_{name}": partial(_weighted_mean, per_class, i) for i, name in enumerate(_NAMES)}


def averages(per_class: Mapping[str, Ratios], clusters: Clusters) -> Iterator[Figure]:
    """Yield macro means of precision, recall and F1, then weighted means of these and F2, with their intervals."""
    for name, of in means(per_class).items():
        why = "a class is never predicted" if per_class and name.startswith("macro") else "nothing to divide by"
        yield resampled_figure(name, of, clusters, why)


def resampled_figure(name: str, of: Of, clusters: Clusters, why: str) -> Figure:
    """Return a figure over all records, with its interval from the same function of the draws."""
    records = int(clusters.totals.sum())
    value = float(of(clusters.totals[None, :])[0]) if records else math.nan
    if math.isnan(value):
        return figure_of(name, None, records, no_interval(why))
    if clusters.weights.sum() == 1 and not clusters.single:
        return figure_of(name, value, records, no_interval("one cluster"))
    if clusters.weights.sum() == 1:
        return figure_of(name, value, records, no_interval("one case"))
    return figure_of(name, value, records, clusters.interval(of))


def _macro_mean(per_class: Mapping[str, Ratios], position: int, totals: Floats) -> Floats:
    """The mean over classes for each row of `totals`; NaN if the value of a class that occurs is undefined."""
    values = np.stack([r[position].of(totals) for r in per_class.values()], axis=1)
    defined = ~np.isnan(values)
    # Precision needs every class that occurs or is predicted: the classes whose F1 is defined.
    counted = ~np.isnan(np.stack([r[_F1].of(totals) for r in per_class.values()], axis=1)) if position == 0 else defined
    return np.where(counted, values, 0).sum(axis=1) / counted.sum(axis=1)


def _weighted_mean(per_class: Mapping[str, Ratios], position: int, totals: Floats) -> Floats:
    """The support-weighted mean for each row of `totals`. A true class that is never predicted counts as 0."""
    support = np.stack([totals @ ratios[_RECALL].below for ratios in per_class.values()], axis=1)
    values = np.stack([ratios[position].of(totals) for ratios in per_class.values()], axis=1)
    sums = (support * np.where(np.isnan(values), 0.0, values)).sum(axis=1)
    records: Floats = support.sum(axis=1)
    return np.divide(sums, records, out=np.full(records.shape, np.nan), where=records > 0)


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
        accuracy (with the matrix in its details), then precision, recall, f1 and mcc of the positive label; or the
        macro and weighted means, mcc and each class's `precision[label]`, recall, f1 and f2. `n` is the denominator;
        for a mean over classes, an F score and mcc the number of records.
    """
    labels = sorted({*counts["truth"].to_list(), *counts["prediction"].to_list()})
    records = (pl.col("n") * pl.col("clusters")).sum().alias("n")
    cells = counts.group_by("truth", "prediction").agg(records).sort("truth", "prediction")
    observed = [(truth, prediction) for truth, prediction, _ in cells.iter_rows()]
    # Each class has a cell for right and one for wrong records, observed or not.
    smoothed = [pair for i, label in enumerate(labels) for pair in ((label, label), (label, labels[i - 1]))]
    pairs = list(dict.fromkeys([*observed, *smoothed]))
    added = _ADDED * np.array([float(pair in smoothed and len(labels) > 1) for pair in pairs])
    codes = cells.select("truth", "prediction", cell=pl.int_range(pl.len(), dtype=pl.Int64))
    patterns = cluster_patterns(counts.join(codes, on=["truth", "prediction"]), len(pairs))
    rarest = min((sum(n for truth, _, n in cells.iter_rows() if truth == label) for label in labels), default=0)
    clusters = Clusters(*patterns, seed, added, rarest)
    per_class = {label: _class_ratios(pairs, label, named=positive is None) for label in labels}
    accuracy = Ratio("accuracy", np.array([float(t == p) for t, p in pairs]), np.ones(len(pairs)))
    figures = [figure(accuracy, clusters, _matrix(cells, labels))]
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
    """The classes that occur or are predicted, in alphabetical order."""
    return sorted({label for pair in pairs for label in pair})


def label_text(label: str) -> str:
    """Return a label in canonical JSON for display: strings lose their quotes."""
    value = json.loads(label)
    return value if isinstance(value, str) else label


def cluster_patterns(counts: pl.DataFrame, cells: int) -> tuple[Floats, Ints]:
    """Count clusters with the same amounts in all cells once: return each pattern's amounts and its number of clusters.

    `counts` has the columns cluster, cell (a number below `cells`), n (the amount) and clusters (how many equal
    clusters the row stands for).
    """
    listed = (
        counts.group_by("cluster", "cell")
        .agg(pl.col("n").sum(), pl.col("clusters").first())
        .sort("cluster", "cell")
        .group_by("cluster", maintain_order=True)
        .agg("cell", "n", pl.col("clusters").first())
        .group_by("cell", "n")
        .agg(weight=pl.col("clusters").sum())
        .sort("cell", "n")
    )
    matrix = np.zeros((listed.height, cells))
    for row, (cell, n) in enumerate(zip(listed["cell"], listed["n"], strict=True)):
        matrix[row, cell.to_numpy()] = n.to_numpy()
    return matrix, listed["weight"].cast(pl.Int64).to_numpy()


def _matthews(pairs: Sequence[tuple[str, str]], positive: str | None, clusters: Clusters) -> Figure:
    why = "all records bear, or are given, one class"
    return resampled_figure("mcc", matthews(pairs, positive), clusters, why)


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


def label_figures(counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """Accuracy over all labels together, then `precision[label]`, recall and f1 of each label, in alphabetical order.

    `counts` has one row per record (or group of equal records) and label; every record has all labels. Columns besides
    those of `mean_figure`: record (its number), label, truth and prediction ("true" or "false"), unexpected and unsaid
    (whether the label was absent from the truth, or the prediction, and taken as false). The details of the precision
    are the counts of records in the four cells, and how often the label was absent from the truth and the prediction.
    """
    agree = (pl.col("truth") == pl.col("prediction")).all().cast(pl.Float64)
    whole = pl.col("cluster", "n", "clusters").first()
    records = counts.group_by("record").agg(whole, agree=agree).sort("record")
    figures = [mean_figure("accuracy", records["agree"], records)]
    for (label,), part in counts.sort("label", "record").group_by("label", maintain_order=True):
        _, precision, recall, f1, _ = classification_figures(part, _TRUE, seed)
        precision = replace(precision, details=_counts(part))
        figures += [replace(one, statistic=f"{one.statistic}[{label}]") for one in (precision, recall, f1)]
    return figures


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

"""Differences of two runs in the figures of a metric, such as precision, computed from the scores' values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evalflow.lazy import pl
from evalflow.records import FigureSpec
from evalflow.stats.classification import (
    Of,
    Ratio,
    cluster_patterns,
    label_text,
    labels_of,
    matthews,
    of_class,
    over_classes,
)
from evalflow.stats.figures import BINS, bin_of, calibration_error
from evalflow.stats.paired import Difference, paired_difference
from evalflow.stats.paired_figures import PairedClusters, figure_difference
from evalflow.stats.unpaired import unpaired_difference, unpaired_figure_difference
from evalflow.summary.figures import class_text, decode_values

LOWER_IS_BETTER = ("brier", "ece")  # figures for which lower is better
Found = tuple[str, Difference]
Sides = tuple["pl.DataFrame", "pl.DataFrame"]
_SIDES = ("a", "b")
_SCORES = ("precision", "recall", "f1", "f2")
_TRUE = "true"


@dataclass(frozen=True, slots=True)
class ClassifiedCases:
    """The values of one metric in two runs; if not `paired`, these are two samples of cases.

    `rows` has one row per case, side (a or b) and value, with the weight of the value among the case's scored repeats
    on that side, the cluster, and the columns of `decode_values`; for `per_label` one row for each label.
    """

    spec: FigureSpec
    rows: pl.DataFrame
    paired: bool


def read_values(
    scores: tuple[pl.LazyFrame, pl.LazyFrame], cases: Sides, spec: FigureSpec, *, paired: bool = True
) -> ClassifiedCases:
    """Read the values of both runs' scores."""
    key = ["dataset", "metric", "case_id"]
    counted = [
        side.filter((pl.col("status") == "scored") & pl.col("member_of").is_null())
        .join(own.select(*key, "cluster").lazy(), on=key)
        .group_by("case_id", "value")
        .agg(pl.col("cluster").first(), n=pl.len())
        .with_columns(side=pl.lit(name), weight=pl.col("n") / pl.col("n").sum().over("case_id"))
        for name, side, own in zip(_SIDES, scores, cases, strict=True)
    ]
    rows = decode_values(spec, pl.concat(counted).sort("side", "case_id", "value").collect(engine="streaming"))
    return ClassifiedCases(spec, rows, paired)


def figure_differences(
    values: ClassifiedCases, cases: Sides, seed: int = 0, *, by_class: bool = False
) -> Iterator[Found]:
    """The differences of all figures, except those equal to the mean and those about the judge (such as for pairs).

    Figures that are means over cases are compared like means. On the same cases that includes recall, which is a mean
    over the cases of the class.
    """
    wanted = pl.concat(own.select("case_id", side=pl.lit(name)) for name, own in zip(_SIDES, cases, strict=True))
    rows = values.rows.join(wanted, on=["case_id", "side"], how="semi")
    design = _Design(values.paired, seed)
    if values.spec.kind == "retrieval":
        for name in values.spec.measures:
            yield name, design.of_means(rows, name)
    elif values.spec.per_label:
        for (label,), own in rows.sort("label").group_by("label", maintain_order=True) if by_class else ():
            for name, difference in _Classified(own, design).of_class(_TRUE, _SCORES[:3]):
                yield f"{name}[{label}]", difference
    elif values.spec.kind == "classification":
        yield from _of_classes(rows, values.spec, design, by_class=by_class)


def same_as_mean(spec: FigureSpec) -> tuple[str, ...]:
    """Figures equal to the mean score: in a classification the score is 1 if the whole prediction is right."""
    if spec.kind == "pairwise":
        return ("win_rate",)
    if spec.kind != "classification":
        return ()
    return ("accuracy",) if spec.per_label or spec.positive is not None else ("accuracy", "weighted_recall")


def _of_classes(rows: pl.DataFrame, spec: FigureSpec, design: _Design, *, by_class: bool) -> Iterator[Found]:
    classified = _Classified(rows, design)
    if spec.positive is not None:
        positive = class_text(spec.positive)
        yield from classified.of_class(positive, _SCORES[:3])
        yield "mcc", classified.difference(matthews(classified.pairs, positive))
    else:
        yield from (
            (name, difference) for name, difference in classified.over_classes() if name not in same_as_mean(spec)
        )
    if spec.confidence:
        yield from _confidence_figures(rows, design)
    if by_class and spec.positive is None:
        for label in labels_of(classified.pairs):
            for name, difference in classified.of_class(label, _SCORES):
                yield f"{name}[{label_text(label)}]", difference


class _Classified:
    """Truth and prediction of each case in two runs; the counts are shared by all figures."""

    def __init__(self, rows: pl.DataFrame, design: _Design) -> None:
        cells = rows.select("truth", "prediction").unique().sort("truth", "prediction")
        placed = rows.join(cells.with_row_index("cell"), on=["truth", "prediction"]).with_columns(amount="weight")
        self.rows, self.design = rows, design
        self.pairs: list[tuple[str, str]] = cells.rows()
        self.difference = design.of_cells(placed, cells.height)
        # Whether the truth of each case is the same in both runs.
        self.one_truth = design.paired and rows.select("case_id", "truth").n_unique() == rows["case_id"].n_unique()
        self.hit = pl.col("prediction") == pl.col("truth")

    def of_class(self, label: str, names: Sequence[str]) -> Iterator[Found]:
        """Precision, recall and F scores of one class, in canonical JSON text."""
        ratios = of_class(self.pairs, label)
        for name in names:
            if name == "recall" and self.one_truth:
                own = self.rows.filter(pl.col("truth") == label).with_columns(recall=self.hit.cast(pl.Float64))
                yield name, self.design.of_means(own, name)
            else:
                yield name, self.difference(ratios[name])

    def over_classes(self) -> Iterator[Found]:
        for name, of in over_classes(self.pairs).items():
            yield name, self.difference(of)


def _confidence_figures(rows: pl.DataFrame, design: _Design) -> Iterator[Found]:
    """The Brier score and the calibration error, over the cases with a stated confidence."""
    gap = pl.col("correct").cast(pl.Float64) - pl.col("confidence")
    yield "brier", design.of_means(rows.with_columns(brier=gap**2), "brier")
    stated = design.known(rows, "confidence")
    bins = pl.Series("cell", bin_of(stated["confidence"].to_numpy()))
    gaps = stated.with_columns(bins, amount=gap * pl.col("weight"))
    total = stated.with_columns(cell=pl.lit(BINS, pl.Int64), amount="weight")
    yield "ece", design.of_cells(pl.concat([gaps, total]), BINS + 1)(calibration_error)


@dataclass(frozen=True, slots=True)
class _Design:
    """How figures are compared: paired by case, or as two samples."""

    paired: bool
    seed: int

    def known(self, rows: pl.DataFrame, name: str) -> pl.DataFrame:
        """The rows with a value (if paired, on both sides), with the weights of each case normalised to 1."""
        rows = rows.drop_nulls(name)
        if self.paired:
            rows = rows.filter(pl.col("side").n_unique().over("case_id") == len(_SIDES))
        return rows.with_columns(pl.col("weight") / pl.col("weight").sum().over("case_id", "side"))

    def of_means(self, rows: pl.DataFrame, name: str) -> Difference:
        """Compare the mean of a measure in 0..1; cases that lack it in a run are left out."""
        value = (pl.col(name) * pl.col("weight")).sum()
        means = (
            self.known(rows, name)
            .group_by("case_id", "side")
            .agg(pl.col("cluster").first(), value=value)
            .sort("side", "case_id")
        )
        a, b = (means.filter(pl.col("side") == side) for side in _SIDES)
        clusters = a["cluster"].to_numpy(), b["cluster"].to_numpy()
        if self.paired:
            return paired_difference(a["value"], b["value"], clusters[0], self.seed, bounded=True)
        return unpaired_difference(a["value"], b["value"], *clusters, bounded=True)

    def of_cells(self, rows: pl.DataFrame, cells: int) -> Callable[[Of | Ratio], Difference]:
        """A function that compares a figure over cells, counted once for all figures; arguments as in `_clusters`."""
        cases = rows.select("case_id", "side").unique()
        if self.paired:
            clusters = _clusters(rows, cells, cases["case_id"].n_unique(), self.seed)
            return lambda figure: figure_difference(figure, clusters)
        clusters = _clusters(rows, cells, cases.height, self.seed)
        a, b = (cases.filter(pl.col("side") == side).height for side in _SIDES)
        return lambda figure: unpaired_figure_difference(figure, clusters, (a, b))


def _clusters(rows: pl.DataFrame, cells: int, cases: int, seed: int) -> PairedClusters:
    """Amounts of each cluster in each cell on each side; clusters with equal amounts are one pattern."""
    place = pl.col("cell").cast(pl.Int64) + pl.when(pl.col("side") == _SIDES[1]).then(cells).otherwise(0)
    counts = rows.select("cluster", cell=place, n="amount", clusters=pl.lit(1))
    matrix, weights = cluster_patterns(counts, 2 * cells)
    return PairedClusters(matrix[:, :cells], matrix[:, cells:], weights, cases, seed)

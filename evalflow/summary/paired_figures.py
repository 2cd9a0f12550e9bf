"""The differences of two runs in the figures of a metric: what their scores' values say, case by case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.stats.classification import label_text, labels_of, of_class, over_classes
from evalflow.stats.matthews import matthews
from evalflow.stats.paired import Difference, paired_difference
from evalflow.stats.paired_figures import PairedClusters, figure_difference
from evalflow.stats.reliability import BINS, bin_of, calibration_error
from evalflow.summary.figures import decoded
from evalflow.summary.journal import json_text

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from evalflow.records import FigureSpec

LOWER_IS_BETTER = ("brier", "ece")
"""Figures of which less is better; of all others more is."""
Found = tuple[str, Difference]
_SIDES = ("a", "b")
_SCORES = ("precision", "recall", "f1", "f2")
_TRUE = "true"


@dataclass(frozen=True, slots=True)
class Said:
    """What two runs said of the cases of one metric.

    Attributes:
        spec: Which figures the metric has.
        rows: One row per case, side and value: case_id, cluster, side (a or b), weight (the share of the case's scored
            repeats on that side), and what the value says, as `decoded` gives it; `per_label`, one for each label.
    """

    spec: FigureSpec
    rows: pl.DataFrame


def read_said(sides: tuple[pl.LazyFrame, pl.LazyFrame], cases: pl.DataFrame, spec: FigureSpec) -> Said:
    """Read the values of both runs' scores.

    Args:
        sides: The columns of the two scores.parquet.
        cases: Rows of a pairing, of one dataset and metric.
        spec: Which figures the metric has.
    """
    import polars as pl

    wanted = cases.select("dataset", "metric", "case_id", "cluster").lazy()
    key = ["dataset", "metric", "case_id"]
    counted = [
        side.filter((pl.col("status") == "scored") & pl.col("member_of").is_null())
        .join(wanted, on=key)
        .group_by("case_id", "value")
        .agg(pl.col("cluster").first(), n=pl.len())
        .with_columns(side=pl.lit(name), weight=pl.col("n") / pl.col("n").sum().over("case_id"))
        for name, side in zip(_SIDES, sides, strict=True)
    ]
    return Said(spec, decoded(spec, pl.concat(counted).sort("side", "case_id", "value").collect(engine="streaming")))


def figure_differences(said: Said, cases: pl.DataFrame, seed: int = 0, *, by_class: bool = False) -> Iterator[Found]:
    """The differences of all figures that are not the mean over again, nor about the judge as those of pairs are.

    What is a mean over cases is compared as means are, recall among them: it is a mean over the cases that bear the
    label, which are the same in both runs.

    Args:
        said: Of these cases and perhaps others.
        cases: Rows of a pairing.
        seed: Of what is drawn.
        by_class: Whether each class, or label, has its own figures too.
    """
    rows = said.rows.join(cases.select("case_id"), on="case_id", how="semi")
    if said.spec.kind == "retrieval":
        for name in said.spec.measures:
            yield name, _of_means(rows, name, seed)
    elif said.spec.per_label:
        for (label,), own in rows.sort("label").group_by("label", maintain_order=True) if by_class else ():
            for name, found in _Classified(own, seed).of_class(_TRUE, _SCORES[:3]):
                yield f"{name}[{label}]", found
    elif said.spec.kind == "classification":
        yield from _of_classes(rows, said.spec, seed, by_class=by_class)


def same_as_mean(spec: FigureSpec) -> tuple[str, ...]:
    """Figures that are the mean of the scores: of a classification these are 1 where all of the prediction is right."""
    if spec.kind == "pairwise":
        return ("win_rate",)
    if spec.kind != "classification":
        return ()
    return ("accuracy",) if spec.per_label or spec.positive is not None else ("accuracy", "weighted_recall")


def _of_classes(rows: pl.DataFrame, spec: FigureSpec, seed: int, *, by_class: bool) -> Iterator[Found]:
    classified = _Classified(rows, seed)
    if spec.positive is not None:
        positive = json_text(spec.positive)
        yield from classified.of_class(positive, _SCORES[:3])
        yield "mcc", figure_difference(matthews(classified.pairs, positive), classified.clusters)
    else:
        yield from ((name, found) for name, found in classified.over_classes() if name not in same_as_mean(spec))
    if spec.confidence:
        yield from _sureness(rows, seed)
    if by_class and spec.positive is None:
        for label in labels_of(classified.pairs):
            for name, found in classified.of_class(label, _SCORES):
                yield f"{name}[{label_text(label)}]", found


class _Classified:
    """What two runs said of cases that each have one truth and one prediction, counted once for all figures."""

    def __init__(self, rows: pl.DataFrame, seed: int) -> None:
        import polars as pl

        cells = rows.select("truth", "prediction").unique().sort("truth", "prediction")
        placed = rows.join(cells.with_row_index("cell"), on=["truth", "prediction"]).with_columns(amount="weight")
        self.rows, self.seed = rows, seed
        self.pairs: list[tuple[str, str]] = cells.rows()
        self.clusters = _paired(placed, cells.height, seed)
        # Whether each case has one truth, whichever run is asked.
        self.one_truth = rows.select("case_id", "truth").n_unique() == rows["case_id"].n_unique()
        self.hit = pl.col("prediction") == pl.col("truth")

    def of_class(self, label: str, names: Sequence[str]) -> Iterator[Found]:
        """Precision, recall and F scores of one class, in canonical JSON text."""
        import polars as pl

        ratios = of_class(self.pairs, label)
        for name in names:
            if name == "recall" and self.one_truth:
                own = self.rows.filter(pl.col("truth") == label).with_columns(recall=self.hit.cast(pl.Float64))
                yield name, _of_means(own, name, self.seed)
            else:
                yield name, figure_difference(ratios[name], self.clusters)

    def over_classes(self) -> Iterator[Found]:
        """The means over the classes."""
        for name, of in over_classes(self.pairs).items():
            yield name, figure_difference(of, self.clusters)


def _sureness(rows: pl.DataFrame, seed: int) -> Iterator[Found]:
    """The Brier score and the calibration error, over the cases in which both runs state how sure they are."""
    import polars as pl

    gap = pl.col("correct").cast(pl.Float64) - pl.col("confidence")
    yield "brier", _of_means(rows.with_columns(brier=gap**2), "brier", seed)
    stated = _in_both(rows.drop_nulls("confidence"))
    bins = pl.Series("cell", bin_of(stated["confidence"].to_numpy()))
    gaps = stated.with_columns(bins, amount=gap * pl.col("weight"))
    total = stated.with_columns(cell=pl.lit(BINS, pl.Int64), amount="weight")
    yield "ece", figure_difference(calibration_error, _paired(pl.concat([gaps, total]), BINS + 1, seed))


def _in_both(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the cases that both sides have, each side's weights made to add up to 1 again."""
    import polars as pl

    weight = pl.col("weight") / pl.col("weight").sum().over("case_id", "side")
    return rows.filter(pl.col("side").n_unique().over("case_id") == len(_SIDES)).with_columns(weight)


def _of_means(rows: pl.DataFrame, name: str, seed: int) -> Difference:
    """A measure of 0..1 that each case has, compared as means are; cases in which a run has none are left out."""
    import polars as pl

    known = _in_both(rows.drop_nulls(name))
    value = (pl.col(name) * pl.col("weight")).sum()
    means = known.group_by("case_id", "side").agg(pl.col("cluster").first(), value=value).sort("side", "case_id")
    a, b = (means.filter(pl.col("side") == side) for side in _SIDES)
    return paired_difference(a["value"], b["value"], a["cluster"].to_numpy(), seed, bounded=True)


def _paired(rows: pl.DataFrame, cells: int, seed: int) -> PairedClusters:
    """What each cluster adds to each cell on each side; clusters with equal amounts are one pattern.

    Args:
        rows: Columns: case_id, cluster, side, cell (0 up to `cells`), amount.
        cells: How many there are.
        seed: Of what is drawn.
    """
    import numpy as np
    import polars as pl

    place = pl.col("cell").cast(pl.Int64) + pl.when(pl.col("side") == _SIDES[1]).then(cells).otherwise(0)
    listed = (
        rows.group_by("cluster", place.alias("place"))
        .agg(pl.col("amount").sum())
        .sort("cluster", "place")
        .group_by("cluster", maintain_order=True)
        .agg("place", "amount")
        .group_by("place", "amount")
        .agg(weight=pl.len())
        .sort("place", "amount")
    )
    matrix = np.zeros((listed.height, 2 * cells))
    for row, (at, amount) in enumerate(zip(listed["place"], listed["amount"], strict=True)):
        matrix[row, at.to_numpy()] = amount.to_numpy()
    weights: NDArray[np.int64] = listed["weight"].cast(pl.Int64).to_numpy()
    return PairedClusters(matrix[:, :cells], matrix[:, cells:], weights, rows["case_id"].n_unique(), seed)

"""Figures of labels of which several may hold at once: each is a classification of its own, true or false."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.classification import classification_figures
from evalflow.stats.means import mean_figure

if TYPE_CHECKING:
    import polars as pl

_TRUE = "true"
_CELLS = {"true_positives": (1, 1), "false_positives": (0, 1), "false_negatives": (1, 0), "true_negatives": (0, 0)}


def label_figures(counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """Accuracy over all labels together, then precision, recall and F1 of each.

    Args:
        counts: One row per record (or records alike) and label; every record has all labels. Columns: record (its
            number), cluster, label, truth and prediction ("true" or "false"), unexpected and unsaid (whether the label
            was absent from the truth, or the prediction, and taken as false), n and clusters as `mean_figure` takes
            them.
        seed: Of the bootstrap.

    Returns:
        accuracy: the share of records that agree on every label; then `precision[label]`, `recall[label]` and
        `f1[label]` in the order of the labels' names. The details of the precision are the counts of records: the four
        cells, and how often the label was absent from the truth and from the prediction.
    """
    import polars as pl

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
    import polars as pl

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

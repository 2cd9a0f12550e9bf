"""The answers on which judge and people differ most, for people to read why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalflow.summary.calibration import CalibrationRow


def disagreements(row: CalibrationRow, most: int) -> list[dict[str, Any]]:
    """Labelled answers by how far the judge's score is from people's, the farthest first; none that agree.

    Args:
        row: Of a calibration.
        most: How many at most.

    Returns:
        dataset, metric, target, target_repeat, judge, case_id; score, human (means), difference (score - human), said
        (people's labels on the metric's own scale), reason (the judge's), comment (people's, or null).
    """
    import polars as pl

    labelled = row.answers.filter(pl.col("human").is_not_null())
    apart = labelled.with_columns(difference=pl.col("score") - pl.col("human"))
    far = apart.filter(pl.col("difference").abs() > 1e-9)
    worst = far.sort(pl.col("difference").abs(), descending=True, maintain_order=True).head(most)
    columns = (
        "dataset", "metric", "target", "target_repeat", "judge", "case_id", "score", "human", "difference", "said",
        "reason",
    )  # fmt: skip
    comment = pl.when(pl.col("comment") != "").then("comment").alias("comment")
    return worst.select(*columns, comment).to_dicts()

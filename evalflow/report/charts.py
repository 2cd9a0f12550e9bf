"""The pictures of a run: spread of scores, values by tag, pass rates, intervals, confusion and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.confusion import confusions
from evalflow.report.distribution import distributions
from evalflow.report.forest import forests
from evalflow.report.intervals import interval_pictures
from evalflow.report.reliability import reliabilities
from evalflow.report.wording import without_means_of_figures

if TYPE_CHECKING:
    import polars as pl

    from evalflow.config.schema import MetricConfig
from evalflow.report.pictures import Picture


def charts(
    scores: pl.LazyFrame,
    summary: pl.DataFrame,
    details: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, MetricConfig],
) -> list[Picture]:
    """All pictures of a run, the ones that answer most first.

    Args:
        scores: The columns of scores.parquet.
        summary: The columns of summary.parquet.
        details: Matrices that go with figures, as under `details` in summary.json.
        metrics: What the metrics declare.
    """
    rows = without_means_of_figures(summary.filter(summary["tag"].is_null()).to_dicts())
    return [
        *interval_pictures(rows),
        *forests(summary.to_dicts()),
        *confusions(details, rows),
        *reliabilities(details, rows),
        *distributions(scores, metrics),
    ]

"""What the reports of one run are made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.records import Case
from evalflow.report.join import AnswerOf

if TYPE_CHECKING:
    import polars as pl

    from evalflow.config.schema import MetricConfig
    from evalflow.report.calibration import Calibration


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A finished run, as its reports see it.

    Attributes:
        scores: The columns of scores.parquet, in input order.
        summary: The columns of summary.parquet.
        details: Matrices and lists that go with figures: dataset, target, metric, judge, tag, statistic, and the data.
        gates: metric, statistic, condition, value, passed (None: undecided) and message of each gate.
        max_error_rate: The share of errors that the run allows for.
        manifest: run.json.
        metrics: What the metrics declare, by name.
        categorising: Names of the metrics that put cases into one of several classes.
        cases: The cases that were evaluated, in input order; gone over once.
        answers: Gives the answer to a case, or None.
        calibration: The judges held against people; None where there are no labels.
    """

    scores: pl.LazyFrame
    summary: pl.DataFrame
    details: Sequence[Mapping[str, Any]]
    gates: Sequence[Mapping[str, Any]]
    manifest: Mapping[str, Any]
    metrics: Mapping[str, MetricConfig]
    cases: Iterable[Case]
    answers: AnswerOf
    calibration: Calibration | None = None
    max_error_rate: float = 0.0
    categorising: Collection[str] = ()

"""The numbers to report: a run's summary, corrected by people's labels if these may correct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalflow.summary.rows import SummaryRow, frame_of, rows_of
from evalflow.summary.summarise import Summary

if TYPE_CHECKING:
    from evalflow.stats.prediction import CorrectedMean
    from evalflow.summary.calibration import CalibrationRow

_MEAN = ("value", "ci_low", "ci_high", "ci_method")
_PASS_RATE = ("pass_rate", "pass_rate_low", "pass_rate_high")
RAW = {
    "value": "raw_value",
    "ci_low": "raw_low",
    "ci_high": "raw_high",
    "ci_method": "raw_method",
    "pass_rate": "raw_pass_rate",
    "pass_rate_low": "raw_pass_rate_low",
    "pass_rate_high": "raw_pass_rate_high",
}
"""The columns that labels can correct, with the columns of the judge's own values (null if nothing is corrected)."""


def with_labels(summary: Summary, calibration: Sequence[CalibrationRow], refused: str = "") -> Summary:
    """The summary of a run with means and pass rates corrected by people's labels.

    `value`, `std_error`, `ci_low`, `ci_high` and `ci_method`, `pass_rate`, `pass_rate_low` and `pass_rate_high` become
    the corrected ones, and the columns of RAW keep the judge's; `n_labels` is the number of labelled answers,
    `n_missing_labels` that of the answers that people were asked about and gave no label (null for a tag), and
    `uncorrected` says why they correct nothing (`CalibrationRow.uncorrected`). All else is from the judge's scores:
    counts, spread, median, bounds, and statistics in rows of their own. Without labels nothing changes. `refused` is a
    reason why labels correct nothing in this run.
    """
    every = [row for one in calibration for row in (one, *one.tags)]
    by_slice = {(row.dataset, row.target, row.metric, row.judge, row.tag): row for row in every}
    if not by_slice:
        return summary
    rows = rows_of(summary.frame)
    sizes = {row.series: row.n for row in rows if row.statistic == "mean" and row.tag is None}
    for place, row in enumerate(rows):
        whole = by_slice.get((*row.series, None))
        if row.statistic == "mean" and whole is not None:
            of_all = row.n == sizes[row.series]  # a tag of all answers has no row of its own
            calibrated = by_slice.get((*row.series, None if of_all else row.tag))
            rows[place] = replace(row, **_corrections(row, calibrated, whole, refused))
    return Summary(frame_of(rows), summary.details)


def is_corrected(row: SummaryRow, column: str) -> bool:
    """Whether labels correct this column of a row of the summary."""
    return column in RAW and (row.raw_pass_rate if column in _PASS_RATE else row.raw_value) is not None


def judge_alone(row: SummaryRow) -> SummaryRow:
    """A row of the summary with the judge's own values in the columns that labels correct."""
    return replace(row, **{name: getattr(row, raw) for name, raw in RAW.items() if is_corrected(row, name)})


def _corrections(row: SummaryRow, own: CalibrationRow | None, whole: CalibrationRow, refused: str) -> dict[str, Any]:
    """The columns of a row that labels change.

    If labels are not a random sample of all answers, they correct no tag either.
    """
    from evalflow.stats.prediction import few_labels

    known: dict[str, Any] = {"n_labels": own.corrected.n if own else 0}
    if own is not None and own is whole:
        known["n_missing_labels"] = own.missing.n if own.missing else 0
    if why := refused or whole.unusable or (own.uncorrected if own else few_labels(0)):
        return {**known, "uncorrected": why}
    assert own is not None  # else there was a reason
    corrected = {**_of(row, _MEAN, own.corrected), **_of(row, _PASS_RATE, own.pass_rate)}
    return {**known, **corrected, "std_error": own.corrected.std_error}


def _of(row: SummaryRow, names: Sequence[str], means: CorrectedMean | None) -> dict[str, Any]:
    if means is None or means.estimate is None:
        return {}
    raw = {RAW[name]: getattr(row, name) for name in names}
    return raw | dict(zip(names, (means.estimate, means.low, means.high, means.method), strict=False))

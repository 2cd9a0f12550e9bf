"""Certificates are issued where a judge was held against enough labels, drawn at random as far as can be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.calibration.certificates import Certificate, keep, key_of
from evalflow.report.calibration import Calibration, alt_of, value_of
from evalflow.report.judges import verdict_of
from evalflow.run.folder import RunFolder
from evalflow.run.manifest import now
from evalflow.stats.prediction import MIN_LABELS
from evalflow.summary.conduct import consistency, replies

if TYPE_CHECKING:
    import polars as pl

    from evalflow.summary import CalibrationRow


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, or why there is none.

    Attributes:
        metric, judge: Of whom.
        path: The file; None where there is no certificate.
        why: Why not; where there is one, how the judge did.
    """

    metric: str
    judge: str
    path: Path | None
    why: str


def certify(found: Calibration, scores: pl.LazyFrame, folder: RunFolder) -> list[Issued]:
    """Issue a certificate for each judge, metric and dataset of a calibration; of several targets, on most labels.

    Args:
        found: The calibration.
        scores: The columns of scores.parquet.
        folder: The run's.

    Raises:
        UserError: The working directory cannot be written.
    """
    best: dict[tuple[str, str, str], CalibrationRow] = {}
    for row in found.rows:
        if row.judge is not None:
            key = (row.dataset, row.metric, row.judge)
            best[key] = max(best.get(key, row), row, key=lambda one: one.corrected.n)
    return [_issue(row, judge, found.manifest, scores, folder) for (_, _, judge), row in best.items()]


def _issue(
    row: CalibrationRow, judge: str, manifest: Mapping[str, Any], scores: pl.LazyFrame, folder: RunFolder
) -> Issued:
    import polars as pl

    why = _refused(row)
    if why:
        return Issued(row.metric, judge, None, why)
    c = row.corrected
    own = scores.filter(
        (pl.col("dataset") == row.dataset) & (pl.col("metric") == row.metric) & (pl.col("judge") == judge)
        & pl.col("member_of").is_null()
    )  # fmt: skip
    certificate = Certificate(
        judge=judge, metric=row.metric, dataset=row.dataset, key=key_of(manifest, row.metric, folder),
        run_id=manifest["run_id"], issued_at=now(), n_labels=_scored(row), n_people=row.people[0],
        judge_mean=_mean(row, "score"), human_mean=c.human_mean,
        bias={"value": c.bias, "ci_low": c.bias_low, "ci_high": c.bias_high},
        agreement={name: value_of(one) for name, one in row.agreement.items()},
        alt_test=_alt_test(row),
        consistency=consistency(own), replies=replies(own),
    )  # fmt: skip
    return Issued(row.metric, judge, keep(certificate), verdict_of(row.metric, asdict(certificate)))


def _alt_test(row: CalibrationRow) -> dict[str, Any] | None:
    tested = row.raters is not None and row.raters.alt_test.passes is not None
    return alt_of(row.raters.alt_test) if row.raters and tested else None


def _refused(row: CalibrationRow) -> str:
    """Why labels say too little of the judge; empty where they say enough."""
    n = _scored(row)
    if n < MIN_LABELS:
        return f"{n} labelled answer{'' if n == 1 else 's'}, and it takes {MIN_LABELS}"
    if row.constant[0]:
        return "all labels say the same, so that nothing shows whether judge and people agree"
    if row.chosen:
        return "the labelled answers can hardly have been drawn at random"
    if row.weighted:
        return "the labels carry weights, and nothing shows whether such labels were drawn at random"
    return ""


def _scored(row: CalibrationRow) -> int:
    """Labelled answers that the judge scored."""
    return row.answers["human"].count()


def _mean(row: CalibrationRow, column: str) -> float | None:
    labelled: Sequence[Any] = row.answers.filter(row.answers["human"].is_not_null())[column].to_list()
    return sum(labelled) / len(labelled) if labelled else None

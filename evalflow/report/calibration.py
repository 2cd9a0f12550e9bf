"""A calibration as JSON and as a page: judge, people, and the judge corrected by people, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.report.calibration_pictures import calibration_pictures
from evalflow.report.calibration_words import in_words, measured, shown_measures, warnings_of
from evalflow.report.judges import judge_lines
from evalflow.report.page import write_page

if TYPE_CHECKING:
    from evalflow.stats.agreement import Agreement
    from evalflow.stats.alt_test import AltTest
    from evalflow.summary import CalibrationRow
    from evalflow.summary.raters import Raters

_SHOWN = 10
"""Disagreements that are not folded away."""
_STYLES = ("page.css", "tables.css", "sweep.css")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A run's judges, held against people.

    Attributes:
        manifest: run.json.
        rows: One for each dataset, metric, target and judge that has labels.
        source: Where the labels are from.
        left_out: How many labels do not count, by reason.
        notes: What a reader should know of the labels.
        rests_on: Which of the labels that there are were used.
        disagreements: The answers on which judge and people differ most, the widest first.
    """

    manifest: Mapping[str, Any]
    rows: Sequence[CalibrationRow]
    source: str
    left_out: Mapping[str, int]
    notes: Sequence[str]
    rests_on: str
    disagreements: Sequence[Mapping[str, Any]]

    @property
    def who(self) -> str:
        """Who gave the scores, in a word: judges, if any; else metrics."""
        return next((row.who for row in self.rows if row.judge), "metric")

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "run_id": self.manifest["run_id"],
            "labels": self.source,
            "left_out": dict(self.left_out),
            "rows": [{**document_of(row), "rests_on": self.rests_on} for row in self.rows],
            "disagreements": [dict(one) for one in self.disagreements],
            "notes": list(self.notes),
        }


def document_of(row: CalibrationRow) -> dict[str, Any]:
    """A row as JSON; the rows of its tags stand under `tags`."""
    found = row.corrected
    document: dict[str, Any] = {
        "dataset": row.dataset, "metric": row.metric, "target": row.target, "judge": row.judge, "tag": row.tag,
        "n_labels": found.n, "n_unlabelled": found.n_unlabelled, "n_unscored": row.unscored,
        "n_failed": row.failed[0], "n_failed_labelled": row.failed[1],
        "n_people": row.people[0], "weighted": row.weighted,
        "judge_mean": found.judge_mean, "judge_ci_low": row.judged.low, "judge_ci_high": row.judged.high,
        "human_mean": found.human_mean, "human_ci_low": found.human_low, "human_ci_high": found.human_high,
        "bias": found.bias, "bias_ci_low": found.bias_low, "bias_ci_high": found.bias_high,
        "agreement": {name: value_of(one) for name, one in row.agreement.items()},
        "people_agreement": None if row.raters is None else _raters(row.raters),
        "corrected": {
            "estimate": found.estimate, "ci_low": found.low, "ci_high": found.high, "std_error": found.std_error,
            "method": found.method, "lambda": found.lambda_,
        },
        "labels_saved": found.labels_saved,
        "rogan_gladen": None,
        "at_random": row.at_random,
        "warnings": warnings_of(row),
    }  # fmt: skip
    if row.by_class is not None:
        other = row.by_class
        document["rogan_gladen"] = {
            "estimate": other.estimate, "ci_low": other.low, "ci_high": other.high, "method": other.method,
        }  # fmt: skip
    return document if row.tag else document | {"tags": [document_of(one) for one in row.tags]}


def _raters(found: Raters) -> dict[str, Any]:
    return {
        "krippendorff_alpha": value_of(found.alpha), "krippendorff_alpha_ordinal": value_of(found.alpha_ordinal),
        "fleiss_kappa": found.fleiss_kappa, "gwet_ac1": found.gwet_ac1,
        "reliability": found.reliability, "ceiling": found.ceiling,
        "alt_test": alt_of(found.alt_test),
    }  # fmt: skip


def alt_of(test: AltTest) -> dict[str, Any]:
    """The test whether the judge may take a person's place as JSON; where passes is null, `method` says why."""
    return {
        "passes": test.passes, "winning_rate": test.winning_rate, "advantage": test.advantage, "method": test.method,
    }  # fmt: skip


def value_of(measure: Agreement) -> dict[str, Any]:
    """A measure of agreement as JSON; where its value or interval is null, `method` says why."""
    return {"value": measure.value, "ci_low": measure.low, "ci_high": measure.high, "method": measure.method}


def write_calibration(path: Path, found: Calibration) -> None:
    """Write one self-contained page; replaces the one before."""
    manifest = found.manifest
    context = {
        "title": f"The {found.who}, held against people",
        "found": found,
        "judges": judge_lines(manifest),
        "facts": [("Run", manifest["run_id"]), ("Labels", f"{found.source}: {found.rests_on}")],
        "blocks": [_block(row) for row in found.rows],
        "shown": _SHOWN,
    }
    write_page(path, "calibration.html.jinja", context, styles=_STYLES, scripts=())


def _block(row: CalibrationRow) -> dict[str, Any]:
    """A row as the page shows it; measures that are not known stand together by the reason."""
    measures = shown_measures(row)
    unknown: dict[str, list[str]] = {}
    for _, words, one in measures:
        if one.value is None:
            unknown.setdefault(one.method.removeprefix("none: "), []).append(words)
    return {
        "row": row,
        "c": row.corrected,
        "words": in_words(row),
        "warnings": warnings_of(row),
        "measures": [(words, one, measured(name)) for name, words, one in measures if one.value is not None],
        "unknown": list(unknown.items()),
        "pictures": calibration_pictures(row),
        "tags": [one for one in row.tags if one.corrected.estimate is not None],
        "few": [one for one in row.tags if one.corrected.estimate is None],
    }

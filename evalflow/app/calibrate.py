"""The command `calibrate`: a run's judges held against people, and their means corrected by what people say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from evalflow.app.answered import answered_rows
from evalflow.app.bound_labels import RunLabels, bound_labels
from evalflow.app.comparable import Scored, open_scored
from evalflow.app.labelling import write_sample
from evalflow.app.locate import find_run
from evalflow.app.saved import Saved, load
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.calibration import Calibration, write_calibration
from evalflow.report.calibration_console import print_calibration
from evalflow.report.join import as_answered
from evalflow.run.folder import RunFolder
from evalflow.summary import CalibrationRow, calibrate_scores, disagreements

_LISTED = 25
PAGE = "calibration.html"


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, print, and write calibration.html into the run's folder; or draw answers to label.

    Args:
        options: run, labels, json; or run, sample, out, seed, stratify, metric.
        console: Where to print.

    Returns:
        0, or 2 where there are too few labels for any estimate.

    Raises:
        UserError: There is no such run, there are no labels, or some are wrong.
    """
    if options.sample is not None:
        if options.labels or options.json:
            hint = "draw answers first, and calibrate when they are labelled"
            raise UserError(Problem("--sample goes with neither --labels nor --json", "command line", hint))
        return write_sample(options, console)
    folder = find_run(options.run)
    found = calibration_of(folder, options.labels)
    page = folder.path / PAGE
    write_calibration(page, found)
    if options.json:
        document = found.document() | {"page": str(page)}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        print_calibration(console, found)
        console.print(f"page   {shown(page)}", soft_wrap=True, markup=False)
    return 0 if any(row.corrected.estimate is not None for row in found.rows) else UserError.exit_code


def calibration_of(folder: RunFolder, labels: str | None) -> Calibration:
    """Hold a run's judges against people.

    Args:
        folder: The run's.
        labels: A labels file; None for what the data bring along.

    Raises:
        UserError: There are no labels, or some are wrong; with every problem that was found.
    """
    run, saved = open_scored(folder, folder.path.name), load(folder)
    people = bound_labels(saved, run, labels)
    lower = {name for name, one in run.traits.items() if not one.higher_is_better}
    rows = calibrate_scores(run.scores(), people.frame, lower, seed=run.manifest["config"]["seed"])
    if not rows:
        hint = "only scored answers can be calibrated; look at them: python -m evalflow cases"
        raise UserError(Problem("none of the labelled answers was scored", people.source, hint))
    return Calibration(
        manifest=run.manifest,
        rows=rows,
        source=people.source,
        left_out=_counts(people),
        notes=list(_notes(people, rows)),
        disagreements=_with_texts(saved, run, rows),
    )


def _counts(people: RunLabels) -> dict[str, int]:
    left = people.left
    return {
        "stale": left.stale,
        "without_hash": left.unbound,
        "not_in_run": left.absent,
        "other_metrics": sum(left.other_metrics.values()),
        "blank": people.blank,
    }


def _notes(people: RunLabels, rows: Sequence[CalibrationRow]) -> Iterator[str]:
    left = people.left
    if left.stale:
        yield (
            f"{left.stale} labels are of other answers than the ones scored here, and are left out (the first: "
            f"{left.first_stale}); label these answers: python -m evalflow calibrate --sample"
        )
    if left.unbound:
        yield f"{left.unbound} labels have no answer_hash, so nobody knows which of the generated answers they are of"
    if left.absent:
        yield f"{left.absent} labels are of cases that the run's limit or sample left out"
    for metric, n in left.other_metrics.items():
        yield f"{n} labels are of {metric}, which this run did not score"
    if people.blank:
        yield f"{people.blank} rows have no value yet, and do not count"
    if any(row.people[1] > row.corrected.n for row in rows):
        yield "several people labelled some answers: the mean of their labels counts"
    if any(row.weighted for row in rows):
        yield "labels carry weights, so each stands for as many answers as it was drawn for"


def _with_texts(saved: Saved, run: Scored, rows: Sequence[CalibrationRow]) -> list[dict[str, Any]]:
    """The worst disagreements of all rows, with question and answer."""
    listed = [one for row in rows for one in disagreements(row, _LISTED)]
    listed = sorted(listed, key=lambda one: -abs(one["difference"]))
    wanted = {(one["dataset"], one["case_id"]) for one in listed}
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for row in answered_rows(saved, run.scores(), wanted) if wanted else ():
        case = as_answered(row.case, row.answer)
        texts[case.dataset, case.id, row.target, row.target_repeat] = case.question or "", case.answer or ""
    for one in listed:
        key = one["dataset"], one["case_id"], one["target"], one["target_repeat"]
        one["question"], one["answer"] = texts.get(key, ("", ""))
    return listed

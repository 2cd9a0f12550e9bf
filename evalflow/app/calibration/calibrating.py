"""A run's judges held against people's labels, kept in the run's folder, and derived again from there."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.app.calibration.bound_labels import RunLabels, labels_of_data
from evalflow.app.comparison.comparable import Scored
from evalflow.app.results.answered import answered_rows, without_unanswered
from evalflow.app.results.saved import Saved
from evalflow.errors import Problem, UserError
from evalflow.files import write_atomically
from evalflow.report.calibration import Calibration
from evalflow.report.join import as_answered
from evalflow.run.folder import RunFolder
from evalflow.summary import calibrate_scores, disagreements, label_frame

if TYPE_CHECKING:
    from evalflow.summary import CalibrationRow

log = logging.getLogger("evalflow")
_LISTED = 25


def calibration_of(saved: Saved, run: Scored, people: RunLabels) -> Calibration | None:
    """Hold a run's judges against people; None where none of the labelled answers was scored.

    Args:
        saved: The run.
        run: Its scores.
        people: Labels of its answers.
    """
    scores = without_unanswered(saved, run.scores())
    rows = calibrate_scores(scores, people.frame, run.traits, seed=run.manifest["config"]["seed"])
    if not rows:
        return None
    return Calibration(
        manifest=run.manifest,
        rows=rows,
        source=people.source,
        left_out=people.left_out,
        notes=[*people.notes, *_notes(rows)],
        rests_on=people.rests_on,
        disagreements=_with_texts(saved, run, rows),
    )


def keep_calibration(folder: RunFolder, found: Calibration, people: RunLabels) -> None:
    """Write calibration.json: what was found, and under `given` the labels, from which it is derived again."""
    given = {"notes": list(people.notes), "rests_on": people.rests_on, "labels": people.frame.to_dicts()}
    text = json.dumps({**found.document(), "given": given}, indent=1, ensure_ascii=False)
    write_atomically(folder.calibration, text + "\n")


def standing_calibration(saved: Saved) -> Calibration | None:
    """The calibration of a run by the labels that it was calibrated with before, else by those of its data.

    What is found is kept in the run's folder. It takes no time where there are no labels.

    Returns:
        None where there are no labels of its answers.
    """
    run = Scored(saved.folder.path.name, saved.folder, saved.manifest)
    people = kept_labels(saved.folder)
    if (
        people is None
        and saved.manifest["status"] == "done"
        and any(facts["labelled"] for facts in saved.manifest["datasets"].values())
    ):
        people = _of_data(saved, run)
    found = calibration_of(saved, run, people) if people else None
    if found is not None and people is not None:
        keep_calibration(saved.folder, found, people)
    return found


def kept_labels(folder: RunFolder) -> RunLabels | None:
    """The labels that a run was calibrated with; None where it was not.

    Raises:
        UserError: calibration.json is not what was written there.
    """
    if not folder.calibration.is_file():
        return None
    try:
        kept: dict[str, Any] = json.loads(folder.calibration.read_text(encoding="utf-8"))
        given = kept["given"]
        labels = label_frame(given["labels"])
        return RunLabels(labels, kept["labels"], kept["left_out"], given["notes"], given["rests_on"])
    except (ValueError, KeyError, TypeError):
        hint = "remove it, and calibrate again"
        raise UserError(Problem("this is no calibration", str(folder.calibration), hint)) from None


def _of_data(saved: Saved, run: Scored) -> RunLabels | None:
    try:
        return labels_of_data(saved, run)
    except UserError as error:
        what = "the data's own labels are not used, since %d of them are wrong, such as: %s (all: evalflow calibrate)"
        log.warning(what, len(error.problems), error.problems[0])
        return None


def _notes(rows: Sequence[CalibrationRow]) -> Iterator[str]:
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

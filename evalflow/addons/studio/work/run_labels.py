"""The labels of people that a run is calibrated with, and other runs into which they follow."""

from __future__ import annotations

import logging
from collections.abc import Callable

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.comparing import scored_of, scored_runs, share_scores
from evalflow.addons.studio.work.run_files import change_files
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.kept_labels import RunLabels
from evalflow.app.core.labels import labels_of_run
from evalflow.app.core.rederive import Calibrated, calibrate_run, rewrite
from evalflow.app.core.saved import SavedRun
from evalflow.errors import EvalflowError, Problem, UserError

log = logging.getLogger("evalflow")


@requires("edit")
def apply_labels(space: Workspace, run_id: str, labels: Callable[[SavedRun], RunLabels]) -> Calibrated:
    """Calibrate a run with labels, as the command `calibrate` does, with its certificates, gates and reports.

    `labels` is called once, while nothing else works on the run's files. UserError if none of the labelled answers has
    a score; TakenError while the run has not ended, or something else works on it.
    """
    done: list[Calibrated] = []

    def change(saved: SavedRun) -> None:
        found = calibrate_run(saved.folder, labels(saved))
        if found is None:
            hint = "look at the run's errors first: only scored answers can be calibrated"
            raise UserError(Problem("none of the labelled answers was scored", "labels", hint))
        done.append(found)

    change_files(space, run_id, ["calibration"], None, change)
    return done[0]


@requires("edit")
def follow_equal_answers(space: Workspace, run_id: str) -> list[str]:
    """Derive the results of the runs again into which labels of this run follow by now; gives their ids.

    A run that is active is calibrated when it ends, and one that cannot be read is left as it is.
    """
    labelled, found = get_run(space, run_id), list[str]()
    for one in scored_runs(space):
        if one.run_id == run_id or not share_scores(labelled, one):
            continue
        try:
            labels = labels_of_run(scored_of(one))
            if labels is not None and any(other.run == run_id for other in labels.followed):
                change_files(space, one.run_id, ["calibration"], None, lambda saved: rewrite(saved.folder))
                found.append(one.run_id)
        except EvalflowError as error:
            log.warning("labels of %s do not follow into %s: %s", run_id, one.run_id, error)
    return found

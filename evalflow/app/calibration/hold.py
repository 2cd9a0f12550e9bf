"""A run's judges held against labels, with all that follows: calibration, certificates, and the reports again."""

from __future__ import annotations

from dataclasses import replace

from evalflow.app.calibration.bound_labels import RunLabels
from evalflow.app.calibration.calibrating import calibration_of, keep_calibration
from evalflow.app.calibration.certify import Issued, certify
from evalflow.app.comparison.comparable import open_scored
from evalflow.app.report import rewrite
from evalflow.app.results.saved import load
from evalflow.report.calibration import Calibration, write_calibration
from evalflow.run.folder import RunFolder


def hold_against(folder: RunFolder, people: RunLabels) -> tuple[Calibration, list[Issued]] | None:
    """Hold a run's judges against people, keep what comes of it, and write the run's reports again with it.

    Args:
        folder: The run's.
        people: Labels of its answers.

    Returns:
        None where none of the labelled answers was scored.
    """
    run, saved = open_scored(folder, folder.path.name), load(folder)
    found = calibration_of(saved, run, people)
    if found is None:
        return None
    keep_calibration(folder, found, people)
    issued = certify(found, run.scores(), folder)
    found = replace(found, manifest=rewrite(folder))
    write_calibration(folder.calibration_page, found)
    return found, issued

"""The command `calibrate`: a run's judges held against people, and their means corrected by what people say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from evalflow.app.bound_labels import bound_labels
from evalflow.app.calibrating import calibration_of, keep_calibration
from evalflow.app.certify import Issued, certify
from evalflow.app.comparable import open_scored
from evalflow.app.labelling import write_sample
from evalflow.app.locate import find_run
from evalflow.app.report import rewrite
from evalflow.app.saved import load
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.calibration import Calibration, write_calibration
from evalflow.report.calibration_console import print_calibration
from evalflow.report.terminal import literal
from evalflow.run.folder import RunFolder


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, issue certificates, write the run's reports again, and print; or draw answers to label.

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
    found, issued = calibrate_run(folder, options.labels)
    if options.json:
        certificates = [str(one.path) for one in issued if one.path]
        document = found.document() | {"page": str(folder.calibration_page), "certificates": certificates}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        print_calibration(console, found)
        _tell(console, folder, issued)
    return 0 if any(row.corrected.estimate is not None for row in found.rows) else UserError.exit_code


def calibrate_run(folder: RunFolder, labels: str | None) -> tuple[Calibration, list[Issued]]:
    """Hold a run's judges against people, keep what comes of it, and write the run's reports again with it.

    Args:
        folder: The run's.
        labels: A labels file; None for what the data bring along.

    Raises:
        UserError: There are no labels, or some are wrong; with every problem that was found.
    """
    run, saved = open_scored(folder, folder.path.name), load(folder)
    people = bound_labels(saved, run, labels)
    found = calibration_of(saved, run, people)
    if found is None:
        hint = "only scored answers can be calibrated; look at them: python -m evalflow cases"
        raise UserError(Problem("none of the labelled answers was scored", people.source, hint))
    keep_calibration(folder, found, people)
    issued = certify(found, run.scores(), folder)
    found = replace(found, manifest=rewrite(folder))
    write_calibration(folder.calibration_page, found)
    return found, issued


def _tell(console: Console, folder: RunFolder, issued: Sequence[Issued]) -> None:
    """The certificates, or why there are none; and where to read on."""
    console.print()
    for one in issued:
        if one.path is None:
            console.print(literal(f"no certificate of {one.judge} for {one.metric}: {one.why}", style="yellow"))
        else:
            words = f"{one.judge} is now calibrated for {one.metric}; later runs with the same judge, metric and "
            console.print(literal(f"{words}prompts show it (list certificates)"))
            console.print(literal(f"certificate  {shown(one.path)}"), soft_wrap=True)
    console.print(literal(f"report       {shown(folder.report)}"), soft_wrap=True)
    console.print(literal(f"page         {shown(folder.calibration_page)}"), soft_wrap=True)

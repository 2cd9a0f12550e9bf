"""The command `calibrate`: a run's judges held against people, and their means corrected by what people say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from evalflow.app.calibration.bound_labels import bound_labels
from evalflow.app.calibration.certify import Issued
from evalflow.app.calibration.choosing import calibrate_sweep
from evalflow.app.calibration.hold import hold_against
from evalflow.app.calibration.labelling import write_sample
from evalflow.app.calibration.sweep_labels import other_runs
from evalflow.app.comparison.comparable import open_scored
from evalflow.app.locate import find_folder, jobs_of
from evalflow.app.results.saved import load
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError, command
from evalflow.report.calibrated import print_corrected
from evalflow.report.calibration_console import print_calibration
from evalflow.report.choice import print_choice
from evalflow.report.terminal import literal
from evalflow.run.folder import RunFolder


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, issue certificates, write the run's reports again, and print; or draw answers to label.

    Args:
        options: run (or sweep), labels, no_split, json; or run, sample, out, seed, stratify, metric.
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
    path = find_folder(options.run)
    jobs = jobs_of(path)
    if jobs is not None:
        return _of_sweep(path, jobs, options, console)
    if options.no_split:
        hint = "leave it out: one run chooses no judge, so all its labels correct"
        raise UserError(Problem("--no-split is for a sweep over judges", "command line", hint))
    folder = RunFolder(path)
    run = open_scored(folder, path.name)
    people = bound_labels(load(folder), run, options.labels, other_runs(path))
    held = hold_against(folder, people)
    if held is None:
        hint = f"only scored answers can be calibrated; look at them: {command('cases', folder.path)}"
        raise UserError(Problem("none of the labelled answers was scored", people.source, hint))
    found, issued = held
    if options.json:
        certificates = [str(one.path) for one in issued if one.path]
        document = found.document() | {"page": str(folder.calibration_page), "certificates": certificates}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        print_calibration(console, found)
        _tell(console, folder, issued)
    return 0 if any(row.corrected.estimate is not None for row in found.rows) else UserError.exit_code


def _of_sweep(path: Path, jobs: Sequence[Path], options: argparse.Namespace, console: Console) -> int:
    chosen = calibrate_sweep(path, jobs, options.labels, split=not options.no_split)
    page = path / "report.html"
    if options.json:
        document = chosen.document() | {"page": str(page)}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        for name, found in chosen.runs.items():
            console.print(literal(f"{name}, by {found.source} ({found.rests_on})", style="dim"), soft_wrap=True)
            for note in found.notes:
                console.print(literal(f"note: {note}", style="yellow"), soft_wrap=True)
            print_corrected(console, found)
        print_choice(console, chosen.boards, split=chosen.split)
        for note in chosen.notes:
            console.print(literal(f"note: {note}", style="yellow"), soft_wrap=True)
        for one in dict.fromkeys(one for issued in chosen.issued.values() for one in issued):
            _print_issued(console, one)
        console.print(literal(f"report       {shown(page)}"), soft_wrap=True)
    known = any(row.corrected.estimate is not None for found in chosen.runs.values() for row in found.rows)
    return 0 if known or chosen.boards else UserError.exit_code


def _print_issued(console: Console, one: Issued) -> None:
    if one.path is None:
        console.print(literal(f"no certificate of {one.judge} for {one.metric}: {one.why}", style="yellow"))
        return
    words = "later runs with the same judge, metric and prompts show it (list certificates)"
    console.print(literal(f"{one.judge}: {one.why}; {words}"))
    console.print(literal(f"certificate  {shown(one.path)}"), soft_wrap=True)


def _tell(console: Console, folder: RunFolder, issued: Sequence[Issued]) -> None:
    """The certificates, or why there are none; and where to read on."""
    console.print()
    for one in issued:
        _print_issued(console, one)
    console.print(literal(f"report       {shown(folder.report)}"), soft_wrap=True)
    console.print(literal(f"page         {shown(folder.calibration_page)}"), soft_wrap=True)

"""The command `calibrate`: compare a run's judges with people's labels."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from evalflow.app.core.calibration import (
    CertificateResult,
    half_of,
    rank_judges,
    save_ranking,
)
from evalflow.app.core.labels import bound_labels, finished_runs, labels_of_sweep, other_runs, write_sample
from evalflow.app.core.rederive import calibrate_run
from evalflow.app.core.saved import find_folder, jobs_of, open_scored
from evalflow.app.core.sweep import write_sweep
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.paths import shown
from evalflow.report.calibration import Calibration, print_calibration, print_corrected
from evalflow.report.sweep import print_choice
from evalflow.report.wording import literal, print_json, print_lines

OTHER_HALF = "the half of the labels that did not choose the judge"


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, issue certificates, rewrite the reports of the run or sweep, and print; or sample answers to label.

    Returns 0, or 2 if there are too few labels for any estimate. UserError if there is no such run or no label, or some
    are invalid.
    """
    if options.sample is not None:
        if options.labels or options.json:
            hint = "draw answers first, and calibrate when they are labelled"
            raise UserError(Problem("--sample goes with neither --labels nor --json", "command line", hint))
        return write_sample(options, console)
    path = find_folder(options.run)
    jobs = jobs_of(path)
    if jobs is not None:
        return _calibrate_sweep(path, jobs, options, console)
    if options.no_split:
        hint = "leave it out: one run chooses no judge, so all its labels correct"
        raise UserError(Problem("--no-split is for a sweep over judges", "command line", hint))
    folder = RunFolder(path)
    people = bound_labels(open_scored(folder), options.labels, other_runs(path))
    calibrated = calibrate_run(folder, people)
    if calibrated is None:
        raise _nothing_scored(folder.path, people.source)
    found, results, gates = calibrated
    if options.json:
        certificates = [str(one.path) for one in results if one.path]
        document = found.document() | {
            "gates": gates,
            "page": str(folder.calibration_page),
            "certificates": certificates,
        }
        print_json(console, document)
    else:
        print_calibration(console, found)
        console.print()
        print_lines(console, gates, "bold")
        _print_certificates(console, results)
        console.print(literal(f"report       {shown(folder.report)}"), soft_wrap=True)
        console.print(literal(f"page         {shown(folder.calibration_page)}"), soft_wrap=True)
    return 0 if _is_estimated([found]) else UserError.exit_code


def _calibrate_sweep(folder: Path, jobs: Sequence[Path], options: argparse.Namespace, console: Console) -> int:
    """Calibrate every run of a sweep, rank its judges, and rewrite its reports.

    Half of the labels choose the judge, and the others correct its mean. All correct it with `no_split`, or if no two
    runs have different judges.
    """
    runs, notes = finished_runs(folder, jobs)
    people = labels_of_sweep(runs, options.labels)
    source = next(iter(people.values())).source
    ranking = rank_judges(runs, {name: one.frame for name, one in people.items()}, split=not options.no_split)
    split = bool(ranking.halves)
    calibrations: dict[str, Calibration] = {}
    results: list[CertificateResult] = []
    for name, run in runs.items():
        own = people[name]
        if split:
            rest = half_of(own.frame, ranking.halves[name], choosing=False)
            own = replace(own, frame=rest, rests_on=OTHER_HALF)
        calibrated = calibrate_run(run.folder, own) if own.frame.height else None
        if calibrated is not None:
            calibrations[name] = calibrated[0]
            results += calibrated[1]
            notes += [f"run {name}: {line}" for line in calibrated[2]]
    if not calibrations:
        raise _nothing_scored(next(iter(runs.values())).folder.path, str(folder))
    if bare := [name for name in people if name not in calibrations]:
        notes.append(f"no label is of an answer that {'run' if len(bare) == 1 else 'runs'} {', '.join(bare)} scored")
    notes += ranking.notes
    labelled = {"source": source, "given": {name: one.frame.to_dicts() for name, one in people.items()}}
    rows = {name: found.document()["rows"] for name, found in calibrations.items()}
    boards = save_ranking(folder, ranking, runs, rows, split=split, notes=notes, labels=labelled)
    write_sweep(folder, [run.folder.path for run in runs.values()])
    page = folder / "report.html"
    if options.json:
        listed = [{"run": name, **row} for name, own in rows.items() for row in own]
        document = {"choice": boards, "split": split, "rows": listed, "notes": notes, "page": str(page)}
        print_json(console, document)
    else:
        for name, found in calibrations.items():
            console.print(literal(f"{name}, by {found.source} ({found.rests_on})", style="dim"), soft_wrap=True)
            _print_notes(console, found.notes)
            print_corrected(console, found)
        print_choice(console, boards, split=split)
        _print_notes(console, notes)
        _print_certificates(console, dict.fromkeys(results))
        console.print(literal(f"report       {shown(page)}"), soft_wrap=True)
    return 0 if boards or _is_estimated(calibrations.values()) else UserError.exit_code


def _nothing_scored(run: Path, where: str) -> UserError:
    hint = f"only scored answers can be calibrated; look at them: {command('cases', run)}"
    return UserError(Problem("none of the labelled answers was scored", where, hint))


def _is_estimated(calibrations: Iterable[Calibration]) -> bool:
    return any(row.corrected.estimate is not None for found in calibrations for row in found.rows)


def _print_notes(console: Console, notes: Sequence[str]) -> None:
    print_lines(console, (f"note: {note}" for note in notes), "yellow")


def _print_certificates(console: Console, results: Iterable[CertificateResult]) -> None:
    for one in results:
        if one.path is None:
            console.print(literal(f"no certificate of {one.judge} for {one.metric}: {one.why}", style="yellow"))
            continue
        words = "later runs with the same judge, metric and prompts show it (list certificates)"
        console.print(literal(f"{one.judge}: {one.why}; {words}"))
        console.print(literal(f"certificate  {shown(one.path)}"), soft_wrap=True)

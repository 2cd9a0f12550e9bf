"""The command `calibrate`: compare a run's judges with people's labels."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evalflow.app.core.calibration import (
    Issued,
    calibration_of,
    certify,
    half_of,
    rank_judges,
    save_calibration,
    save_ranking,
)
from evalflow.app.core.labels import RunLabels, bound_labels, finished_runs, labels_of_sweep, other_runs, write_sample
from evalflow.app.core.rederive import rewrite
from evalflow.app.core.saved import find_folder, jobs_of, open_scored
from evalflow.app.core.screen import shown
from evalflow.app.core.sweep import write_sweep
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.report.calibration import Calibration, print_calibration, print_corrected, write_calibration
from evalflow.report.sweep import print_choice
from evalflow.report.wording import literal
from evalflow.run.folder import RunFolder

if TYPE_CHECKING:
    from evalflow.app.core.saved import SavedRun


def hold_against(folder: RunFolder, people: RunLabels) -> tuple[Calibration, list[Issued]] | None:
    """Compare a run's judges with people's labels, save the result, and rewrite the run's reports.

    Args:
        folder: The run's folder.
        people: Labels of its answers.

    Returns:
        None if none of the labelled answers has a score.
    """
    run = open_scored(folder)
    found = calibration_of(run, people)
    if found is None:
        return None
    save_calibration(folder, found, people)
    issued = certify(found, run.scores(), folder)
    found = replace(found, manifest=rewrite(folder))
    write_calibration(folder.calibration_page, found)
    return found, issued


OTHER_HALF = "the half of the labels that did not choose the judge"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The result of `calibrate` for a sweep.

    Attributes:
        boards: For each dataset, metric and target with several judges: what `choose` returns, with cost_usd and
            corrected (estimate, ci_low, ci_high, method, n_labels) of each judge.
        split: Whether some labels chose the judge and the others corrected its mean.
        runs: The calibration of each run that has labels, by its folder's name.
        issued: Certificates, by its folder's name.
        notes: What was omitted, and what could not be ranked.
    """

    boards: Sequence[Mapping[str, Any]]
    split: bool
    runs: Mapping[str, Calibration]
    issued: Mapping[str, Sequence[Issued]]
    notes: Sequence[str]

    def document(self) -> dict[str, Any]:
        """The fields as JSON."""
        rows = [{"run": name, **row} for name, found in self.runs.items() for row in found.document()["rows"]]
        return {"choice": list(self.boards), "split": self.split, "rows": rows, "notes": list(self.notes)}


def calibrate_sweep(folder: Path, jobs: Sequence[Path], labels: str | None, *, split: bool) -> Chosen:
    """Calibrate every run of a sweep, rank its judges, and rewrite its reports.

    Args:
        folder: The sweep's folder.
        jobs: The folders of its runs.
        labels: A labels file; None for the labels in the data.
        split: Whether half of the labels choose the judge, and the others correct its mean. If no two runs have
            different judges, there is nothing to choose, and all labels correct.

    Raises:
        UserError: No run has scores, there are no labels, some are invalid, or none of the labelled answers has a
            score.
    """
    runs, notes = finished_runs(folder, jobs)
    people = labels_of_sweep(runs, labels)
    ranking = rank_judges(runs, {name: one.frame for name, one in people.items()}, split=split)
    held, issued = _calibrate_runs(runs, people, ranking.halves)
    if not held:
        look = command("cases", next(iter(runs.values())).folder.path)
        hint = f"only scored answers can be calibrated; look at them: {look}"
        raise UserError(Problem("none of the labelled answers was scored", str(folder), hint))
    notes += [*_without_labels(people, held), *ranking.notes]
    split = bool(ranking.halves)
    labelled = {
        "source": next(iter(people.values())).source,
        "given": {name: one.frame.to_dicts() for name, one in people.items()},
    }
    rows = {name: one.document()["rows"] for name, one in held.items()}
    boards = save_ranking(folder, ranking, runs, rows, split=split, notes=notes, labels=labelled)
    write_sweep(folder, [run.folder.path for run in runs.values()])
    return Chosen(boards, split, held, issued, notes)


def _calibrate_runs(
    runs: Mapping[str, SavedRun], people: Mapping[str, RunLabels], halves: Mapping[str, pl.DataFrame]
) -> tuple[dict[str, Calibration], dict[str, Sequence[Issued]]]:
    found: dict[str, Calibration] = {}
    issued: dict[str, Sequence[Issued]] = {}
    for name, run in runs.items():
        mine = _correcting(people[name], halves[name]) if halves else people[name]
        held = hold_against(run.folder, mine) if mine.frame.height else None
        if held is not None:
            found[name], issued[name] = held
    return found, issued


def _correcting(people: RunLabels, halves: pl.DataFrame) -> RunLabels:
    return replace(people, frame=half_of(people.frame, halves, choosing=False), rests_on=OTHER_HALF)


def _without_labels(people: Mapping[str, RunLabels], held: Mapping[str, Calibration]) -> list[str]:
    bare = [name for name in people if name not in held]
    runs = "run" if len(bare) == 1 else "runs"
    return [f"no label is of an answer that {runs} {', '.join(bare)} scored"] if bare else []


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, issue certificates, rewrite the run's reports, and print; or sample answers to label.

    Args:
        options: run (or sweep), labels, no_split, json; or run, sample, out, seed, stratify, metric.
        console: Where to print.

    Returns:
        0, or 2 if there are too few labels for any estimate.

    Raises:
        UserError: There is no such run, there are no labels, or some are invalid.
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
    people = bound_labels(open_scored(folder), options.labels, other_runs(path))
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
        _print_certificates(console, folder, issued)
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


def _print_certificates(console: Console, folder: RunFolder, issued: Sequence[Issued]) -> None:
    console.print()
    for one in issued:
        _print_issued(console, one)
    console.print(literal(f"report       {shown(folder.report)}"), soft_wrap=True)
    console.print(literal(f"page         {shown(folder.calibration_page)}"), soft_wrap=True)

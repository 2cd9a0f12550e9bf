"""One labels file for all runs of a sweep, each of which may have other metrics and cases than the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evalflow.app.calibration.bound_labels import RunLabels, read_labels
from evalflow.app.comparison.comparable import Scored, open_scored
from evalflow.app.results.saved import load
from evalflow.errors import Problem, UserError, command
from evalflow.labels import HERE, Elsewhere
from evalflow.run.folder import RunFolder


def finished_runs(folder: Path, jobs: Sequence[Path]) -> tuple[dict[str, Scored], list[str]]:
    """The runs of a sweep that have scores, by their folders' names, and a note for each that is not complete.

    Args:
        folder: The sweep's.
        jobs: The folders of its runs.

    Raises:
        UserError: None of them has.
    """
    runs = {job.name: open_scored(RunFolder(job), job.name) for job in jobs if RunFolder(job).scores.is_file()}
    if not runs:
        hint = "finish them, each by itself: " + "; ".join(command("resume", job) for job in jobs)
        raise UserError(Problem("no run of this sweep has scores yet", str(folder), hint))
    notes = [f"run {job.name} has no scores yet, and is left out" for job in jobs if job.name not in runs]
    notes += [
        f"run {name} is not complete ({run.manifest['status']}): only the answers that it scored count"
        for name, run in runs.items()
        if run.manifest["status"] != "done"
    ]
    failed: Mapping[str, str] = RunFolder(folder).read_manifest().get("failed", {})
    notes += [f"run {name} failed, and is left out: {why}" for name, why in failed.items() if name not in runs]
    return runs, notes


def labels_of_sweep(runs: Mapping[str, Scored], file: str | None) -> dict[str, RunLabels]:
    """The labels of each run, which may be none where another run has some.

    Args:
        runs: By name.
        file: A labels file; None for what the data bring along.

    Raises:
        UserError: There are no labels, some are wrong, or none is of an answer of any run.
    """
    elsewhere = _everything(runs.values())
    found = {name: read_labels(load(run.folder), run, file, elsewhere) for name, run in runs.items()}
    if not any(one.frame.height for one in found.values()):
        why = "; ".join(dict.fromkeys(note for one in found.values() for note in one.notes))
        source = next(iter(found.values())).source
        raise UserError(Problem("none of the labels is of an answer of any run of this sweep", source, why))
    return found


def other_runs(folder: Path) -> Elsewhere:
    """What the other runs of a run's sweep have; nothing where it belongs to none.

    Args:
        folder: The run's.
    """
    sweep = RunFolder(folder.parent)
    names = sweep.read_manifest().get("jobs") if sweep.manifest.is_file() else None
    if not names or folder.name not in names:
        return HERE
    others = [RunFolder(folder.parent / name) for name in names if name != folder.name]
    return _everything([open_scored(one, one.path.name) for one in others if one.scores.is_file()])


def _everything(runs: Iterable[Scored]) -> Elsewhere:
    """The metrics and cases of all runs."""
    metrics: set[str] = set()
    cases: dict[str, set[str]] = {}
    for run in runs:
        metrics.update(run.manifest["metrics"])
        for dataset, case_id in run.scores().select("dataset", "case_id").unique().collect().iter_rows():
            cases.setdefault(case_id, set()).add(dataset)
    return Elsewhere(metrics, cases)

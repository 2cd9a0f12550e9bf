"""`calibrate` of a sweep: each run's judge held against people, and which of the judges agrees most with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.calibration.bound_labels import RunLabels
from evalflow.app.calibration.certify import Issued
from evalflow.app.calibration.hold import hold_against
from evalflow.app.calibration.ranking import dealt, half_of, keep_ranking, rank, rivals, with_means
from evalflow.app.calibration.sweep_labels import finished_runs, labels_of_sweep
from evalflow.app.sweep import write_sweep
from evalflow.errors import Problem, UserError, command
from evalflow.report.calibration import Calibration

if TYPE_CHECKING:
    import polars as pl

    from evalflow.app.comparison.comparable import Scored

OTHER_HALF = "the half of the labels that did not choose the judge"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What `calibrate` found of a sweep.

    Attributes:
        boards: For each dataset, metric and target with several judges: what `choose` gives, with cost_usd and
            corrected (estimate, ci_low, ci_high, method, n_labels) of each judge.
        split: Whether some labels chose and the others corrected.
        runs: The calibration of each run that has labels, by its folder's name.
        issued: Certificates, likewise.
        notes: What was left out, and what could not be ranked.
    """

    boards: Sequence[Mapping[str, Any]]
    split: bool
    runs: Mapping[str, Calibration]
    issued: Mapping[str, Sequence[Issued]]
    notes: Sequence[str]

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        rows = [{"run": name, **row} for name, found in self.runs.items() for row in found.document()["rows"]]
        return {"choice": list(self.boards), "split": self.split, "rows": rows, "notes": list(self.notes)}


def calibrate_sweep(folder: Path, jobs: Sequence[Path], labels: str | None, *, split: bool) -> Chosen:
    """Calibrate every run of a sweep, rank its judges, and write its reports again.

    Args:
        folder: The sweep's.
        jobs: The folders of its runs.
        labels: A labels file; None for what the data bring along.
        split: Whether half of the labels choose the judge, and the others correct its mean. Where no two runs have
            different judges there is nothing to choose, and all labels correct.

    Raises:
        UserError: No run has scores, there are no labels, some are wrong, or none of the labelled answers was scored.
    """
    runs, notes = finished_runs(folder, jobs)
    people = labels_of_sweep(runs, labels)
    given = {name: one.frame for name, one in people.items()}
    found = rivals(runs, given)
    if not found:
        notes.append("no two runs judged the same metric of the same answers otherwise, so there is no judge to choose")
    split = split and bool(found)
    seed = next(iter(runs.values())).manifest["config"]["seed"]
    halves = {name: dealt(run, given[name], seed) for name, run in runs.items()} if split else {}
    ranked = rank(found, halves, seed)
    held, issued = _hold_all(runs, people, halves)
    if not held:
        look = command("cases", next(iter(runs.values())).folder.path)
        hint = f"only scored answers can be calibrated; look at them: {look}"
        raise UserError(Problem("none of the labelled answers was scored", str(folder), hint))
    notes += [*_without_labels(people, held), *ranked.notes]
    told = with_means(ranked.boards, runs, {name: one.document()["rows"] for name, one in held.items()})
    kept = {
        "source": next(iter(people.values())).source,
        "given": {name: one.to_dicts() for name, one in given.items()},
    }
    keep_ranking(folder, told, notes, split=split, labels=kept)
    write_sweep(folder, [run.folder.path for run in runs.values()])
    return Chosen(told, split, held, issued, notes)


def _hold_all(
    runs: Mapping[str, Scored], people: Mapping[str, RunLabels], halves: Mapping[str, pl.DataFrame]
) -> tuple[dict[str, Calibration], dict[str, Sequence[Issued]]]:
    """The calibrations and certificates of the runs that have labels left for it."""
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

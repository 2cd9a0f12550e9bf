"""`calibrate` of a sweep: each run's judge held against people, and which of the judges agrees most with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.calibration.bound_labels import RunLabels, bound_labels
from evalflow.app.calibration.certify import Issued
from evalflow.app.calibration.hold import hold_against
from evalflow.app.comparison.comparable import Scored, open_scored
from evalflow.app.results.saved import load
from evalflow.app.sweep import write_sweep
from evalflow.errors import Problem, UserError
from evalflow.report.calibration import Calibration
from evalflow.report.costs import full_cost
from evalflow.run.folder import RunFolder, write_atomically
from evalflow.summary import SERIES, Candidate, choose, chooses, labelled_scores

if TYPE_CHECKING:
    import polars as pl

OTHER_HALF = "the half of the labels that did not choose the judge"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What `calibrate` found of a sweep.

    Attributes:
        boards: For each dataset, metric and target with several judges: what `choose` gives, with cost_usd and
            corrected (estimate, ci_low, ci_high, n_labels) of each judge.
        split: Whether some labels chose and the others corrected.
        runs: The calibration of each run, by its folder's name.
        issued: Certificates, likewise.
    """

    boards: Sequence[Mapping[str, Any]]
    split: bool
    runs: Mapping[str, Calibration]
    issued: Mapping[str, Sequence[Issued]]

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        rows = [{"run": name, **row} for name, found in self.runs.items() for row in found.document()["rows"]]
        return {"choice": list(self.boards), "split": self.split, "rows": rows}


def calibrate_sweep(folder: Path, jobs: Sequence[Path], labels: str | None, *, split: bool) -> Chosen:
    """Calibrate every run of a sweep, rank its judges, and write its reports again.

    Args:
        folder: The sweep's.
        jobs: The folders of its runs.
        labels: A labels file; None for what the data bring along.
        split: Whether half of the labels choose the judge, and the others correct its mean. Where no two runs have
            different judges there is nothing to choose, and all labels correct.

    Raises:
        UserError: There are no labels, some are wrong, or none of the labelled answers was scored.
    """
    runs = {job.name: open_scored(RunFolder(job), job.name) for job in jobs}
    people = {name: bound_labels(load(run.folder), run, labels) for name, run in runs.items()}
    series = _series(runs, people)
    split = split and any(series.values())
    seed = next(iter(runs.values())).manifest["config"]["seed"]
    halves = {name: _dealt(run, people[name].frame, seed) for name, run in runs.items()} if split else {}
    boards: list[dict[str, Any]] = [
        {**dict(zip(("dataset", "metric", "target"), key, strict=True)), **choose(_only(own, halves), seed)}
        for key, own in series.items()
        if own and all(one.labelled.height for one in _only(own, halves))
    ]
    found: dict[str, Calibration] = {}
    issued: dict[str, Sequence[Issued]] = {}
    for name, run in runs.items():
        mine = people[name] if not split else _corrects(people[name], halves[name])
        if mine.frame.height:
            found[name], issued[name] = hold_against(run.folder, mine)
    if not found:
        raise UserError(Problem("none of the labelled answers was scored", str(folder), "look at them: evalflow cases"))
    told = [{**board, "ranking": [_told(row, board, runs, found) for row in board["ranking"]]} for board in boards]
    chosen = Chosen(told, split, found, issued)
    kept = {"choice": told, "split": split, "labels": next(iter(people.values())).source}
    write_atomically(folder / "calibration.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    write_sweep(folder, jobs)
    return chosen


def _series(runs: Mapping[str, Scored], people: Mapping[str, RunLabels]) -> dict[tuple[str, str, str], list[Candidate]]:
    """The judges of each dataset, metric and target; none where there are not several."""
    import polars as pl

    found: dict[tuple[str, str, str], list[Candidate]] = {}
    identities: dict[tuple[str, str, str], set[str]] = {}
    for name, run in runs.items():
        labelled = labelled_scores(run.scores(), people[name].frame).filter(pl.col("human").is_not_null())
        for (dataset, metric, target, judge), rows in labelled.group_by(SERIES, maintain_order=True):
            if judge is None:
                continue
            key = (str(dataset), str(metric), str(target))
            up = run.traits[str(metric)].higher_is_better
            found.setdefault(key, []).append(Candidate(name, str(judge), rows, up))
            identity = json.dumps(run.manifest["judges"][judge]["identity"], sort_keys=True, default=str)
            identities.setdefault(key, set()).add(identity)
    return {key: own if len(identities[key]) > 1 else [] for key, own in found.items()}


def _dealt(run: Scored, labels: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The labelled answers with `choosing`: whether their labels choose the judge."""
    import polars as pl

    groups = run.scores().select("dataset", "case_id", "group").unique().collect()
    keys = ["dataset", "case_id", "target", "target_repeat"]
    answers = labels.unique(keys, maintain_order=True).join(groups, on=["dataset", "case_id"], how="left")
    rows = answers.select("group", "case_id", "answer_hash").iter_rows()
    names = (f"group {group}" if group is not None else f"{case} {digest}" for group, case, digest in rows)
    choosing = pl.Series([chooses(name, seed) for name in names], dtype=pl.Boolean)
    return answers.select(keys).with_columns(choosing=choosing)


def _only(own: Sequence[Candidate], halves: Mapping[str, pl.DataFrame]) -> list[Candidate]:
    """The judges on the answers whose labels choose; on all of them where labels were not dealt."""
    if not halves:
        return list(own)
    return [replace(one, labelled=_half(one.labelled, halves[one.run], choosing=True)) for one in own]


def _corrects(people: RunLabels, dealt: pl.DataFrame) -> RunLabels:
    frame = _half(people.frame, dealt, choosing=False)
    return replace(people, frame=frame, rests_on=OTHER_HALF)


def _half(rows: pl.DataFrame, dealt: pl.DataFrame, *, choosing: bool) -> pl.DataFrame:
    keys = ["dataset", "case_id", "target", "target_repeat"]
    return rows.join(dealt.filter(dealt["choosing"] == choosing), on=keys, how="semi", maintain_order="left")


def _told(
    row: Mapping[str, Any], board: Mapping[str, Any], runs: Mapping[str, Scored], found: Mapping[str, Calibration]
) -> dict[str, Any]:
    """A judge's place, with what its run takes, and its corrected mean."""
    return {
        **row,
        "cost_usd": full_cost(runs[row["run"]].manifest),
        "corrected": next(_corrected(row, board, found), None),
    }


def _corrected(
    row: Mapping[str, Any], board: Mapping[str, Any], found: Mapping[str, Calibration]
) -> Iterator[dict[str, Any]]:
    for one in found[row["run"]].rows if row["run"] in found else ():
        if (one.dataset, one.metric, one.target, one.judge) == (
            board["dataset"], board["metric"], board["target"], row["judge"]
        ):  # fmt: skip
            c = one.corrected
            yield {"estimate": c.estimate, "ci_low": c.low, "ci_high": c.high, "n_labels": c.n, "method": c.method}

"""The labels of a run's or a sweep's answers, from a file or from the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow import datasets, paths
from evalflow.app.core.derive import answered_rows
from evalflow.app.core.saved import SavedRun, open_scored
from evalflow.app.core.screen import shown
from evalflow.errors import Problem, UserError, command
from evalflow.labels.read import (
    HERE,
    Bound,
    Elsewhere,
    Given,
    LabelledAnswer,
    LeftOut,
    Parsed,
    answer_hash,
    bind,
    parse,
    parse_case,
)
from evalflow.lazy import pl
from evalflow.metrics.scale import label_scale, read_label
from evalflow.metrics.steps import is_recorded
from evalflow.run.folder import RunFolder
from evalflow.summary.agreement import label_frame

if TYPE_CHECKING:
    pass


OF_DATA = "the data's own labels"
_MOST = 50


@dataclass(frozen=True, slots=True)
class RunLabels:
    """Labels of a run's answers.

    Attributes:
        frame: As returned by `label_frame`.
        source: Their origin, in words.
        left_out: The number of labels that do not count here, by reason.
        notes: The same for people to read.
        rests_on: Which of the available labels these are.
    """

    frame: pl.DataFrame
    source: str
    left_out: Mapping[str, int]
    notes: Sequence[str]
    rests_on: str = "all labels"


def bound_labels(run: SavedRun, file: str | None, elsewhere: Elsewhere = HERE) -> RunLabels:
    """Like `read_labels`, but at least one label must be of an answer of the run.

    Raises:
        UserError: There are no labels, none is of an answer of the run, or some are invalid.
    """
    found = read_labels(run, file, elsewhere)
    if not found.frame.height:
        n = sum(found.left_out.values()) - found.left_out["blank"]
        what = f"none of {n} labels is of an answer of this run"
        raise UserError(Problem(what, found.source, "; ".join(found.notes)))
    return found


def read_labels(run: SavedRun, file: str | None, elsewhere: Elsewhere = HERE) -> RunLabels:
    """Read labels from a file, else those in the data, and match them with the run's answers.

    Raises:
        UserError: There are no labels, or some are invalid; lists every problem.
    """
    path = paths.resolve(file) if file else None
    found = _of_file(path) if path else _of_data(run)
    source = shown(path) if path else OF_DATA
    if not found.given and not found.problems:
        raise UserError(_nothing(source, found))
    known = {*elsewhere.metrics, *_known_metrics(run, found.given)} if path else set[str]()
    return _bound(run, found, source, replace(elsewhere, metrics=known))


def labels_of_data(run: SavedRun) -> RunLabels | None:
    """The labels in the data; None if none of them is of an answer of the run.

    Raises:
        UserError: Some are invalid.
    """
    found = _of_data(run)
    if not found.given and not found.problems:
        return None
    bound = _bound(run, found, OF_DATA, HERE)
    return bound if bound.frame.height else None


def _bound(run: SavedRun, found: Parsed, source: str, elsewhere: Elsewhere) -> RunLabels:
    scales = {
        name: partial(read_label, label_scale(metric.config, bounded=metric.bounded))
        for name, metric in run.rules.metrics.items()
    }
    config = run.rules.settings.run
    partly = config.limit is not None or config.sample is not None
    bound, left, problems = bind(found.given, _answered(run, found.given), scales, replace(elsewhere, partial=partly))
    if problems := [*found.problems, *problems]:
        more = len(problems) - _MOST
        shortened = [Problem(f"and {more} more like these", source)] if more > 0 else []
        raise UserError([*problems[:_MOST], *shortened])
    left_out = {
        "stale": left.stale,
        "without_hash": left.unbound,
        "not_in_run": left.absent,
        "other_metrics": sum(left.other_metrics.values()),
        "blank": found.blank,
    }
    return RunLabels(label_frame(map(_row, bound)), source, left_out, list(_notes(left, found.blank)))


def _notes(left: LeftOut, blank: int) -> Iterator[str]:
    if left.stale:
        yield (
            f"{_labels(left.stale)} of other answers than the ones scored here, and left out (the first: "
            f"{left.first_stale}); label these answers: python -m evalflow calibrate --sample"
        )
    if left.unbound:
        yield f"{_labels(left.unbound)} without answer_hash, so nobody knows of which of the generated answers"
    if left.absent:
        how = "its limit, its sample or the sweep left them out"
        yield f"{_labels(left.absent)} of cases that this run does not have: {how}"
    for metric, n in left.other_metrics.items():
        yield f"{_labels(n)} of {metric}, which this run did not score"
    if blank:
        rows = "1 row has" if blank == 1 else f"{blank:,} rows have"
        yield f"{rows} no value yet, which counts for nothing"


def _labels(n: int) -> str:
    return "1 label is" if n == 1 else f"{n:,} labels are"


def _of_file(path: Path) -> Parsed:
    rows: list[tuple[str, Any]] = []
    broken: list[Problem] = []
    for row in datasets.plain_rows(path):
        if isinstance(row, Problem):
            broken.append(row)
        else:
            rows.append((row.where, row.data))
    found = parse(rows, shown(path))
    return Parsed(found.given, found.blank, [*broken, *found.problems])


def _of_data(run: SavedRun) -> Parsed:
    parsed = [parse_case(case) for case in run.cases() if case.labels]
    # The data may contain labels for metrics that are not part of this run.
    given = [one for part in parsed for one in part.given if one.label.metric in run.rules.metrics]
    return Parsed(given, 0, [problem for part in parsed for problem in part.problems])


def _answered(run: SavedRun, given: Sequence[Given]) -> Iterator[LabelledAnswer]:
    """The answers to the cases that labels name."""
    ids = {one.label.case_id for one in given}
    keys = run.scores().select("dataset", "case_id").filter(pl.col("case_id").is_in(ids)).unique().collect()
    for row in answered_rows(run, run.scores(), set(keys.iter_rows())):
        if row.answer is not None:
            case, digest, recorded = row.case, answer_hash(row.answer), is_recorded(row.case, row.answer)
            yield LabelledAnswer(case.dataset, case.id, row.target, row.target_repeat, digest, recorded)


def _known_metrics(run: SavedRun, given: Sequence[Given]) -> set[str]:
    """Metrics in a labels file that exist, but that the run did not score."""
    named = {one.label.metric for one in given}
    folders = run.rules.settings.composed.conf_folders
    return {name for name in named if any((folder / "metric" / f"{name}.yaml").is_file() for folder in folders)}


def _row(one: Bound) -> dict[str, Any]:
    answer, label = one.answer, one.given.label
    return {
        "dataset": answer.dataset, "case_id": answer.case_id, "target": answer.target,
        "target_repeat": answer.target_repeat, "answer_hash": answer.digest, "metric": label.metric, "by": label.by,
        "human": one.score,
        "value": str(one.value), "weight": label.weight, "comment": label.comment,
    }  # fmt: skip


def _nothing(source: str, found: Parsed) -> Problem:
    hint = "draw answers to label: python -m evalflow calibrate --sample 50"
    if found.blank:
        what = f"nobody has filled in a value yet, in {found.blank} rows"
        return Problem(what, source, "fill the columns value and by, then calibrate again")
    return Problem("there are no labels by people", source, f"{hint}; then: calibrate --labels labels.csv")


def finished_runs(folder: Path, jobs: Sequence[Path]) -> tuple[dict[str, SavedRun], list[str]]:
    """The runs of a sweep that have scores, by name, and a note for each incomplete one.

    Raises:
        UserError: None of the runs has scores.
    """
    runs = {job.name: open_scored(RunFolder(job)) for job in jobs if RunFolder(job).scores.is_file()}
    if not runs:
        hint = "finish each of them: " + "; ".join(command("resume", job) for job in jobs)
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


def labels_of_sweep(runs: Mapping[str, SavedRun], file: str | None) -> dict[str, RunLabels]:
    """The labels of each run, possibly none for some; `file` as for `read_labels`.

    Raises:
        UserError: There are no labels, some are invalid, or none is of an answer of any run.
    """
    elsewhere = _everything(runs.values())
    found = {name: read_labels(run, file, elsewhere) for name, run in runs.items()}
    if not any(one.frame.height for one in found.values()):
        why = "; ".join(dict.fromkeys(note for one in found.values() for note in one.notes))
        source = next(iter(found.values())).source
        raise UserError(Problem("none of the labels is of an answer of any run of this sweep", source, why))
    return found


def other_runs(folder: Path) -> Elsewhere:
    """The metrics and cases of the other runs in a run's sweep; empty if it is not part of a sweep."""
    sweep = RunFolder(folder.parent)
    names = sweep.read_manifest().get("jobs") if sweep.manifest.is_file() else None
    if not names or folder.name not in names:
        return HERE
    others = [RunFolder(folder.parent / name) for name in names if name != folder.name]
    return _everything([open_scored(one) for one in others if one.scores.is_file()])


def _everything(runs: Iterable[SavedRun]) -> Elsewhere:
    metrics: set[str] = set()
    cases: dict[str, set[str]] = {}
    for run in runs:
        metrics.update(run.manifest["metrics"])
        for dataset, case_id in run.scores().select("dataset", "case_id").unique().collect().iter_rows():
            cases.setdefault(case_id, set()).add(dataset)
    return Elsewhere(metrics, cases)

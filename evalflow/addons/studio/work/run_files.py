"""The files that a run wrote, for viewing and download, and changes of its thresholds."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Literal, get_args

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.intake import results_of, save_results
from evalflow.addons.studio.work.metrics import MetricDefinition, MetricDraft, list_library, list_metrics, update_metric
from evalflow.addons.studio.work.process import working_on
from evalflow.addons.studio.work.runs import ENDED, Run, get_run, run_row
from evalflow.addons.studio.work.space import (
    NotFoundError,
    TakenError,
    Workspace,
    not_found,
    refuse_elsewhere,
    run_folder,
    stale,
    within,
)
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.rederive import (
    exclude_results,
    metrics_in,
    original_thresholds,
    override_of,
    rewrite,
)
from evalflow.app.core.saved import SavedRun, open_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.summary.exclusions import ExcludedResult

if TYPE_CHECKING:
    from evalflow.summary.summarise import Passing


FileName = Literal[
    "report.html",
    "results.csv",
    "scores.parquet",
    "scores.jsonl",
    "cases.jsonl",
    "summary.md",
    "summary.csv",
    "summary.json",
    "summary.parquet",
    "junit.xml",
    "miscategorised.csv",
]
"""Only files of these names can be opened in a run's folder."""
ABOUT: Mapping[FileName, str] = MappingProxyType(
    {
        "report.html": "The report: tables, pictures and every case, in one page that opens offline",
        "results.csv": "A row for each answer, with the scores and reasons of all metrics",
        "scores.parquet": "Every score, for Polars, pandas or DuckDB",
        "scores.jsonl": "Every score as it was made, one JSON object a line",
        "cases.jsonl": "The cases with their answers; loads again as a dataset",
        "summary.md": "The numbers in words, for a pull request",
        "summary.csv": "The numbers with their intervals, also by tag",
        "summary.json": "The same, with matrices",
        "summary.parquet": "The same, for Polars, pandas or DuckDB",
        "junit.xml": "Gates and thresholds, for CI",
        "miscategorised.csv": "What was put into a wrong class",
    }
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a run wrote; `size` in bytes."""

    name: FileName
    about: str
    size: int


@requires("read")
def list_files(space: Workspace, run_id: str) -> list[RunFile]:
    """The run's existing files, in the order of `FileName`."""
    folder = _folder(space, run_id)
    run_files: list[RunFile] = []
    for name in get_args(FileName):
        try:
            file = _opened(folder, name)
        except OSError:
            continue
        with file:
            run_files.append(RunFile(name, ABOUT[name], os.fstat(file.fileno()).st_size))
    return run_files


@requires("read")
def open_file(space: Workspace, run_id: str, name: FileName) -> tuple[BinaryIO, int]:
    """Open a file that a run wrote. Returns the file, which the caller closes, and its size in bytes."""
    try:
        file = _opened(_folder(space, run_id), name)
    except OSError:
        raise not_found("file", name, [one.name for one in list_files(space, run_id)]) from None
    return file, os.fstat(file.fileno()).st_size


def _folder(space: Workspace, run_id: str) -> Path:
    return Path(within(space, run_row(space, run_id).path))


def _opened(folder: Path, name: FileName) -> BinaryIO:
    """Open a file. Raises OSError for a link, a pipe, or anything else that is not a regular file."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileNotFoundError(name)
    return os.fdopen(number, "rb")


@requires("read")
def passing(space: Workspace, run_id: str, metric: str, thresholds: Sequence[float]) -> list[Passing]:
    """The pass rate of a metric at each threshold, with its interval, for each dataset and target.

    Empty if nothing was scored or the run's tables are gone.
    """
    import polars as pl

    from evalflow.summary.summarise import passing_rates

    row = run_row(space, run_id)
    known = metrics_in(row.facts)
    if metric not in known:
        raise not_found("metric", metric, list(known))
    folder = run_folder(space, row)
    if not folder.scores.is_file():
        return []
    return passing_rates(
        pl.scan_parquet(folder.scores),
        metric,
        known[metric].judge,
        thresholds,
        higher_is_better=known[metric].higher_is_better,
    )


@requires("edit")
@takes_turn
def keep_threshold(space: Workspace, run_id: str, metric: str, value: float, expected: int | None = None) -> Run:
    """Apply another threshold to a run permanently, as `report RUN metric.METRIC.threshold=VALUE` does.

    No calls are made. The run's tables, gates, exit code and reports change accordingly, and so does what certificates
    state about it.
    """
    _expect_finite(value)
    return change_files(space, run_id, [f"metric.{metric}.threshold"], expected, _threshold(metric, value))


@requires("edit")
@takes_turn
def restore_threshold(space: Workspace, run_id: str, metric: str, expected: int | None = None) -> Run:
    """Reset a run to the threshold that it was made with."""
    return change_files(space, run_id, [f"metric.{metric}.threshold"], expected, _threshold(metric, None, is_back=True))


@requires("edit")
def apply_exclusions(space: Workspace, run_id: str, excluded: Callable[[], Sequence[ExcludedResult]]) -> Run:
    """Replace the list of results that people took out of a run in its files, and derive its results again.

    `excluded` gives the list; it is called once, while nothing else works on the run's files. No figure and no gate
    changes: what they are without these results stands beside them. TakenError while the run has not ended, or
    something else works on it.
    """
    return change_files(space, run_id, ["exclusions"], None, lambda saved: exclude_results(saved.folder, excluded()))


@requires("edit")
def carry_threshold(space: Workspace, run_id: str, metric: str, value: float) -> MetricDefinition:
    """Save a threshold in the metric of the run's bot, for future runs. The run does not change."""
    _expect_finite(value)
    _ended_row(space, run_id, None)  # until then its folder may lack what `_counts` reads
    run = get_run(space, run_id)
    stored_metric = _own_metric(space, run, metric)
    if stored_metric.definition.get("strict"):
        raise _refused(f"{metric} is strict: it passes what is perfect, and nothing else", "leave strict out")
    if not _counts(run, metric):
        hint = "set judge.thresholds in conf/, or take a judge that is calibrated"
        raise _refused(f"the judge of {metric} is not calibrated, so that the metric's threshold does not count", hint)
    draft = MetricDraft(stored_metric.name, {**stored_metric.definition, "threshold": value})
    return update_metric(space, run.bot, draft, stored_metric.version)


def _threshold(metric: str, value: float | None, *, is_back: bool = False) -> Callable[[SavedRun], object]:
    def change(saved: SavedRun) -> object:
        if metric not in saved.rules.metrics:
            raise not_found("metric", metric, list(saved.rules.metrics))
        threshold = original_thresholds(saved).get(metric) if is_back else value
        return rewrite(saved.folder, [override_of(saved, metric, threshold)])

    return change


@requires("edit")
def change_files(
    space: Workspace, run_id: str, fields: Sequence[str], expected: int | None, change: Callable[[SavedRun], object]
) -> Run:
    """Change a run's files while no other process works on it, and its row accordingly."""
    folder = run_folder(space, _ended_row(space, run_id, expected))
    try:
        with working_on(folder.path):
            row = _ended_row(space, run_id, expected)  # unchanged while no other process works on it
            saved = open_run(folder)
            refuse_elsewhere(space, saved.manifest.config)
            change(saved)
            results = results_of(row)
            with space.changing("update", "run", run_id, fields) as connection:
                if not save_results(connection, row, results):
                    raise stale("run", run_id, row.version, (runs.get(connection, run_id) or row).version)
    except BlockingIOError:
        raise TakenError(Problem(f"something works on run {run_id}", "run", "try again in a moment")) from None
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None
    return get_run(space, run_id)


def _ended_row(space: Workspace, run_id: str, expected: int | None) -> StoredRun:
    row = run_row(space, run_id)
    if row.state not in ENDED or not row.facts.get("metrics"):
        raise TakenError(Problem(f"run {run_id} has not ended", "run", "wait until it has, or resume it"))
    if expected not in (None, row.version):
        raise stale("run", run_id, expected, row.version)
    return row


def _expect_finite(value: float) -> None:
    if not math.isfinite(value):
        raise UserError(Problem(f"a threshold is a number, not {value}", "threshold"))


def _own_metric(space: Workspace, run: Run, metric: str) -> MetricDefinition:
    try:
        own = list_metrics(space, run.bot)
    except NotFoundError:
        raise _refused(f"the bot {run.bot} is not defined here", "import it, or change its file") from None
    stored_metric = next((one for one in own if one.definition.get("name", one.name) == metric), None)
    if stored_metric is not None:
        return stored_metric
    if any(one.name == metric for one in list_library(space)):
        raise _refused(f"{metric} is of the library, which is not changed here", "copy it into the bot's metrics first")
    raise _refused(f"the bot {run.bot} has no metric {metric} any more", "define it again")


def _counts(run: Run, metric: str) -> bool:
    """Whether the threshold in the metric's own definition has an effect with this run's judge."""
    saved = open_run(RunFolder(run.folder))
    scorer, asked = saved.rules.scorer(metric), saved.rules.metrics[metric].judge is not None
    return not asked or (scorer.calibrated and metric not in (scorer.thresholds or {}))


def _refused(what: str, hint: str) -> TakenError:
    return TakenError(Problem(what, "metric.threshold", hint))

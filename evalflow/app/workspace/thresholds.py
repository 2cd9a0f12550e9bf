"""Other thresholds for a run that has ended: what they would make of it, kept with it, or taken along by its bot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalflow.app.report import rewrite
from evalflow.app.results.kept import declared, override_of
from evalflow.app.results.saved import load
from evalflow.app.worker.load import facts_of_run
from evalflow.app.worker.process import working_on
from evalflow.app.workspace.metrics import Metric, MetricDraft, list_library, list_metrics, update_metric
from evalflow.app.workspace.run_types import ENDED, Run
from evalflow.app.workspace.runs import get_run, run_row
from evalflow.app.workspace.space import (
    NotFoundError,
    TakenError,
    Workspace,
    not_found,
    refuse_elsewhere,
    run_folder,
    stale,
)
from evalflow.errors import Problem, UserError
from evalflow.run.folder import RunFolder

if TYPE_CHECKING:
    from evalflow.summary import Passing


def passing(space: Workspace, run_id: str, metric: str, thresholds: Sequence[float]) -> list[Passing]:
    """The pass rate of a metric at each threshold with its interval, for each dataset and target.

    Args:
        space: Where.
        run_id: Which run.
        metric: Of which metric.
        thresholds: In any order.

    Returns:
        Empty where nothing was scored, or the tables of the run are gone.

    Raises:
        NotFoundError: There is no such run, or no such metric in it.
    """
    import polars as pl

    from evalflow.summary import passing_rates

    row = run_row(space, run_id)
    known = {one["name"]: one for one in row["facts"].get("metrics", [])}
    if metric not in known:
        raise not_found("metric", metric, list(known))
    folder = run_folder(space, row)
    if not folder.scores.is_file():
        return []
    return passing_rates(
        pl.scan_parquet(folder.scores),
        metric,
        known[metric]["judge"],
        thresholds,
        higher_is_better=known[metric]["direction"] == "higher_is_better",
        seed=row["facts"]["seed"],
    )


def keep_threshold(space: Workspace, run_id: str, metric: str, value: float, expected: int | None = None) -> Run:
    """Have a run judged by another threshold from now on, as `report RUN metric.METRIC.threshold=VALUE` does, free.

    Its tables, gates, exit code, reports and what certificates say of it follow.

    Raises:
        NotFoundError: There is no such run, or no such metric in it.
        StaleError: It is not of the version that was expected.
        TakenError: The run has not ended, or something works on it.
        UserError: The metric takes no such threshold, or the run's files are gone.
    """
    _expect_finite(value)
    return _rewrite(space, run_id, metric, value, expected)


def restore_threshold(space: Workspace, run_id: str, metric: str, expected: int | None = None) -> Run:
    """Have a run judged by the threshold that it was made with again; raises as `keep_threshold`."""
    return _rewrite(space, run_id, metric, None, expected, is_back=True)


def carry_threshold(space: Workspace, run_id: str, metric: str, value: float) -> Metric:
    """Put a threshold into the metric of the run's bot, for its next runs; the run stays as it is.

    Raises:
        NotFoundError: There is no such run.
        TakenError: The metric is not one that can be changed here, or its threshold would not count.
        StaleError: It was changed meanwhile.
        UserError: It takes no such threshold.
    """
    _expect_finite(value)
    run = get_run(space, run_id)
    found = _own_metric(space, run, metric)
    if found.definition.get("strict"):
        raise _refused(f"{metric} is strict: it passes what is perfect, and nothing else", "leave strict out")
    if not _counts(run, metric):
        hint = "set judge.thresholds in conf/, or take a judge that is calibrated"
        raise _refused(f"the judge of {metric} is not calibrated, so that the metric's threshold does not count", hint)
    draft = MetricDraft(found.name, {**found.definition, "threshold": value})
    return update_metric(space, run.bot, draft, found.version)


def _rewrite(
    space: Workspace, run_id: str, metric: str, value: float | None, expected: int | None, *, is_back: bool = False
) -> Run:
    from evalflow.store import runs

    folder = run_folder(space, _ended_row(space, run_id, expected))
    try:
        with working_on(folder.path):
            row = _ended_row(space, run_id, expected)  # as it is while nothing else works on it
            saved = load(folder)
            refuse_elsewhere(space, saved.manifest["config"])
            if metric not in saved.recipe.metrics:
                raise not_found("metric", metric, list(saved.recipe.metrics))
            threshold = declared(saved).get(metric) if is_back else value
            manifest = rewrite(folder, [override_of(saved, metric, threshold)])
            found = {"facts": facts_of_run(folder)}
            if row["exit_code"] is not None and manifest["status"] == "done":
                found["exit_code"] = manifest["exit_code"]
            with space.database.writing() as connection:
                changed = runs.change(connection, run_id, row["version"], **found)
    except BlockingIOError:
        raise TakenError(Problem(f"something works on run {run_id}", "run", "try again in a moment")) from None
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None
    if not changed:
        raise stale("run", run_id, row["version"], run_row(space, run_id), {})
    return get_run(space, run_id)


def _ended_row(space: Workspace, run_id: str, expected: int | None) -> dict[str, Any]:
    row = run_row(space, run_id)
    if row["state"] not in ENDED or not row["facts"]:
        raise TakenError(Problem(f"run {run_id} has not ended", "run", "wait until it has, or resume it"))
    if expected not in (None, row["version"]):
        raise stale("run", run_id, expected, row, {})
    return row


def _expect_finite(value: float) -> None:
    if not math.isfinite(value):
        raise UserError(Problem(f"a threshold is a number, not {value}", "threshold"))


def _own_metric(space: Workspace, run: Run, metric: str) -> Metric:
    """The bot's metric whose scores have that name."""
    try:
        own = list_metrics(space, run.bot)
    except NotFoundError:
        raise _refused(f"the bot {run.bot} is not defined here", "import it, or change its file") from None
    found = next((one for one in own if one.definition.get("name", one.name) == metric), None)
    if found is not None:
        return found
    if any(one.name == metric for one in list_library()):
        raise _refused(f"{metric} is of the library, which is not changed here", "copy it into the bot's metrics first")
    raise _refused(f"the bot {run.bot} has no metric {metric} any more", "define it again")


def _counts(run: Run, metric: str) -> bool:
    """Whether a threshold in the metric's own definition decides anything, with the judge of this run."""
    saved = load(RunFolder(run.folder))
    scorer, asked = saved.recipe.scorers[metric], saved.recipe.judge_of[metric] is not None
    return not asked or (scorer.calibrated and metric not in (scorer.thresholds or {}))


def _refused(what: str, hint: str) -> TakenError:
    return TakenError(Problem(what, "metric.threshold", hint))

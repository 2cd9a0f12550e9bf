"""Comparison of runs: which runs can be compared, and the differences between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

from evalflow.app.compare import Changes, cells_between
from evalflow.app.core.comparison import (
    How,
    Obstacle,
    compare_pairs,
    declared_obstacles,
    obstacles,
)
from evalflow.app.core.saved import SavedRun, find_run, open_scored
from evalflow.app.studio.bots import get_bot
from evalflow.app.studio.datasets import list_datasets
from evalflow.app.studio.run_types import Run
from evalflow.app.studio.runs import MAX_PAGE, get_run, list_runs, run_row
from evalflow.app.studio.space import NotFoundError, TakenError, Workspace
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.store.scores import common_cases

if TYPE_CHECKING:
    from evalflow.report.comparison import Comparison


@dataclass(frozen=True, slots=True)
class ComparableRun:
    """A run that can be chosen for a comparison.

    Attributes:
        obstacles: Why the two cannot be compared. Empty if no reason is known before the cases are read.
    """

    run: Run
    obstacles: Sequence[Obstacle]


def scored_runs(space: Workspace) -> list[Run]:
    """The latest runs with results, newest first."""
    return [run for run in list_runs(space, limit=MAX_PAGE).items if run.facts.get("metrics")]


def candidates(space: Workspace, run_id: str) -> list[ComparableRun]:
    """The runs that share a dataset and a metric with this one: comparable runs first, then newest first.

    Raises:
        UserError: The run has no results.
    """
    run = get_run(space, run_id)
    scored = scored_of(run)
    others = (other for other in scored_runs(space) if other.run_id != run_id and share_scores(run, other))
    found = [candidate(other, scored) for other in others]
    return sorted(found, key=lambda candidate: bool(candidate.obstacles))


def candidate(other: Run, scored: SavedRun) -> ComparableRun:
    """A run with results, and the obstacles to comparing it."""
    try:
        return ComparableRun(other, declared_obstacles(scored_of(other), scored))
    except EvalflowError as error:
        return ComparableRun(other, [Obstacle("cases", f"run {other.run_id} cannot be read: {error}")])


def share_scores(one: Run, other: Run) -> bool:
    """Whether two runs with results share a dataset and a metric."""
    return all(_names(one, what) & _names(other, what) for what in ("metrics", "datasets"))


def compare_runs(space: Workspace, a: str, b: str, how: How | None = None) -> Comparison:
    """Compare run B with run A as the command `compare` does, without writing files.

    Raises:
        UserError: A run has no results, both are the same run, or they measured different things and `how` does not
            allow it.
    """
    pair = _pair(space, a, b)
    return compare_pairs([pair], replace(how or How(), allow_option="allow="))


def changed_cases(space: Workspace, a: str, b: str) -> Changes:
    """The cases whose answer or score differs between two runs, for reading in pages.

    Raises:
        UserError: A run has no results, or both are the same run.
    """
    pair = _pair(space, a, b)
    with space.database.reading() as connection:
        known = common_cases(connection, run_row(space, a)["id"], run_row(space, b)["id"])
    return Changes(cells_between(*pair, known))


def obstacles_between(space: Workspace, a: str, b: str) -> list[Obstacle]:
    """Every reason why run B cannot be compared with run A.

    Raises:
        UserError: A run has no results, or both are the same run.
    """
    return obstacles(*_pair(space, a, b))


def _pair(space: Workspace, a: str, b: str) -> tuple[SavedRun, SavedRun]:
    if a == b:
        raise UserError(Problem("this is one run, not two", "b", "choose another run"))
    return scored_of(get_run(space, a)), scored_of(get_run(space, b))


def scored_of(run: Run) -> SavedRun:
    """The manifest and scores of a run.

    Raises:
        UserError: The run has no results, or another version wrote them.
    """
    if not run.facts.get("metrics"):
        raise TakenError(
            Problem(f"run {run.run_id} has no results yet", "run", "wait until it has ended, or resume it")
        )
    return open_scored(find_run(str(run.folder)), run.run_id)


def _names(run: Run, what: Literal["metrics", "datasets"]) -> set[str]:
    return set(run.facts["datasets"]) if what == "datasets" else {metric["name"] for metric in run.facts["metrics"]}


_LOOKED_AT = 10
"""The number of earlier runs searched for a comparable one."""


@dataclass(frozen=True, slots=True)
class Related:
    """The bot, datasets and earlier run that a run's page links to.

    Attributes:
        bot: Its name. Empty if no bot of that name exists here, e.g. for a run from the command line.
        datasets: The run's datasets that exist here.
        before: The latest earlier run of the same bot that shares a dataset and a metric, preferably a comparable one.
            None if there is no such run, or if this run has no results or they are gone.
    """

    bot: str
    datasets: Sequence[str]
    before: ComparableRun | None


def related(space: Workspace, run_id: str) -> Related:
    """The bot, datasets and earlier run that a run's page links to."""
    run = get_run(space, run_id)
    known = {dataset.name for dataset in list_datasets(space)}
    own = run.request.datasets if run.request else run.facts.get("datasets", ())
    return Related(_bot(space, run), [name for name in own if name in known], _before(space, run))


def _bot(space: Workspace, run: Run) -> str:
    try:
        return get_bot(space, run.bot).name
    except NotFoundError:
        return ""


def _before(space: Workspace, run: Run) -> ComparableRun | None:
    if not run.facts.get("metrics"):
        return None
    earlier = (
        other
        for other in scored_runs(space)
        if other.bot == run.bot and other.created_at < run.created_at and share_scores(run, other)
    )
    try:
        scored = scored_of(run)
    except EvalflowError:
        return None
    found = [candidate(other, scored) for other in islice(earlier, _LOOKED_AT)]
    return next((one for one in found if not one.obstacles), found[0] if found else None)

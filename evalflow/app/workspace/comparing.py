"""Runs held against each other: which can be, what they say, and one case of both side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from evalflow.app.comparison.comparable import Obstacle, Scored, declared_obstacles, obstacles, open_scored
from evalflow.app.comparison.comparing import How, compare_pairs
from evalflow.app.locate import find_run
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.runs import MAX_PAGE, get_run, list_runs
from evalflow.app.workspace.space import TakenError, Workspace
from evalflow.errors import EvalflowError, Problem, UserError

if TYPE_CHECKING:
    from evalflow.report.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that another one can be held against.

    Attributes:
        obstacles: Why it cannot as they are; empty where it can, as far as can be told without a look at the cases.
    """

    run: Run
    obstacles: Sequence[Obstacle]


def scored_runs(space: Workspace) -> list[Run]:
    """The latest runs that have results, the newest first."""
    return [run for run in list_runs(space, limit=MAX_PAGE).items if run.facts.get("metrics")]


def candidates(space: Workspace, run_id: str) -> list[Candidate]:
    """The runs that share a dataset and a metric with this one: first those that can be compared, the newest first.

    Raises:
        NotFoundError: There is no such run.
        UserError: It has no results.
    """
    run = get_run(space, run_id)
    scored = _scored(run)
    found = [
        Candidate(other, _declared(other, scored))
        for other in scored_runs(space)
        if other.run_id != run_id and _in_common(run, other)
    ]
    return sorted(found, key=lambda candidate: bool(candidate.obstacles))


def compare_runs(space: Workspace, a: str, b: str, how: How | None = None) -> Comparison:
    """Run B against run A, as the command `compare` does it; nothing is written.

    Raises:
        NotFoundError: One of them is not there.
        UserError: One has no results, they are the same, or what they measured is not and that is not allowed.
    """
    pair = _pair(space, a, b)
    return compare_pairs([pair], replace(how or How(), said="allow="))


def obstacles_between(space: Workspace, a: str, b: str) -> list[Obstacle]:
    """Everything that keeps run B from being compared with run A as they are.

    Raises:
        NotFoundError: One of them is not there.
        UserError: One has no results, or they are the same.
    """
    return obstacles(*_pair(space, a, b))


def _pair(space: Workspace, a: str, b: str) -> tuple[Scored, Scored]:
    if a == b:
        raise UserError(Problem("this is one run, not two", "b", "choose another run"))
    return _scored(get_run(space, a)), _scored(get_run(space, b))


def _scored(run: Run) -> Scored:
    if not run.facts.get("metrics"):
        raise TakenError(
            Problem(f"run {run.run_id} has no results yet", "run", "wait until it has ended, or resume it")
        )
    return open_scored(find_run(str(run.folder)), run.run_id)


def _declared(other: Run, scored: Scored) -> list[Obstacle]:
    try:
        return declared_obstacles(_scored(other), scored)
    except EvalflowError as error:
        return [Obstacle("cases", f"run {other.run_id} cannot be read: {error}")]


def _in_common(one: Run, other: Run) -> bool:
    return bool(
        _names(one, "metrics") & _names(other, "metrics") and _names(one, "datasets") & _names(other, "datasets")
    )


def _names(run: Run, what: Literal["metrics", "datasets"]) -> set[str]:
    return set(run.facts["datasets"]) if what == "datasets" else {metric["name"] for metric in run.facts["metrics"]}

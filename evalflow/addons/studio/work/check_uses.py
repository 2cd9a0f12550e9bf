"""The uses of checks: enable a check on many cases, list its cases, and find where it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Unpack

from evalflow.addons.studio.store import uses as table
from evalflow.addons.studio.store.cases import CaseQuery, by_ids, rewrite
from evalflow.addons.studio.store.rows import from_row
from evalflow.addons.studio.store.scores import RunScores, ScoreFilter
from evalflow.addons.studio.store.uses import CheckedCase
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.cases import CaseFilter, Deleted, case_columns, change_cases
from evalflow.addons.studio.work.checks import get_check
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.scores import limits_of
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trash import keep_removed_checks

MAX_PAGE = 500
_SEARCHED = 5


@dataclass(frozen=True, slots=True)
class CheckUse:
    """The number of cases that name a check, and of those where it is enabled."""

    cases: int = 0
    enabled: int = 0


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """The first answer that failed a check, in the latest run with such answers.

    Attributes:
        metric: The name of the score: the check's name, with `#2`, `#3`, ... if the case names it repeatedly.
        position: The answer's position in its run.
        at: When the run ended; if it has not, when it was created.
    """

    run_id: str
    title: str
    at: str
    metric: str
    position: int
    dataset: str
    case_id: str
    question: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """The row ids of the cases that match a filter: all, those that name a check, and those where it is enabled."""

    cases: Sequence[int]
    naming: Sequence[int]
    enabled: Sequence[int]


@requires("read")
def check_uses(space: Workspace) -> dict[str, CheckUse]:
    """The use of each check that a case names, including built-in checks."""
    counts = space.read(table.check_counts, space.project_id)
    return {name: CheckUse(*numbers) for name, numbers in counts.items()}


@requires("read")
def cases_with(space: Workspace, name: str, first: int = 0, limit: int = 50) -> list[CheckedCase]:
    """Cases that name a check, by dataset and position, skipping the first `first`."""
    return space.read(table.cases_with, space.project_id, name, first, max(1, min(limit, MAX_PAGE)))


@requires("read")
def coverage(space: Workspace, dataset: str, name: str, **matching: Unpack[CaseFilter]) -> Coverage:
    """The cases of a dataset that match a filter, and which of them name a check."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        ids, named = table.among(CaseQuery(connection, owner, **matching), name)
    return Coverage(ids, [one for one in ids if one in named], [one for one in ids if named.get(one)])


@requires("read")
def last_failure(space: Workspace, name: str) -> CheckFailure | None:
    """The last failure of a check; None if it never failed, or only in runs whose judge gives no pass or fail."""
    with space.database.reading() as connection:
        for run in table.imperfect_runs(connection, space.project_id, name, _SEARCHED):
            limits = [limit for limit in limits_of(run.facts) if limit.metric in table.numbered(name)]
            scores = RunScores(connection, run.id, limits)
            filters = (ScoreFilter(metric=metric, passed=False) for metric in {limit.metric: None for limit in limits})
            failed = [score for wanted in filters for score in scores.page(wanted, None, 1)]
            if failed:
                first = min(failed, key=lambda score: score.place)
                at = run.finished_at or run.created_at
                return from_row(CheckFailure, {**asdict(first), **vars(run)}, at=at)
    return None


@requires("edit")
def enable_check(space: Workspace, dataset: str, cases: Sequence[int], identifier: str) -> int:
    """Add a reusable check to cases, or enable it where they name it already; returns the number of changed cases."""
    get_check(space, identifier)

    def enabled(body: dict[str, Any]) -> dict[str, Any]:
        checks = [dict(check) for check in body.get("checks") or ()]
        own = [check for check in checks if check["identifier"] == identifier]
        for check in own:
            check["enabled"] = True
        return {
            **body,
            "checks": checks if own else [*checks, {"identifier": identifier, "enabled": True, "params": {}}],
        }

    return change_cases(space, dataset, cases, "checks", enabled)


@requires("edit")
def remove_check(space: Workspace, dataset: str, cases: Sequence[int], identifier: str) -> Deleted:
    """Remove a check from cases of a dataset."""
    return _remove(space, {dataset: cases}, identifier)


@requires("edit")
def remove_everywhere(space: Workspace, name: str) -> Deleted:
    """Remove a check from all cases of the project."""
    by_dataset: dict[str, list[int]] = {}
    for case in space.read(table.cases_with, space.project_id, name):
        by_dataset.setdefault(case.dataset, []).append(case.id)
    return _remove(space, by_dataset, name)


def _remove(space: Workspace, cases: Mapping[str, Sequence[int]], name: str) -> Deleted:
    """Remove a check from cases (row ids by dataset)."""
    datasets = {dataset: dataset_id(space, dataset) for dataset in cases}
    gone: dict[str, dict[str, list[tuple[int, Any]]]] = {}
    with space.changing(
        "remove", "check", name, [f"{len(ids)} cases of {one}" for one, ids in cases.items()]
    ) as writing:
        for dataset, row in datasets.items():
            changed: dict[int, dict[str, object]] = {}
            for stored_case in by_ids(writing, row, cases[dataset]):
                checks = list(enumerate(stored_case.body.get("checks") or ()))
                if own := [(place, check) for place, check in checks if check["identifier"] == name]:
                    gone.setdefault(dataset, {})[stored_case.key] = own
                    kept = [check for _, check in checks if check["identifier"] != name]
                    rest = {key: value for key, value in stored_case.body.items() if key != "checks"}
                    changed[stored_case.id] = case_columns({**rest, "checks": kept} if kept else rest)
            rewrite(writing, changed)
        return Deleted(sum(map(len, gone.values())), keep_removed_checks(space, writing, name, gone))

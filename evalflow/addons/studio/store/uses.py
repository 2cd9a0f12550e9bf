"""Where checks, judges and connections are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, case, func, literal, or_, select, true

from evalflow.addons.studio.store.cases import CaseQuery
from evalflow.addons.studio.store.rows import every_as
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.store.tables import (
    bots,
    case_checks,
    cases,
    datasets,
    judges,
    metrics,
    projects,
    runs,
    scores,
)

_REPEATS = 4
"""A case that names a check repeatedly has scores `NAME`, `NAME#2`, ...; only this many are searched."""


@dataclass(frozen=True, slots=True)
class CheckedCase:
    """A case that names a check.

    Attributes:
        id: The row id; `key` is the case's own id.
    """

    dataset: str
    id: int
    key: str
    question: str
    is_draft: bool
    is_enabled: bool


def check_counts(connection: Connection, project: int) -> dict[str, tuple[int, int]]:
    """By check name: how many cases name it, and in how many of them it is enabled."""
    enabled = func.sum(case((case_checks.c.is_enabled, 1), else_=0))
    query = (
        select(case_checks.c.name, func.count(), enabled)
        .join(cases, cases.c.id == case_checks.c.case_id)
        .join(datasets, datasets.c.id == cases.c.dataset_id)
        .where(datasets.c.project_id == project)
        .group_by(case_checks.c.name)
    )
    return {name: (number, int(on)) for name, number, on in connection.execute(query)}


def have_checks(connection: Connection, chosen: Sequence[int]) -> bool:
    """Whether an active case of these datasets names a check that is enabled."""
    query = (
        select(case_checks.c.case_id)
        .join(cases, cases.c.id == case_checks.c.case_id)
        .where(cases.c.dataset_id.in_(chosen), cases.c.is_draft.is_(False), case_checks.c.is_enabled)
    )
    return connection.execute(query.limit(1)).first() is not None


def cases_with(
    connection: Connection, project: int, name: str, first: int = 0, limit: int | None = None
) -> list[CheckedCase]:
    """Cases that name a check, by dataset and position, skipping the first `first`."""
    columns = cases.c.id, cases.c.key, cases.c.question, cases.c.is_draft, case_checks.c.is_enabled
    query = (
        select(*columns, datasets.c.name.label("dataset"))
        .join(case_checks, case_checks.c.case_id == cases.c.id)
        .join(datasets, datasets.c.id == cases.c.dataset_id)
        .where(datasets.c.project_id == project, case_checks.c.name == name)
        .order_by(datasets.c.name, cases.c.position)
    )
    return every_as(CheckedCase, connection, query if limit is None else query.offset(first).limit(limit))


def among(wanted: CaseQuery, name: str) -> tuple[list[int], dict[int, bool]]:
    """The row ids of the cases of a query; and the dataset's cases that name a check, with whether it is enabled."""
    query = (
        select(case_checks.c.case_id, case_checks.c.is_enabled)
        .join(cases, cases.c.id == case_checks.c.case_id)
        .where(cases.c.dataset_id == wanted.dataset, case_checks.c.name == name)
    )
    return wanted.ids(), {row.case_id: row.is_enabled for row in wanted.connection.execute(query)}


def imperfect_runs(connection: Connection, project: int, name: str, limit: int) -> list[StoredRun]:
    """The latest runs in which a check has a score below 1, newest first."""
    below = or_(*(scores.c.metric == one for one in numbered(name))), scores.c.run == runs.c.id, scores.c.score < 1
    query = select(runs).where(runs.c.project_id == project, select(scores.c.n).where(*below).exists())
    return every_as(StoredRun, connection, query.order_by(runs.c.id.desc()).limit(limit))


def numbered(name: str) -> Sequence[str]:
    """The names of a check's scores."""
    return [name, *(f"{name}#{number}" for number in range(2, _REPEATS + 1))]


def runs_by_judge(connection: Connection, project: int) -> dict[str, int]:
    """The number of a project's runs by their chosen judge."""
    judge = runs.c.composition["judge"].as_string().label("judge")
    query = select(judge, func.count()).where(runs.c.project_id == project).group_by(judge)
    return {row[0]: row[1] for row in connection.execute(query) if row[0]}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a bot, a metric, a judge or a run; `bot` is the bot itself, or that of the metric or run."""

    project: str
    kind: Literal["bot", "metric", "judge", "run"]
    name: str
    bot: str
    content: Mapping[str, Any]


def configurations(connection: Connection, of: int | None = None) -> list[Configuration]:
    """What may name a judge, a connection or an address: bots, metrics, judges and queued runs, by name.

    `of`: only those of that project.
    """
    project = projects.c.name.label("project")
    of_bots = select(project, literal("bot").label("kind"), bots.c.name, bots.c.name.label("bot"))
    of_metrics = select(project, literal("metric").label("kind"), metrics.c.name, bots.c.name.label("bot"))
    of_judges = select(project, literal("judge").label("kind"), judges.c.name, judges.c.name.label("bot"))
    of_runs = select(project, literal("run").label("kind"), runs.c.run_id.label("name"), runs.c.bot)
    queries = (
        of_bots.add_columns(bots.c.config.label("content")).select_from(bots),
        of_metrics.add_columns(metrics.c.definition.label("content")).select_from(metrics.join(bots)),
        of_judges.add_columns(judges.c.config.label("content")).select_from(judges),
        of_runs.add_columns(runs.c.composition.label("content")).select_from(runs).where(runs.c.state == "queued"),
    )
    owners = (bots.c.project_id, bots.c.project_id, judges.c.project_id, runs.c.project_id)
    return [
        one
        for query, owner in zip(queries, owners, strict=True)
        for one in every_as(
            Configuration,
            connection,
            query.join(projects, projects.c.id == owner)
            .where(true() if of is None else owner == of)
            .order_by("project", "bot", "name"),
        )
    ]

"""Queries for tasks of a project, and comments on tasks, answers and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Text, case, cast, delete, func, select, tuple_

from evalflow.addons.studio.store.rows import Query, Row, add, every, now, one, storable
from evalflow.addons.studio.store.tables import answers, cases, comments, datasets, runs, tasks

Cause = Literal["bot", "test", "judge", "unknown"]
"""What is wrong: the bot's answer, the test case, the judge's score, or nobody knows yet."""
Status = Literal["open", "in_progress", "done"]
Priority = Literal["low", "normal", "high"]
_RANK = case({"high": 0, "normal": 1}, value=tasks.c.priority, else_=2)


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A filter of tasks; None matches all.

    Attributes:
        assignee: The name of the person to whom the task is assigned.
        bot: The bot of the run that the task is about.
        run: The id of that run; `position` and `metric` narrow it to an answer and to a score.
    """

    status: Status | None = None
    cause: Cause | None = None
    assignee: str | None = None
    bot: str | None = None
    run: str | None = None
    position: int | None = None
    metric: str | None = None


def page(
    connection: Connection, project: int, wanted: TaskQuery, after: tuple[int, int] | None, limit: int
) -> list[Row]:
    """Tasks by priority, high first; then newest first.

    Each has its `rank` by priority, the `run_id` and `bot` of its run, the `question` of its case, and the number of
    its `comments`. `after`: rank and id of the previous page's last task.
    """
    query = _selected().where(*_conditions(project, wanted)).order_by(_RANK, tasks.c.id.desc()).limit(limit)
    if after is not None:
        query = query.where(tuple_(_RANK, -tasks.c.id) > tuple_(after[0], -after[1]))
    return every(connection, query)


def counts(connection: Connection, project: int, wanted: TaskQuery) -> dict[str, int]:
    """The number of tasks by status, without zeros."""
    query = select(tasks.c.status, func.count()).select_from(tasks.outerjoin(runs, runs.c.id == tasks.c.run))
    result = connection.execute(query.where(*_conditions(project, wanted)).group_by(tasks.c.status))
    return {row[0]: row[1] for row in result}


def bots(connection: Connection, project: int) -> list[str]:
    """The bots that the project's tasks are about."""
    query = select(runs.c.bot).join(tasks, tasks.c.run == runs.c.id).where(tasks.c.project_id == project)
    return list(connection.scalars(query.distinct().order_by(runs.c.bot)))


def get(connection: Connection, project: int, task: int) -> Row | None:
    """One task, as in `page`."""
    return one(connection, _selected().where(tasks.c.project_id == project, tasks.c.id == task))


def _selected() -> Query:
    comment_count = select(func.count()).where(comments.c.task_id == tasks.c.id).scalar_subquery()
    asked = func.coalesce(_answered_question(), _question_of_case()).label("question")
    query = select(tasks, _RANK.label("rank"), runs.c.run_id, runs.c.bot, asked, comment_count.label("comments"))
    return query.outerjoin(runs, runs.c.id == tasks.c.run)


def _answered_question() -> ScalarSelect[str]:
    here = answers.c.run == tasks.c.run, answers.c.position == tasks.c.position
    return select(answers.c.question).where(*here).scalar_subquery()


def _question_of_case() -> ScalarSelect[str]:
    named = cases.join(datasets, datasets.c.id == cases.c.dataset_id)
    here = datasets.c.project_id == tasks.c.project_id, datasets.c.name == tasks.c.dataset
    return select(cases.c.question).select_from(named).where(*here, cases.c.key == tasks.c.case_id).scalar_subquery()


def _conditions(project: int, wanted: TaskQuery) -> list[ColumnElement[bool]]:
    equal = {tasks.c.status: wanted.status, tasks.c.cause: wanted.cause, runs.c.bot: wanted.bot}
    equal |= {runs.c.run_id: wanted.run, tasks.c.position: wanted.position, tasks.c.metric: wanted.metric}
    conditions = [
        tasks.c.project_id == project,
        *(column == value for column, value in equal.items() if value is not None),
    ]
    if wanted.assignee is not None:  # user names are plain ASCII, which JSON does not escape
        conditions.append(cast(tasks.c.assignees, Text).contains(f'"{wanted.assignee}"', autoescape=True))
    return conditions


@dataclass(frozen=True, slots=True)
class CommentedOn:
    """The subject of comments: a task, an answer of a run, or the answer's score by `metric`."""

    task: int | None = None
    run: str | None = None
    position: int | None = None
    metric: str | None = None


def comments_on(connection: Connection, project: int, on: CommentedOn, after: int, limit: int) -> list[Row]:
    """Comments in the order in which they were written; those on an answer include those on its scores.

    `after`: only comments with a larger id.
    """
    equal = {comments.c.task_id: on.task, runs.c.run_id: on.run, comments.c.position: on.position}
    equal |= {comments.c.metric: on.metric and storable(on.metric)}
    given = [column == value for column, value in equal.items() if value is not None]
    query = _comments().where(comments.c.project_id == project, comments.c.id > after, *given)
    return every(connection, query.order_by(comments.c.id).limit(limit))


def comment(connection: Connection, project: int, row: int) -> Row | None:
    """One comment."""
    return one(connection, _comments().where(comments.c.project_id == project, comments.c.id == row))


def add_comment(connection: Connection, values: Mapping[str, Any]) -> int:
    """Add a comment; returns its id."""
    return add(connection, comments, {**values, "at": now()})


def remove_comment(connection: Connection, row: int) -> bool:
    """Delete a comment; returns whether it was there."""
    return connection.execute(delete(comments).where(comments.c.id == row)).rowcount == 1


def _comments() -> Query:
    columns = [column for column in comments.c if column.name != "run"]
    return select(*columns, comments.c.task_id.label("task"), runs.c.run_id.label("run")).outerjoin(
        runs, runs.c.id == comments.c.run
    )

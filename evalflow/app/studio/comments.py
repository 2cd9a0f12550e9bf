"""Comments on tasks, on answers of runs, and on their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalflow.app.studio.access import ForbiddenError, may, requires
from evalflow.app.studio.runs import run_row
from evalflow.app.studio.space import Page, Workspace, not_found
from evalflow.app.studio.tasks import get_task
from evalflow.errors import Problem, UserError
from evalflow.store import tasks as stored
from evalflow.store.rows import from_row, storable
from evalflow.store.scores import RunScores
from evalflow.store.tasks import CommentPlace

LONGEST_COMMENT = 20_000
"""In characters."""


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody said, and when (ISO 8601, UTC).

    Attributes:
        task: The task that it is on; None for an answer or score.
        run, position, metric: The answer that it is on; and if `metric` is given, the score.
    """

    id: int
    text: str
    by: str
    at: str
    task: int | None
    run: str | None
    position: int | None
    metric: str | None


@dataclass(frozen=True, slots=True)
class CommentedOn:
    """What comments are on: a task; or an answer of a run, or its score by `metric`."""

    task: int | None = None
    run: str | None = None
    position: int | None = None
    metric: str | None = None


@requires("read")
def list_comments(space: Workspace, on: CommentedOn, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
    """Comments, the oldest first; those on an answer include those on its scores."""
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise UserError(Problem("this is no cursor of this list", "?cursor", "take `next` of the previous page"))
    place = _place(space, on)
    with space.database.reading() as connection:
        found = stored.comments_on(connection, space.project_id, place, int(cursor or 0), limit + 1)
    return Page([_comment(row) for row in found[:limit]], str(found[limit - 1]["id"]) if len(found) > limit else None)


@requires("edit")
def add_comment(space: Workspace, on: CommentedOn, text: str) -> Comment:
    """Comment on something that exists."""
    said = storable(text).strip()
    if not 0 < len(said) <= LONGEST_COMMENT:
        raise UserError(Problem(f"a comment has 1 to {LONGEST_COMMENT:,} characters", "comment.text"))
    place = _place(space, on)
    with space.changing("create", "comment", _name(on)) as connection:
        row = stored.add_comment(connection, space.project_id, place, said, space.identify().name)
    return get_comment(space, row)


@requires("read")
def get_comment(space: Workspace, comment: int) -> Comment:
    """One comment."""
    with space.database.reading() as connection:
        row = stored.comment(connection, space.project_id, comment) if 0 < comment < 2**31 else None
    if row is None:
        raise not_found("comment", str(comment), [])
    return _comment(row)


@requires("edit")
def delete_comment(space: Workspace, comment: int) -> None:
    """Delete a comment: one's own, or as an admin anybody's."""
    found = get_comment(space, comment)
    if found.by != space.identify().name and not may(space, "admin"):
        raise ForbiddenError(Problem(f"this comment is by {found.by}", "comment", "ask them or an admin to delete it"))
    on = CommentedOn(found.task, found.run, found.position, found.metric)
    with space.changing("delete", "comment", _name(on)) as connection:
        if not stored.remove_comment(connection, comment):
            raise not_found("comment", str(comment), [])


def _place(space: Workspace, on: CommentedOn) -> CommentPlace:
    """Check that it exists, in this project."""
    if on.task is not None and (on.run, on.position, on.metric) == (None, None, None):
        return CommentPlace(task=get_task(space, on.task).id)
    if on.task is not None or on.run is None or on.position is None:
        what = "comments are on a task, or on an answer"
        raise UserError(Problem(what, "comment", "name the task; or the run and the answer's position"))
    run = run_row(space, on.run)["id"]
    with space.database.reading() as connection:
        if not 0 <= on.position < 2**31 or RunScores(connection, run).answer(on.position) is None:
            raise not_found("answer", str(on.position), [])
    return CommentPlace(run=run, position=on.position, metric=None if on.metric is None else storable(on.metric))


def _name(on: CommentedOn) -> str:
    return f"task {on.task}" if on.task is not None else f"{on.run} answer {on.position}"


def _comment(row: Mapping[str, Any]) -> Comment:
    return from_row(Comment, row, task=row["task_id"], run=row["run_id"])

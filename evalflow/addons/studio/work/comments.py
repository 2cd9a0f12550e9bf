"""Comments on tasks, on answers of runs, and on their scores."""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.addons.studio.store import tasks as stored
from evalflow.addons.studio.store.rows import from_row, storable
from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.store.scores import RunScores
from evalflow.addons.studio.store.tasks import CommentedOn
from evalflow.addons.studio.work.access import ForbiddenError, may, requires
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import Page, Workspace, not_found, row_number
from evalflow.addons.studio.work.tasks import get_task
from evalflow.errors import Problem, UserError

LONGEST_COMMENT = 20_000
"""In characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(CommentedOn):
    """A comment; its time is in ISO 8601, UTC."""

    id: int
    text: str
    by: str
    at: str


@requires("read")
def list_comments(space: Workspace, on: CommentedOn, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
    """Comments, oldest first; those on an answer include those on its scores."""
    after = row_number(cursor) or 0
    _expect_there(space, on)
    comment_rows = space.read(stored.comments_on, space.project_id, on, after, limit + 1)
    return Page.of([from_row(Comment, row) for row in comment_rows], limit)


@requires("edit")
def add_comment(space: Workspace, on: CommentedOn, text: str) -> Comment:
    """Add a comment."""
    content = storable(text).strip()
    if not 0 < len(content) <= LONGEST_COMMENT:
        raise UserError(Problem(f"a comment has 1 to {LONGEST_COMMENT:,} characters", "comment.text"))
    values = {"task_id": on.task, "run": _expect_there(space, on), "position": on.position, "text": content}
    values |= {"metric": on.metric and storable(on.metric), "by": space.identify().name, "project_id": space.project_id}
    with space.changing("create", "comment", _name(on)) as connection:
        row = stored.add_comment(connection, values)
    return get_comment(space, row)


@requires("read")
def get_comment(space: Workspace, comment: int) -> Comment:
    """One comment."""
    row = space.read(stored.comment, space.project_id, comment) if 0 < comment < INTEGER_END else None
    if row is None:
        raise not_found("comment", str(comment), [])
    return from_row(Comment, row)


@requires("edit")
def delete_comment(space: Workspace, comment: int) -> None:
    """Delete your own comment; an admin may delete anybody's."""
    stored_comment = get_comment(space, comment)
    if stored_comment.by != space.identify().name and not may(space, "admin"):
        raise ForbiddenError(
            Problem(f"this comment is by {stored_comment.by}", "comment", "ask them or an admin to delete it")
        )
    with space.changing("delete", "comment", _name(stored_comment)) as connection:
        if not stored.remove_comment(connection, comment):
            raise not_found("comment", str(comment), [])


def _expect_there(space: Workspace, on: CommentedOn) -> int | None:
    """Raise NotFoundError unless the subject exists in this project; returns the row id of its run."""
    if on.task is not None and (on.run, on.position, on.metric) == (None, None, None):
        get_task(space, on.task)
        return None
    if on.task is not None or on.run is None or on.position is None:
        what = "comments are on a task, or on an answer"
        raise UserError(Problem(what, "comment", "name the task; or the run and the answer's position"))
    run = run_row(space, on.run).id
    with space.database.reading() as connection:
        if not 0 <= on.position < INTEGER_END or RunScores(connection, run).answer(on.position) is None:
            raise not_found("answer", str(on.position), [])
    return run


def _name(on: CommentedOn) -> str:
    return f"task {on.task}" if on.task is not None else f"{on.run} answer {on.position}"

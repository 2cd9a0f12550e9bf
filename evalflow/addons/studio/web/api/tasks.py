"""/tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from evalflow.addons.studio.web.api.deps import (
    Expected,
    Headers,
    Paging,
    RequestBody,
    Space,
    json_lines,
    json_lines_described,
)
from evalflow.addons.studio.work import tasks
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/tasks", tags=["tasks"])
_Text = Annotated[str | None, Query(max_length=500)]


class TaskChange(RequestBody):
    """Changes to a task; fields that are left out are unchanged."""

    title: tasks.Title | None = None
    description: tasks.Description | None = None
    cause: tasks.Cause | None = None
    status: tasks.Status | None = None
    priority: tasks.Priority | None = None
    assignees: tasks.Assignees | None = None


@router.get("")
def read_tasks(
    space: Space,
    paging: Paging,
    status: tasks.Status | None = None,
    cause: tasks.Cause | None = None,
    assignee: _Text = None,
    bot: _Text = None,
    run: _Text = None,
) -> Page[tasks.Task]:
    """Tasks by priority, high first, then the newest first."""
    return tasks.list_tasks(space, tasks.TaskQuery(status, cause, assignee, bot, run), *paging)


@router.post("", status_code=201)
def post_task(space: Space, new: tasks.TaskDraft, headers: Headers) -> tasks.Task:
    """Create a task."""
    made = tasks.create_task(space, new)
    return headers.locate(made, made.id)


@router.get("/judge-examples", response_class=StreamingResponse, responses=json_lines_described("One score a line."))
def export_examples(space: Space) -> StreamingResponse:
    """The scores that tasks with cause judge are about, as JSON lines: the answer, the judge's value and a person's."""
    pairs = tasks.judge_examples(space)
    rows = ({"task": task.id, **asdict(example), "note": task.description} for task, example in pairs)
    return json_lines(rows, "judge-examples")


@router.get("/{task}")
def read_task(space: Space, task: int, headers: Headers) -> tasks.Task:
    """One task."""
    return headers.tag(tasks.get_task(space, task))


@router.patch("/{task}")
def patch_task(space: Space, task: int, change: TaskChange, expected: Expected, headers: Headers) -> tasks.Task:
    """Change a task."""
    return headers.tag(tasks.update_task(space, task, expected, change.model_dump(exclude_none=True)))


@router.delete("/{task}", status_code=204)
def remove_task(space: Space, task: int, expected: Expected) -> None:
    """Delete a task with its comments."""
    tasks.delete_task(space, task, expected)

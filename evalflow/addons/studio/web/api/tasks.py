"""/tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

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
_Title = Annotated[str, Field(min_length=1, max_length=tasks.LONGEST_TITLE)]
_Description = Annotated[str, Field(max_length=tasks.LONGEST_TEXT)]
_Assignees = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=tasks.MOST_ASSIGNEES)]
_Position = Annotated[int, Field(ge=0, lt=2**31, description="An answer's position in the run, from 0.")]
_Text = Annotated[str | None, Query(max_length=500)]


class NewTask(RequestBody):
    """A task to create; `run`, `position` and `metric` say which answer or score it is about."""

    title: _Title
    description: _Description = ""
    cause: tasks.Cause = "unknown"
    status: tasks.Status = "open"
    priority: tasks.Priority = "normal"
    assignees: _Assignees = Field(default=[])
    run: str | None = Field(default=None, max_length=200)
    position: _Position | None = None
    metric: str | None = Field(default=None, max_length=500)
    dataset: str | None = Field(default=None, max_length=500)
    case_id: str | None = Field(default=None, max_length=2000)
    value: bool | float | str | None = Field(default=None, description="A person's value in place of the judge's.")


class TaskChange(RequestBody):
    """Changes to a task; fields that are left out are unchanged."""

    title: _Title | None = None
    description: _Description | None = None
    cause: tasks.Cause | None = None
    status: tasks.Status | None = None
    priority: tasks.Priority | None = None
    assignees: _Assignees | None = None


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
def post_task(space: Space, new: NewTask, headers: Headers) -> tasks.Task:
    """Create a task."""
    made = tasks.create_task(space, tasks.TaskDraft(**new.model_dump()))
    return headers.locate(made, made.id)


@router.get("/judge-examples", response_class=StreamingResponse, responses=json_lines_described("One score a line."))
def export_examples(space: Space) -> StreamingResponse:
    """The scores that tasks with cause judge are about, as JSON lines: the answer, the judge's value and a person's."""
    found = tasks.judge_examples(space)
    rows = ({"task": task.id, **asdict(example), "note": task.description} for task, example in found)
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

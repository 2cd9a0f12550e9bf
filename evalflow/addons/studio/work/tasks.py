"""Tasks: faults to mend in a bot, a test or a judge, each with the person who does it and the progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.store import tasks as stored
from evalflow.addons.studio.store.rows import Hidden, Row, from_row, storable
from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.store.scores import RunScores, ScoreFilter
from evalflow.addons.studio.store.tasks import Cause, Priority, Status, TaskQuery
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import DefinitionStore
from evalflow.addons.studio.work.projects import people_who_may
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import Page, Workspace, every_item, not_found, place_of
from evalflow.errors import Problem, UserError

LONGEST_TITLE, LONGEST_TEXT = 300, 20_000
"""In characters."""
MOST_ASSIGNEES = 50
Title = Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]
Description = Annotated[str, Field(max_length=LONGEST_TEXT)]
Assignees = Annotated[Sequence[Annotated[str, Field(max_length=200)]], Field(max_length=MOST_ASSIGNEES)]
_CHOICES = {"cause": get_args(Cause), "status": get_args(Status), "priority": get_args(Priority)}


@dataclass(frozen=True, slots=True)
class JudgeExample:
    """An answer that a judge scored wrongly, kept with its task.

    Attributes:
        judge_value, reason: What the judge said, on the metric's own scale.
        value: What the person says, on the same scale; None if they did not.
    """

    metric: str
    question: str
    answer: str | None
    judge: str | None
    judge_value: object
    reason: str | None
    value: object = None


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task to create.

    Attributes:
        assignees: Names of people of the project.
        run: The id of the run that it is about; `position` is an answer in it, `metric` one of the answer's scores.
        dataset, case_id: The case that it is about; those of the answer if there is one.
        value: What a person says in place of the judge, for `JudgeExample`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # also the body of REST requests
    title: Title
    description: Description = ""
    cause: Cause = "unknown"
    status: Status = "open"
    priority: Priority = "normal"
    assignees: Assignees = ()
    run: Annotated[str | None, Field(max_length=200)] = None
    position: (
        Annotated[int, Field(ge=0, lt=INTEGER_END, description="An answer's position in the run, from 0.")] | None
    ) = None
    metric: Annotated[str | None, Field(max_length=500)] = None
    dataset: Annotated[str | None, Field(max_length=500)] = None
    case_id: Annotated[str | None, Field(max_length=2000)] = None
    value: Annotated[bool | float | str | None, Field(description="A person's value in place of the judge's.")] = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Attributes:
        rank: By priority; 0 is the highest.
        run: The id of its run; None without one, or once the run is deleted.
        bot: The run's bot.
        question: Its question; None if neither its run, its case nor its example has one.
        example: The score that it is about, as it was then; None if it is about no score.
        comments: How many there are.
        version: Counts changes.
    """

    id: int
    rank: Hidden[int]
    title: str
    description: str
    cause: Cause
    status: Status
    priority: Priority
    assignees: Sequence[str]
    run: str | None
    bot: str | None
    position: int | None
    metric: str | None
    dataset: str | None
    case_id: str | None
    question: str | None
    example: JudgeExample | None
    comments: int
    created_by: str
    version: int
    created_at: str
    updated_at: str

    @property
    def name(self) -> str:
        """Its title, which names it in the audit."""
        return self.title


@dataclass(frozen=True, slots=True)
class TaskBoard:
    """The number of tasks in each status, and the bots that tasks are about."""

    counts: Mapping[Status, int] = field(default_factory=dict[Status, int])
    bots: Sequence[str] = ()


@requires("edit")
def create_task(space: Workspace, draft: TaskDraft) -> Task:
    """Create a task. UserError for a value that is none; NotFoundError for an unknown run or answer."""
    fields = ("title", "description", "cause", "status", "priority", "assignees")
    values = _checked(space, {name: getattr(draft, name) for name in fields})
    values |= {"project_id": space.project_id, "created_by": space.identify().name, "example": {}}
    values |= _about(space, draft)
    with space.changing("create", "task", values["title"]) as connection:
        row = definitions.add(connection, "task", values)
    return get_task(space, row)


@requires("read")
def list_tasks(
    space: Workspace, query: TaskQuery | None = None, cursor: str | None = None, limit: int = 50
) -> Page[Task]:
    """Tasks by priority, high first, then the newest first."""
    wanted, after = _known_run(space, query), place_of(cursor, int, int)
    records = space.read(stored.page, space.project_id, wanted, after, limit + 1)
    tasks = [_task(row) for row in records[:limit]]
    return Page(tasks, f"{tasks[-1].rank},{tasks[-1].id}" if len(records) > limit else None)


@requires("read")
def task_board(space: Workspace, query: TaskQuery | None = None) -> TaskBoard:
    """How many tasks match in each status (that of the query aside), and the bots of all tasks of the project."""
    counts: dict[Any, int] = space.read(stored.counts, space.project_id, _known_run(space, query))
    return TaskBoard(counts, space.read(stored.bots, space.project_id))


@requires("read")
def get_task(space: Workspace, task: int) -> Task:
    """One task."""
    row = space.read(stored.get, space.project_id, task) if 0 < task < INTEGER_END else None
    if row is None:
        raise not_found("task", str(task), [])
    return _task(row)


@requires("edit")
def update_task(space: Workspace, task: int, expected: int, values: Mapping[str, Any]) -> Task:
    """Change title, description, cause, status, priority or assignees; `expected` is the version it is based on."""
    old = get_task(space, task)
    TASKS.change(space, old, expected, _checked(space, values, old.assignees))
    return get_task(space, task)


@requires("edit")
def delete_task(space: Workspace, task: int, expected: int) -> None:
    """Delete a task with its comments."""
    TASKS.delete(space, get_task(space, task), expected)


@requires("read")
def judge_examples(space: Workspace) -> Iterator[tuple[Task, JudgeExample]]:
    """The tasks with cause judge and the scores that they are about."""
    for task in every_item(lambda cursor: list_tasks(space, TaskQuery(cause="judge"), cursor, 500)):
        if task.example is not None:
            yield task, task.example


@requires("read")
def people_of(space: Workspace) -> list[str]:
    """Names of those who may be assigned: those who may edit."""
    return [one.name for one in people_who_may(space, "edit")]


def _known_run(space: Workspace, query: TaskQuery | None) -> TaskQuery:
    """The query, or that for all; NotFoundError if its run does not exist."""
    if query is not None and query.run is not None:
        run_row(space, query.run)
    return query or TaskQuery()


def _task(row: Row) -> Task:
    example = JudgeExample(**row["example"]) if row["example"] else None
    asked = row["question"] or (example and example.question)
    return from_row(Task, row, run=row["run_id"], question=asked, example=example)


TASKS = DefinitionStore("task", _task)


def _checked(space: Workspace, values: Mapping[str, Any], assigned: Sequence[str] = ()) -> dict[str, Any]:
    """The values as columns; UserError names all that cannot be. Those `assigned` before may stay."""
    columns, problems = dict(values), list[Problem]()
    if "title" in values:
        columns["title"] = " ".join(storable(values["title"]).split())
        if not 0 < len(columns["title"]) <= LONGEST_TITLE:
            problems.append(Problem(f"a title has 1 to {LONGEST_TITLE} characters", "task.title"))
    if "description" in values:
        columns["description"] = storable(values["description"]).strip()
        if len(columns["description"]) > LONGEST_TEXT:
            problems.append(Problem(f"a description has at most {LONGEST_TEXT:,} characters", "task.description"))
    for name, known in _CHOICES.items():
        if name in values and values[name] not in known:
            problems.append(Problem(f"{values[name]!r} is none of {', '.join(known)}", f"task.{name}"))
    if "assignees" in values:
        columns["assignees"] = list(dict.fromkeys(values["assignees"]))
        known = people_of(space)
        if strangers := [name for name in columns["assignees"] if name not in {*known, *assigned}]:
            hint = f"choose from {', '.join(known)}"
            what = f"{', '.join(map(repr, strangers))} cannot be assigned: no editor of this project has this name"
            problems.append(Problem(what, "task.assignees", hint))
    if problems:
        raise UserError(problems)
    return columns


def _about(space: Workspace, draft: TaskDraft) -> dict[str, Any]:
    """The columns that say what a task is about, and the score as it is now."""
    if draft.run is None:
        if draft.position is not None or draft.metric is not None:
            raise UserError(Problem("an answer or a score needs its run", "task.run", "name the run as well"))
        return {name: _plain(getattr(draft, name)) for name in ("dataset", "case_id")}
    run = run_row(space, draft.run)
    if draft.position is None:
        return {"run": run.id, **{name: _plain(getattr(draft, name)) for name in ("metric", "dataset", "case_id")}}
    with space.database.reading() as connection:
        scores = RunScores(connection, run.id)
        answer = scores.answer(draft.position) if 0 <= draft.position < INTEGER_END else None
        if answer is None:
            raise not_found("answer", str(draft.position), [])
        own = scores.page(ScoreFilter(metric=draft.metric, positions=[draft.position]), None, 1) if draft.metric else []
    if draft.metric and not own:
        raise not_found("metric", draft.metric, [])
    columns: dict[str, Any] = {"run": run.id, "position": draft.position, "metric": draft.metric}
    for score in own:
        judge_value = score.value if score.value is not None else score.score
        names = ("metric", "question", "answer", "judge", "reason")
        columns["example"] = {name: getattr(score, name) for name in names}
        is_truth = isinstance(judge_value, bool) and draft.value in (0, 1)  # labels of checks are numbers
        columns["example"] |= {"judge_value": judge_value, "value": bool(draft.value) if is_truth else draft.value}
    return {**columns, "dataset": answer.dataset, "case_id": answer.case_id}


def _plain(text: str | None) -> str | None:
    return None if text is None else storable(text)

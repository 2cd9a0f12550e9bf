"""Tasks: the board, a new one, and one task with its comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast, get_args

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Edited, carry_out, delete_button, question
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import metric_title
from evalflow.addons.studio.web.ui.parts import address, badge, button, empty, facts, link_button, section, text
from evalflow.addons.studio.web.ui.score import readable
from evalflow.addons.studio.web.ui.verdict import CAUSES, STATUSES, CommentList
from evalflow.addons.studio.web.ui.visitor import local_time, may, name_here, title_of
from evalflow.addons.studio.work import tasks
from evalflow.addons.studio.work.comments import CommentedOn
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.space import NotFoundError, Page, Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.addons.studio.work.verdicts import score_verdicts
from evalflow.errors import Problem, UserError
from evalflow.report.wording import counted, joined

PAGE_SIZE = 25
_PRIORITIES = {"high": "High", "normal": "Normal", "low": "Low"}
_ABOUT = "What to fix in bots, test cases and judges, and who does it."
_TITLE = forms.About("Title", "What is to be done.", "Quote the fee in full", required=True)
_DESCRIPTION = forms.About("Description", "What is wrong, and how you know.")
_ASSIGNEES = forms.About("Assigned to")


@guarded_page("/tasks")
async def _board_page(
    workspace: Workspace, mine: str = "", status: str = "", cause: str = "", bot: str = "", cursor: str = ""
) -> None:
    given = {"mine": mine, "status": status, "cause": cause, "bot": bot}
    query = tasks.TaskQuery(
        _known(status, tasks.Status), _known(cause, tasks.Cause), name_here() if mine else None, bot or None
    )
    board = await to_thread.run_sync(lambda: tasks.task_board(workspace, replace(query, status=None)))
    columns: Sequence[tasks.Status] = [query.status] if query.status else get_args(tasks.Status)
    by_status: dict[tasks.Status, Page[tasks.Task]] = {}
    for one in columns:
        wanted = replace(query, status=one)
        by_status[one] = await to_thread.run_sync(
            partial(tasks.list_tasks, workspace, wanted, cursor or None, PAGE_SIZE)
        )
    with frame("Tasks", place="Tasks", about=_ABOUT) as actions:
        has_some = bool(board.counts) or any(given.values())
        if may("edit") and has_some:
            with actions:
                link_button("New task", "/tasks/new", primary=True)
        if not has_some:
            _none_yet()
            return
        _filter(given, board)
        with ui.element("div").classes("board single" if query.status else "board"):
            for one, page in by_status.items():
                _column(one, page, board.counts.get(one, 0), given)


@guarded_page("/tasks/new", "edit")
async def _new_page(workspace: Workspace, cause: str = "", run: str = "", position: str = "", metric: str = "") -> None:
    place = int(position) if position.isascii() and position.isdecimal() and len(position) < 10 else None
    draft = tasks.TaskDraft(
        "", cause=_known(cause, tasks.Cause) or "unknown", run=run or None, position=place, metric=metric or None
    )
    if draft.run is not None and place is not None and draft.metric is not None:
        judgements = await to_thread.run_sync(score_verdicts, workspace, draft.run, place, draft.metric)
        draft = replace(draft, value=next((one.value for one in judgements.verdicts if one.is_mine), None))
    people = await to_thread.run_sync(tasks.people_of, workspace)
    about = ""
    if run and place is not None and metric:
        scored = await to_thread.run_sync(get_run, workspace, run)
        about = f"About the score of {metric_title(scored, metric)} for one answer"
    with frame("New task", place="Tasks", trail=[("Tasks", "/tasks")], about=about):
        _NewTask(workspace, draft, people)


@guarded_page("/tasks/{task}")
async def _one_page(workspace: Workspace, task: str) -> None:
    if not (task.isascii() and task.isdecimal() and len(task) < 10):
        raise NotFoundError(Problem(f"there is no task {task!r}", "task"))
    shown_task = await to_thread.run_sync(tasks.get_task, workspace, int(task))
    people = await to_thread.run_sync(tasks.people_of, workspace)
    with frame(shown_task.title, place="Tasks", trail=[("Tasks", "/tasks")]) as actions:
        comments = _TaskPage(workspace, shown_task, people, actions).comments
        await comments.load()


def _known(value: str, choices: Any) -> Any:
    """The value from the address if it is one of the choices; None if it is empty."""
    if value and value not in get_args(choices):
        raise UserError(Problem(f"{value!r} is none of {', '.join(get_args(choices))}", "address"))
    return value or None


def _none_yet() -> None:
    about = "Open one from a score in the results of a run, where you see what is wrong, or write one here."
    if may("edit"):
        empty("task_alt", "No tasks yet", about, ("New task", "/tasks/new"))
    else:
        empty("task_alt", "No tasks yet", "Editors of the project open them.")


def _filter(given: Mapping[str, str], board: tasks.TaskBoard) -> None:
    def go(**changed: str) -> str:
        return address("/tasks", {**given, **changed})

    with ui.element("div").classes("filtered").props('role=search aria-label="Which tasks"'):
        with ui.element("div").classes("switch"):
            for caption, mine in (("All", ""), ("Mine", "1")):
                ui.link(caption, go(mine=mine)).props('aria-current="true"' if given["mine"] == mine else "")
        for label, name, options in (
            ("Status", "status", {"": "Every status", **STATUSES}),
            ("Cause", "cause", {"": "Every cause", **CAUSES}),
            (
                "Bot",
                "bot",
                {
                    "": "Every bot",
                    **{bot: title_of("bot", bot) for bot in dict.fromkeys([*board.bots, given["bot"]]) if bot},
                },
            ),
        ):
            with ui.element("div").classes("field"):
                around = text(label, "label", "small muted")
                field = ui.select(options, value=given[name]).props("outlined dense")
            forms.tie(around, field)
            field.on_value_change(lambda event, name=name: ui.navigate.to(go(**{name: event.value})))


def _column(status: tasks.Status, page: Page[tasks.Task], count: int, given: Mapping[str, str]) -> None:
    with ui.element("section").classes(status):
        with text("", "h2"):
            text(STATUSES[status], "span")
            text(f"{count:,}", "span", "muted small")
        if not page.items:
            text("No matching tasks" if any(given.values()) else "None", "p", "none muted small")
        with ui.element("ul"):
            for task in page.items:
                with ui.element("li"):
                    _card(task)
        if page.next is not None:
            with ui.element("nav").classes("actions page-nav").props(f'aria-label="{STATUSES[status]}: pages"'):
                link_button("More", address("/tasks", {**given, "status": status, "cursor": page.next}))


def _card(task: tasks.Task) -> None:
    with ui.link(target=f"/tasks/{task.id}").classes("card"):
        text(task.title, "h3")
        text(joined(*_place(task), case_title(task.question, task.case_id)), "p", "muted small line")
        with ui.element("div").classes("foot"):
            if task.priority != "normal":
                badge(f"{task.priority} priority", "warn" if task.priority == "high" else "")
            if task.cause != "unknown":
                badge(CAUSES[task.cause].lower(), "accent")
            if task.assignees:
                text(", ".join(task.assignees), "span", "small")
            if task.comments:
                text(counted(task.comments, "comment"), "span", "small muted")


class _NewTask:
    """The form of a new task, prefilled from its subject."""

    def __init__(self, workspace: Workspace, draft: tasks.TaskDraft, people: Sequence[str]) -> None:
        self._workspace, self._draft = workspace, draft
        with forms.form(kept=True):
            self._title = forms.line(_TITLE)
            self._description = forms.area(_DESCRIPTION)
            with forms.pair():
                self._cause = forms.pick(forms.About("What is wrong?", required=True), CAUSES, draft.cause)
                self._priority = forms.pick(forms.About("Priority", required=True), _PRIORITIES, draft.priority)
            self._assignees = forms.several(_ASSIGNEES, {name: name for name in people}, [], searched=True)
            with ui.element("div").classes("actions"):
                self._creating = button("Create", self._create, kind="primary")
                link_button("Cancel", "/tasks")

    async def _create(self) -> None:
        title = forms.required(self._title)
        if title is None:
            return
        draft = replace(
            self._draft,
            title=title,
            description=forms.written(self._description) or "",
            cause=cast("tasks.Cause", self._cause.value),
            priority=cast("tasks.Priority", self._priority.value),
            assignees=list(self._assignees.value),
        )
        fields = {"task.title": self._title, "task.description": self._description, "task.assignees": self._assignees}
        create = partial(tasks.create_task, self._workspace, draft)
        await carry_out(create, lambda made: forms.leave(f"/tasks/{made.id}"), fields, self._creating)


class _TaskPage:
    """One task. The choices beside it are saved at once; title and description have a dialog."""

    def __init__(self, workspace: Workspace, task: tasks.Task, people: Sequence[str], actions: ui.element) -> None:
        self._workspace, self._task = workspace, task
        with actions:
            if may("edit"):
                button("Edit", self._editing().open)
                self._delete_button()
        with ui.element("div").classes("task-page"):
            with ui.element("div"):
                if task.description:
                    text(task.description, classes="text")
                _subject(task)
                with section("Comments"):
                    self.comments = CommentList(workspace, CommentedOn(task=task.id))
            with ui.element("div").classes("side card"):
                self._side(task, people)

    def _side(self, task: tasks.Task, people: Sequence[str]) -> None:
        known = {name: name for name in dict.fromkeys([*people, *task.assignees])}
        if may("edit"):
            self._pick("Status", "status", STATUSES)
            self._pick("What is wrong?", "cause", CAUSES)
            self._pick("Priority", "priority", _PRIORITIES)
            field = forms.several(_ASSIGNEES, known, list(task.assignees))
            field.on_value_change(lambda: self._save("assignees", list(field.value)))
        else:
            assignees = ", ".join(task.assignees) or "nobody"
            facts(
                [
                    ("Status", STATUSES[task.status]),
                    ("What is wrong", CAUSES[task.cause]),
                    ("Priority", _PRIORITIES[task.priority]),
                    ("Assigned to", assignees),
                ]
            )
        text(f"Opened by {task.created_by} on {local_time(task.created_at)}", "p", "small muted")

    def _pick(self, label: str, name: str, options: Mapping[str, str]) -> None:
        field = forms.pick(forms.About(label, required=True), options, getattr(self._task, name))
        field.on_value_change(lambda: self._save(name, field.value))

    async def _save(self, name: str, value: Any) -> None:
        """Save what was chosen. If somebody else has changed the task, the page shows what it is now."""
        changed = await forms.attempt(
            partial(tasks.update_task, self._workspace, self._task.id, self._task.version, {name: value})
        )
        if changed is not None:
            self._task = changed
        elif (now := await forms.attempt(lambda: tasks.get_task(self._workspace, self._task.id))) is not None:
            self._task = now

    def _editing(self) -> ui.dialog:
        async def save(saving: ui.button) -> None:
            if (new_title := forms.required(title)) is None:
                return
            values = {"title": new_title, "description": forms.written(description) or ""}
            work = partial(tasks.update_task, self._workspace, self._task.id, self._task.version, values)
            fields = {"task.title": title, "task.description": description}
            await carry_out(work, lambda changed: forms.leave(f"/tasks/{changed.id}", edited), fields, saving)

        with question("Edit the task", "", "Save", save) as asked, forms.form(kept=True) as edited:
            title = forms.line(_TITLE, self._task.title)
            description = forms.area(_DESCRIPTION, self._task.description)
        return asked

    def _delete_button(self) -> None:
        task = self._task
        seen = Edited(partial(tasks.get_task, self._workspace, task.id), _content, task)
        delete = partial(tasks.delete_task, self._workspace, task.id)
        delete_button(seen, f"“{task.title}”", "Its comments are deleted with it.", delete, "/tasks")


def _content(task: tasks.Task) -> Mapping[str, Any]:
    names = ("title", "description", "cause", "status", "priority", "assignees")
    return {name: value for name, value in asdict(task).items() if name in names}


def _subject(task: tasks.Task) -> None:
    """The subject of the task: the answer, and the judge's reason."""
    if task.example is None and task.case_id is None and task.run is None:
        return
    with section("About"):
        if task.example is not None:
            _example(task.example, task.bot or "")
        else:
            dataset = title_of("dataset", task.dataset) if task.dataset else None
            text(joined(*_place(task), dataset, case_title(task.question, task.case_id)), "p", "muted")
        with ui.element("div").classes("actions"):
            if task.run is not None:
                path = f"/runs/{task.run}" + ("" if task.position is None else f"/cases/{task.position}")
                link_button("Open the result" if task.position is not None else "Open the run", path)
            elif task.example is not None:
                text("Its run was deleted; this is what it showed.", "p", "muted small")


def _place(task: tasks.Task) -> tuple[str | None, str | None]:
    bot = title_of("bot", task.bot) if task.bot else None
    return bot, title_of("metric", task.metric, task.bot or "") if task.metric else None


def _example(example: tasks.JudgeExample, bot: str) -> None:
    with ui.element("div").classes("card stack"):
        for name, content in (("Question", example.question), ("Answer", example.answer or "No answer")):
            with ui.element("div"):
                text(name, classes="small muted")
                text(content, classes="text")
        judge = title_of("judge", example.judge) if example.judge else ""
        facts(
            [
                ("Metric", title_of("metric", example.metric, bot)),
                (f"Judge ({judge})" if judge else "Score", readable(example.judge_value)),
                ("A person says", "" if example.value is None else readable(example.value)),
            ]
        )
        if example.reason:
            with ui.element("div"):
                text("Reason", classes="small muted")
                text(example.reason, classes="text")

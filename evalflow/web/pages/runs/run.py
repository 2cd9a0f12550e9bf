"""One run: watched while it is under way, read once it has ended."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_files import RunFile, list_files
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.runs import (
    cancel_run,
    changed_request,
    create_run,
    delete_run,
    get_run,
    resume_run,
    retry_errors,
)
from evalflow.app.workspace.scores import run_tags
from evalflow.errors import UserError
from evalflow.web.pages.address import page
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, button, facts, link_button, message, section, text
from evalflow.web.pages.runs.copy import copyable
from evalflow.web.pages.runs.files import files
from evalflow.web.pages.runs.onward import Onward
from evalflow.web.pages.runs.results import Results
from evalflow.web.pages.runs.score_filter import Wanted
from evalflow.web.pages.runs.watch import Watch
from evalflow.web.pages.runs.words import ACTIVE, name_of, state_of, took, when

LOOK_S = 0.5
"""Between two looks at a run under way; the worker writes down how far it is once a second."""
_INCONCLUSIVE = 3
_GATE_FAILED = 1


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/runs/{run}")
    async def one(
        run: str,
        metric: str = "",
        status: str = "",
        tag: str = "",
        search: str = "",
        low: str = "",
        high: str = "",
        sort: str = "",
        page: str = "",
    ) -> None:
        found = await to_thread.run_sync(get_run, workspace, run)
        beside = await to_thread.run_sync(_beside, workspace, found)
        with frame(name_of(found), place="Runs", trail=[("Runs", "/runs")]) as actions:
            RunView(workspace, found, beside, Wanted(metric, status, tag, search, low, high, sort, page), actions)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a page shows beside the run itself."""

    tags: list[tuple[str, int]]
    files: list[RunFile]


class RunView:
    """The page of a run. It follows a run that is under way, and becomes its results in place when it has ended.

    Args:
        workspace: The door to what is stored.
        run: As it is now.
        beside: What else there is of it.
        wanted: Which scores are to be seen at first.
        actions: The element beside the heading.
    """

    def __init__(self, workspace: Workspace, run: Run, beside: _Beside, wanted: Wanted, actions: ui.element) -> None:
        self._workspace, self._run, self._actions = workspace, run, actions
        self._watch: Watch | None = None
        self._above = ui.element("div")
        self._results = Results(workspace, run, wanted, beside.tags)
        self._below = ui.element("div")
        self._build(beside.files)
        ui.timer(0, self._results.fill, once=True)
        if run.state in ACTIVE:
            self._timer = ui.timer(LOOK_S, self._look)

    def _build(self, found: list[RunFile]) -> None:
        """All but the results; in the place of what is there."""
        for place in (self._actions, self._above, self._below):
            place.clear()
        with self._actions:
            _actions(self._workspace, self._run)
        with self._above:
            state = _said(self._run)
            if self._run.facts:
                Onward(self._workspace, self._run)
            if self._run.state in ACTIVE:
                self._watch = Watch(self._run, state)
            else:
                _ending(self._run)
        with self._below:
            files(self._run.run_id, found)
            _repeating(self._run)

    async def _look(self) -> None:
        before, self._run = self._run, await to_thread.run_sync(get_run, self._workspace, self._run.run_id)
        if self._run.state not in ACTIVE:
            self._timer.deactivate()
            beside = await to_thread.run_sync(_beside, self._workspace, self._run)
            self._build(beside.files)
            self._results.show(self._run, beside.tags)
            await self._results.fill()
        elif self._run != before and self._watch is not None:
            self._watch.show(self._run)
            if self._run.progress.done != before.progress.done:
                await self._results.add()


def _beside(workspace: Workspace, run: Run) -> _Beside:
    return _Beside(run_tags(workspace, run.run_id), _files(workspace, run))


def _files(workspace: Workspace, run: Run) -> list[RunFile]:
    """None where its folder lies elsewhere now."""
    try:
        return list_files(workspace, run.run_id) if run.facts else []
    except UserError:
        return []


def _said(run: Run) -> TextElement:
    """Its state and what it is, in a line; gives the badge of the state."""
    with ui.element("div").classes("actions said-of-run"):
        state = badge(*state_of(run))
        if run.origin != "workspace":
            badge(run.origin)
        cost = f"${run.cost_usd:,.4f}" if run.cost_usd is not None else ""
        parts = [run.bot, when(run.created_at), took(run) and f"took {took(run)}", cost]
        text(" · ".join(part for part in parts if part), "span", "muted small")
    return state


def _ending(run: Run) -> None:
    """Why it ended as it did, and what comes next, unless all went well."""
    errors = run.progress.errors
    if run.state == "failed":
        resume = "Resume goes on with this run's own settings: what is finished is not asked again."
        again = "Start again takes the bot and the metrics as they are now; replies that it remembers cost nothing. "
        hint = f"{again}{resume}" if run.request is not None else resume
        message(run.message or "It failed without an error message; its folder has a log.", hint, "fail")
    elif run.state in ("cancelled", "interrupted"):
        done, expected = run.progress.done, run.progress.expected
        far = f" at {done:,} of {expected:,} scores" if expected else ""
        message(f"It was {run.state}{far}.", "Resume it to finish; nothing that is finished is asked again.", "warn")
    elif run.message:
        message(run.message, "Its files are untouched; see its folder below.", "warn")
    elif run.exit_code == _INCONCLUSIVE and errors:
        hint = "Errors count in no mean. Ask them again, or look at them below."
        message(f"The run is inconclusive: errors at {errors:,} of {run.progress.done:,} scores.", hint, "warn")
    elif run.exit_code == _GATE_FAILED:
        message("A gate failed.", "See the gates below.", "fail")


def _actions(workspace: Workspace, run: Run) -> None:
    def act(work: Callable[[Workspace, str], Run], done: str) -> Callable[[], object]:
        async def acted() -> None:
            if await attempt(lambda: work(workspace, run.run_id)):
                tell(done)
                ui.navigate.reload()

        return acted

    if run.state in ACTIVE:
        if not run.cancelling:
            button("Cancel the run", act(cancel_run, "It stops."), kind="danger")
        return
    if run.request is not None and run.state == "failed":
        key = f"again-{uuid.uuid4().hex}"

        async def start() -> None:
            made = await attempt(lambda: create_run(workspace, changed_request(run), key), by=starting)
            if made is not None:
                ui.navigate.to(f"/runs/{made.run_id}")

        starting = button("Start again", start, kind="primary")
    if run.request is not None:
        link_button("Run again with changes", f"/runs/new?source={run.run_id}", primary=run.state == "done")
    if run.state == "done" and run.progress.errors and run.origin == "workspace":
        errors = "error" if run.progress.errors == 1 else f"{run.progress.errors:,} errors"
        button(f"Ask again the {errors}", act(retry_errors, "What failed is asked again."))
    if run.state != "done":
        starts_again = run.state == "failed" and run.request is not None
        button("Resume", act(resume_run, "It goes on."), kind="" if starts_again else "primary")
    button("Delete", _deletion(workspace, run).open, kind="danger")


def _deletion(workspace: Workspace, run: Run) -> ui.dialog:
    async def delete() -> None:
        if await attempt(lambda: delete_run(workspace, run.run_id) or True, by=confirmed):
            ui.navigate.to("/runs")

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text("Delete this run?", "h2")
        text("It goes from these pages; its folder with all files stays, and can be opened again.", "p", "muted")
        with ui.element("div").classes("actions"):
            confirmed = button("Delete", delete, kind="danger")
            button("Keep it", asked.close)
    asked.props["aria-label"] = "Delete this run?"
    return asked


def _repeating(run: Run) -> None:
    with section("Repeat it", "The same run from a terminal, in the folder that this application was started in."):
        if run.repeat:
            copyable(run.repeat)
        facts([("Run", run.run_id), ("Folder", str(run.folder))])

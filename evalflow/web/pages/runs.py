"""The runs, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.core.saved import ProgramError
from evalflow.app.studio.runs import Run, list_runs, open_run
from evalflow.app.studio.space import Page, Workspace
from evalflow.errors import EvalflowError
from evalflow.report.wording import number, without_means_of_figures
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import confirmation, folder_dialog
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import Tone, badge, button, empty, link_button, polled, text
from evalflow.web.ui.visitor import local_time, may

STATES: dict[str, tuple[str, Tone]] = {
    "queued": ("waiting", "accent"),
    "running": ("running", "accent"),
    "done": ("done", "pass"),
    "failed": ("failed", "fail"),
    "cancelled": ("cancelled", "warn"),
    "interrupted": ("interrupted", "warn"),
}
ACTIVE = ("queued", "running")


def name_of(run: Run) -> str:
    """The run's title, or else its bot and datasets."""
    if run.title:
        return run.title
    datasets = run.request.datasets if run.request else list(run.facts.get("datasets", ()))
    return f"{run.bot} on {', '.join(datasets)}" if datasets else run.run_id


def metrics_of(run: Run) -> list[str]:
    """Names of the run's metrics; empty if not known yet."""
    return list(run.request.metrics) if run.request else [one["name"] for one in run.facts.get("metrics", [])]


def history_path(run: Run, metric: str) -> str:
    """The URL of a metric's history, on the first of the run's datasets."""
    words = {"bot": run.bot, "dataset": next(iter(run.facts.get("datasets", ())), ""), "metric": metric}
    return f"/history?{urlencode(words)}"


def state_of(run: Run) -> tuple[str, Tone]:
    """The run's state as a word, with its colour."""
    if run.state == "running" and run.cancelling:
        return "stopping", "warn"
    return STATES[run.state]


def when(moment: str | None) -> str:
    """A database time in the visitor's zone; empty without one."""
    return local_time(moment) if moment else ""


def duration(run: Run) -> str:
    """Duration of the run; empty if it has not ended."""
    if not run.started_at or not run.finished_at:
        return ""
    seconds = (datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)).total_seconds()
    return seconds_in_words(max(seconds, 0.0))


def seconds_in_words(seconds: float) -> str:
    """Format a duration: 8 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


PAGE_SIZE = 25
POLL_S = 1.5
"""Seconds between polls of runs in progress."""
SHOWN_SCORES = 4


def add() -> None:
    """Register the page."""

    @guarded_page("/runs")
    async def runs(workspace: Workspace, cursor: str | None = None) -> None:
        found = await to_thread.run_sync(lambda: list_runs(workspace, cursor, PAGE_SIZE))
        about = "Each run evaluates a bot on test cases with metrics."
        with frame("Runs", place="Runs", about=about) as actions:
            with actions:
                if may("own"):
                    button("Open a folder", _open_dialog(workspace).open)
                if found.items and may("edit"):
                    link_button("New run", "/runs/new", primary=True)
            if found.items:
                _RunList(workspace, cursor, found)
            else:
                _none_yet(is_first=cursor is None)


class _RunList:
    """A page of runs, which is refreshed while one of them is in progress."""

    def __init__(self, workspace: Workspace, cursor: str | None, found: Page[Run]) -> None:
        self._workspace, self._cursor, self._found = workspace, cursor, found
        self._rows = ui.element("ul").classes("runs")
        self._show()
        with ui.element("nav").classes("actions page-nav").props('aria-label="Pages"'):
            if cursor is not None:
                link_button("Newest", "/runs")
            if found.next is not None:
                link_button("Older", f"/runs?cursor={found.next}")
        self._timer = polled(POLL_S, self._poll, active=self._has_active())

    def _has_active(self) -> bool:
        return any(run.state in ACTIVE for run in self._found.items)

    def _show(self) -> None:
        self._rows.clear()
        with self._rows:
            for run in self._found.items:
                _row(run)

    async def _poll(self) -> None:
        found = await to_thread.run_sync(lambda: list_runs(self._workspace, self._cursor, PAGE_SIZE))
        if found.items != self._found.items:
            self._found = found
            self._show()
        if not self._has_active():
            self._timer.deactivate()


def _row(run: Run) -> None:
    with ui.element("li"), ui.link(target=f"/runs/{run.run_id}").classes("card run"):
        with ui.element("div").classes("what"):
            text(name_of(run), "h2")
            text(", ".join(metrics_of(run)) or run.run_id, "p", "muted small line")
            if run.state in ACTIVE and run.progress.expected:
                text(f"{run.progress.done:,} of {run.progress.expected:,} scores", "p", "muted small")
        with ui.element("div").classes("overall"):
            for row in _figures(run.facts)[:SHOWN_SCORES]:
                with ui.element("div"):
                    text(number(row["value"], 2), classes="reading")
                    text(str(row["metric"]), classes="muted small line")
        with ui.element("div").classes("state"):
            badge(*state_of(run))
            if run.origin != "workspace":
                badge(run.origin)
            text(when(run.created_at), classes="muted small")


def _figures(facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    first: dict[str, Mapping[str, Any]] = {}
    for row in without_means_of_figures(facts.get("summary", [])):
        first.setdefault(row["metric"], row)
    return list(first.values())


def _none_yet(*, is_first: bool) -> None:
    if not is_first:
        with empty("history", "No older runs", "This is the end of the list."):
            link_button("To the newest", "/runs", primary=True)
        return
    if not may("edit"):
        with empty("play_circle", "No runs yet", "Editors of the project start them."):
            pass
        return
    about = "Pick a bot, test cases and metrics; check the estimate; then start and watch it run."
    with empty("play_circle", "Start your first run", about):
        link_button("New run", "/runs/new", primary=True)


def _open_dialog(workspace: Workspace) -> ui.dialog:
    async def take(path: str, field: forms.Field, _: ui.button) -> None:
        await open_folder(path, field, trust_program=False)

    async def open_folder(path: str, field: forms.Field, *, trust_program: bool) -> None:
        try:
            run = await to_thread.run_sync(partial(open_run, workspace, Path(path), trust_program=trust_program))
        except ProgramError as error:
            about = f"{error.problems[0].what}. Open it only if you trust whoever made it."
            trusted = partial(open_folder, path, field, trust_program=True)
            confirmation("This run starts a program", about, "Open anyway", trusted, keep="Cancel").open()
        except EvalflowError as error:
            field.error = str(error)
        else:
            ui.navigate.to(f"/runs/{run.run_id}")

    help = "The folder of a run made on the command line; its files stay where they are."
    folder = forms.About("Folder", help, "outputs/latest", required=True)
    return folder_dialog("Open a run of the command line", "", folder, "Open", take)

"""A run under way, as it goes: how far, how fast, what it costs, and what came last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Progress, Run
from evalflow.app.workspace.runs import get_run
from evalflow.report.wording import cost, number
from evalflow.web.pages.parts import badge, text
from evalflow.web.pages.runs.words import ACTIVE, span, state_of

LOOK_S = 0.5
"""Between two looks; the worker writes progress down once a second."""


class Watch:
    """A card that follows a run, and shows the page anew when the run has ended.

    Args:
        workspace: The door to what is stored.
        run: As the page was built for it.
        state: The badge of its state, which follows, too: most pages are opened before a worker has claimed the run.
    """

    def __init__(self, workspace: Workspace, run: Run, state: TextElement) -> None:
        self._workspace, self._run, self._state = workspace, run, state
        with ui.element("div").classes("card stack watch"):
            self._what = text("", "h2").props("aria-live=polite")
            with (
                ui.element("div").classes("progress").props("role=progressbar aria-valuemin=0 aria-valuemax=100") as bar
            ):
                self._filled = ui.element("i")
            self._bar = bar
            bar.props["aria-label"] = "Finished scores"
            with ui.element("dl").classes("facts tight"):
                self._facts = {name: _fact(name) for name in ("Done", "Errors", "Rate", "Cost so far", "Time left")}
            text("Came last", "h3")
            self._latest = ui.element("ul").classes("latest")
        self._show()
        self._timer = ui.timer(LOOK_S, self._look)

    async def _look(self) -> None:
        run = await to_thread.run_sync(get_run, self._workspace, self._run.run_id)
        if run.state not in ACTIVE:
            self._timer.deactivate()
            ui.navigate.reload()
        elif run != self._run:
            self._run = run
            self._show()

    def _show(self) -> None:
        progress = self._run.progress
        word, tone = state_of(self._run)
        self._state.set_text(word)
        self._state.classes(replace=f"badge {tone}")
        self._what.set_text(_doing(self._run))
        share = min(1.0, progress.done / progress.expected) if progress.expected else 0.0
        self._filled.style(f"width: {100 * share:.1f}%")
        self._bar.props["aria-valuenow"] = round(100 * share)
        for name, value in _numbers(progress).items():
            self._facts[name].set_text(value)
        self._latest.clear()
        with self._latest:
            _latest(progress.latest)


def _fact(name: str) -> TextElement:
    with ui.element("div"):
        text(name, "dt")
        return text("", "dd")


def _doing(run: Run) -> str:
    progress = run.progress
    if run.cancelling:
        return "Stopping: what is under way is finished first"
    if run.state == "queued":
        return "Waiting for the worker"
    if progress.loaded:
        return "Putting the scores on this page"
    if progress.done:
        return "Scoring"
    return "Asking the bot" if progress.answers else "Starting"


def _numbers(progress: Progress) -> dict[str, str]:
    expected = f" of {progress.expected:,}" if progress.expected else ""
    left = progress.seconds_left
    return {
        "Done": f"{progress.done:,}{expected} scores",
        "Errors": f"{progress.errors:,}",
        "Rate": f"{progress.rate:,.1f} a second" if progress.rate else "–",
        "Cost so far": cost(progress.cost_usd),
        "Time left": "–" if left is None else f"about {span(left)}",
    }


def _latest(scores: Sequence[Mapping[str, Any]]) -> None:
    if not scores:
        text("Nothing yet.", "li", "muted")
    for score in scores:
        with ui.element("li"):
            if score["status"] == "scored":
                text(number(score["score"], 2), "span", "reading")
            else:
                badge(score["status"], "fail" if score["status"] == "error" else "")
            text(f"{score['metric']} · {score['case_id']}", "span", "small muted line")
            text(score["reason"] or "", "span", "line")

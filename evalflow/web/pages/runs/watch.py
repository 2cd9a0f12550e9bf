"""A run under way, as it goes: how far, how fast, what it costs, and what came last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from evalflow.app.workspace.run_types import Progress, Run
from evalflow.report.wording import cost, number
from evalflow.web.pages.parts import badge, text
from evalflow.web.pages.runs.words import span, state_of


class Watch:
    """A card that tells how far a run is.

    Args:
        run: As it is now.
        state: The badge of its state, which follows, too: most pages are opened before a worker has claimed the run.
    """

    def __init__(self, run: Run, state: TextElement) -> None:
        self._state = state
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
        self.show(run)

    def show(self, run: Run) -> None:
        """Tell how far it is now."""
        progress = run.progress
        word, tone = state_of(run)
        self._state.set_text(word)
        self._state.classes(replace=f"badge {tone}")
        self._what.set_text(_doing(run))
        share = min(1.0, progress.done / progress.expected) if progress.expected else 0.0
        self._filled.style(f"width: {100 * share:.1f}%")
        self._bar.props["aria-valuenow"] = round(100 * share)
        for name, value in _numbers(progress).items():
            self._facts[name].set_text(value)
        self._latest.clear()
        with self._latest:
            _latest(run.run_id, progress.latest)


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


def _latest(run: str, scores: Sequence[Mapping[str, Any]]) -> None:
    if not scores:
        text("Nothing yet.", "li", "muted")
    for score in scores:
        with ui.element("li"):
            if score["status"] == "scored":
                text(number(score["score"], 2), "span", "reading")
            else:
                badge(score["status"], "fail" if score["status"] == "error" else "")
            of = f"{score['metric']} · {score['case_id']}"
            if score.get("position") is None:
                text(of, "span", "small muted line")
            else:
                ui.link(of, f"/runs/{run}/cases/{score['position']}").classes("small line")
            text(score["reason"] or "", "span", "line")

"""One metric over a whole run: its number, how its scores lie, and what another threshold would make of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Distribution
from evalflow.app.workspace.scores import distribution
from evalflow.report.wording import method, number, series_name, varying, without_means_of_figures
from evalflow.web.pages.parts import text
from evalflow.web.pages.runs.overview import anchor
from evalflow.web.pages.runs.spread import bars, in_words
from evalflow.web.pages.runs.threshold import ThresholdBar
from evalflow.web.pages.runs.words import history_path

_STATES = ("scored", "undefined", "error", "skipped")


class MetricCard:
    """A card.

    Args:
        workspace: The door to what is stored.
        run: Whose metric.
        metric: Its entry in the run's facts.
        moved: Is called with the metric's name and its threshold; None where it is the run's own again.
        pick: Is called with the metric and a state, to see those scores.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        metric: Mapping[str, Any],
        moved: Callable[[str, float | None], Awaitable[None]],
        pick: Callable[..., Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric = workspace, run, metric
        self._name: str = metric["name"]
        self._moved, self._pick = moved, pick
        self._lies: Distribution | None = None
        self._at: float | None = metric["threshold"]
        rows = [row for row in without_means_of_figures(run.facts["summary"]) if row["metric"] == self._name]
        with ui.element("div").classes("card metric") as card:
            card.props["id"] = anchor(self._name)
            with ui.element("div").classes("actions named"):
                text(self._name, "h3")
                link = ui.link("Over time", history_path(run, self._name)).classes("small")
                link.props["aria-label"] = f"{self._name} from run to run"
            if metric.get("description"):
                text(str(metric["description"]), "p", "muted small clamp").props["title"] = str(metric["description"])
            text(metric["judged"], "p", "muted small said-by")
            apart = varying(rows)
            for row in rows:
                _figure(row, series_name(row, apart), bounded=metric["bounded"])
            self._counts(rows)
            self._bars = ui.element("div").classes("spread")
            self._edges = ui.element("div").classes("edges muted small")
            self._threshold = ui.element("div").classes("threshold")

    async def load(self) -> None:
        """Draw how the scores lie, and set up the threshold."""
        self._lies = await self._look(self._metric["threshold"])
        if self._lies is None:
            with self._bars:
                text("Nothing was scored.", "p", "muted small")
            return
        self._draw(self._lies)
        with self._edges:
            text(number(self._lies.edges[0], 2), "span")
            text(number(self._lies.edges[-1], 2), "span")
        with self._threshold:
            bar = ThresholdBar(self._workspace, self._run, self._metric, self._lies, self._slid)
        await bar.load()

    def _counts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        cells = {(row["dataset"], row["target"], row["judge"]): row for row in rows}
        with ui.element("div").classes("counts"):
            for state in _STATES:
                n = sum(row[f"n_{state}"] for row in cells.values())
                label = f"{n:,} {state}"
                with ui.element("button").props("type=button").classes(f"count {state if n else 'nothing'}") as one:
                    text(label, "span")
                one.props["aria-label"] = f"{label}: show these scores of {self._name}"
                one.on("click", lambda _, state=state: self._pick(metric=self._name, status=state), args=[])

    async def _look(self, threshold: float | None) -> Distribution | None:
        return await to_thread.run_sync(distribution, self._workspace, self._run.run_id, self._name, threshold)

    def _draw(self, lies: Distribution) -> None:
        self._bars.clear()
        self._bars.props("role=img")
        self._bars.props["aria-label"] = in_words(lies)
        with self._bars:
            bars(lies)

    async def _slid(self, value: float, is_told: bool) -> None:
        """Colour the bars at once; judge the list of scores anew when the slider rests."""
        self._at = value
        lies = await self._look(value)
        if lies is not None and value == self._at:  # else the slider has moved on
            self._draw(lies)
        if is_told:
            await self._moved(self._name, None if value == self._metric["threshold"] else value)


def _figure(row: Mapping[str, Any], series: str, *, bounded: bool) -> None:
    """A number of the summary with its interval, in digits and as a mark on the scale."""
    with ui.element("div").classes("overall-of"):
        if series or row["statistic"] != "mean":
            parts = [series, row["statistic"] if row["statistic"] != "mean" else ""]
            text(" · ".join(part for part in parts if part), classes="small muted")
        with ui.element("div").classes("actions"):
            text(number(row["value"]), "span", "reading big")
            if row["ci_low"] is not None:
                said = f"{number(row['ci_low'])} to {number(row['ci_high'])}"
                text(said, "span", "muted").props["title"] = f"95 % interval, {method(row['ci_method'])}"
            else:
                text("no interval", "span", "muted")
        if bounded and row["value"] is not None:
            _mark(row)


def _mark(row: Mapping[str, Any]) -> None:
    with ui.element("div").classes("scale").props("aria-hidden=true"):
        if row["ci_low"] is not None:
            low, high = max(row["ci_low"], 0.0), min(row["ci_high"], 1.0)
            ui.element("i").classes("interval").style(f"left: {100 * low:.1f}%; width: {100 * (high - low):.1f}%")
        ui.element("i").classes("mean-at").style(f"left: {100 * min(max(row['value'], 0.0), 1.0):.1f}%")

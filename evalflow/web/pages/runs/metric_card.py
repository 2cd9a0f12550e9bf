"""One metric over a whole run: its number, how its scores lie, and what another threshold would make of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Distribution
from evalflow.app.workspace.scores import distribution, pass_rates
from evalflow.report.wording import method, number, percent, series_name, varying, without_means_of_figures
from evalflow.web.pages.parts import text
from evalflow.web.pages.runs.words import history_path

STEP = 0.01
THROTTLE_S = 0.05
_VALUE = "(event) => emit(event.target.value)"
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
        self._asked = 0
        rows = [row for row in without_means_of_figures(run.facts["summary"]) if row["metric"] == self._name]
        with ui.element("div").classes("card metric"):
            with ui.element("div").classes("actions named"):
                text(self._name, "h3")
                link = ui.link("Over time", history_path(run, self._name)).classes("small")
                link.props["aria-label"] = f"{self._name} from run to run"
            if metric.get("description"):
                text(str(metric["description"]), "p", "muted small clamp").props["title"] = str(metric["description"])
            apart = varying(rows)
            for row in rows:
                _figure(row, series_name(row, apart), bounded=metric["bounded"])
            self._counts(rows)
            self._bars = ui.element("div").classes("spread")
            self._edges = ui.element("div").classes("edges muted small")
            self._threshold = ui.element("div").classes("threshold")
            text(metric["judged"], "p", "muted small said-by")

    async def load(self) -> None:
        """Draw how the scores lie, and set up the threshold."""
        self._lies = await to_thread.run_sync(distribution, self._workspace, self._run.run_id, self._name)
        if self._lies is None:
            with self._bars:
                text("Nothing was scored.", "p", "muted small")
            return
        self._draw(self._metric["threshold"])
        with self._threshold:
            self._set_up(self._lies)
        await self._tell(self._metric["threshold"])

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

    def _draw(self, threshold: float | None) -> None:
        """A bar for each part of the scale, coloured by the threshold."""
        lies = self._lies
        if lies is None:
            return
        highest, higher = max(lies.counts) or 1, self._metric["direction"] == "higher_is_better"
        self._bars.clear()
        self._bars.props("role=img")
        self._bars.props["aria-label"] = _spoken(lies)
        with self._bars:
            for place, count in enumerate(lies.counts):
                low, high = lies.edges[place], lies.edges[place + 1]
                side = ""
                if threshold is not None:
                    side = "pass" if (low >= threshold - 1e-12 if higher else high <= threshold + 1e-12) else "fail"
                with ui.element("span").classes(f"bin {side}") as bar:
                    ui.element("i").style(f"height: {max(100 * count / highest, 2 if count else 0):.1f}%")
                bar.props["title"] = f"{number(low, 2)} to {number(high, 2)}: {count:,}"
        self._edges.clear()
        with self._edges:
            text(number(lies.edges[0], 2), "span")
            text(number(lies.edges[-1], 2), "span")

    def _set_up(self, lies: Distribution) -> None:
        low, high = lies.edges[0], lies.edges[-1]
        own = self._metric["threshold"]
        if low == high:
            low, high = low - 0.5, high + 0.5
        step = STEP if high - low <= 2 else round((high - low) / 100, 6)
        start = own if own is not None else (low + high) / 2
        with ui.element("div").classes("moving"):
            text("Threshold", "span", "small muted")
            slider = ui.element("input").props("type=range")
            # "^": an attribute, which is where it starts; the property is left to whoever moves it
            for name, value in (("min", min(low, start)), ("max", max(high, start)), ("step", step), ("^value", start)):
                slider.props[name] = value
            slider.props["aria-label"] = f"Threshold of {self._name}"
            slider.on("input", lambda event: self._slid(float(event.args)), throttle=THROTTLE_S, js_handler=_VALUE)
            self._value = text(number(start, 2), "span", "reading")
        self._rate = text("", "p", "rate").props("aria-live=polite")

    async def _slid(self, value: float) -> None:
        own = self._metric["threshold"]
        self._value.set_text(number(value, 2))
        self._draw(value)
        asked = await self._tell(value)
        if asked == self._asked:
            await self._moved(self._name, None if value == own else value)

    async def _tell(self, threshold: float | None) -> int:
        """Say what share passes by that threshold."""
        self._asked += 1
        asked = self._asked
        if threshold is None:
            self._rate.set_text("No threshold counts here; move it to see what share would pass.")
            return asked
        work = lambda: pass_rates(self._workspace, self._run.run_id, {self._name: threshold}, self._name)  # noqa: E731
        found = await to_thread.run_sync(work)
        if asked == self._asked and found:
            own = self._metric["threshold"]
            rate = found[0]
            said = f"{percent(rate.rate)} pass ({rate.passed:,} of {rate.n:,})"
            self._rate.set_text(said if threshold == own else f"{said}; not kept{_of_the_run(own)}")
        return asked


def _of_the_run(own: float | None) -> str:
    return "" if own is None else f", the run's own is {number(own, 2)}"


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


def _spoken(lies: Distribution) -> str:
    """The bars in words."""
    filled = [
        f"{count:,} from {number(lies.edges[place], 2)} to {number(lies.edges[place + 1], 2)}"
        for place, count in enumerate(lies.counts)
        if count
    ]
    return f"Scores of {lies.metric}: {'; '.join(filled)}"

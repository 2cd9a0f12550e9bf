"""A run's metrics: overview, one card each, by tag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.run_types import Run
from evalflow.app.studio.scores import Distribution, distribution, summary
from evalflow.app.studio.space import Workspace
from evalflow.report.wording import method, number, percent, series_name, varying, without_means_of_figures
from evalflow.web.pages.runs import history_path
from evalflow.web.pages.threshold import ThresholdBar, bars, in_words
from evalflow.web.ui.parts import Tone, badge, picture, section, shape, text
from evalflow.web.ui.parts import percent as across

FEWEST = 3
"""Numbers from which on an overview says more than the cards do."""
_MIDDLE = 11
"""Pixels down to the line of an interval."""
_ABOUT = "A dot is a metric's value from 0 to 1; its line is the 95 % interval. Click a name for details."


def overview(run: Run) -> None:
    """Draw it; nothing where there are few numbers."""
    metrics: Mapping[str, Mapping[str, Any]] = {one["name"]: one for one in run.facts.get("metrics", [])}
    rows = [row for row in without_means_of_figures(run.facts["summary"]) if row["metric"] in metrics]
    if len(rows) < FEWEST:
        return
    apart = varying(rows)
    with section("At a glance", _ABOUT), ui.element("ul").classes("card glance"):
        for row in rows:
            with ui.element("li"):
                _overview_row(row, metrics[row["metric"]], series_name(row, apart), run.facts.get("gates", []))


def _overview_row(
    row: Mapping[str, Any], metric: Mapping[str, Any], series: str, gates: Sequence[Mapping[str, Any]]
) -> None:
    with ui.element("div").classes("whose"):
        ui.link(row["metric"], f"#{anchor(row['metric'])}")
        marks = [series, "" if row["statistic"] == "mean" else row["statistic"]]
        marks += ["" if metric["direction"] == "higher_is_better" else "lower is better"]
        text(" · ".join(mark for mark in marks if mark), "span", "small muted")
    text(number(row["value"], 2), "span", "reading")
    if metric["bounded"] and row["value"] is not None:
        _drawn(row)
    else:
        text(_in_digits(row), "span", "small muted unlike")
    with ui.element("div").classes("actions small muted"):
        if row["pass_rate"] is not None and row["statistic"] == "mean":
            text(f"{percent(row['pass_rate'])} pass", "span")
        unscored = row["n"] - row["n_scored"]
        if unscored:
            text(f"{unscored:,} unscored", "span", "unscored")
        for word, tone in _held(row, gates):
            badge(word, tone)


def _drawn(row: Mapping[str, Any]) -> None:
    """The value on its interval; the ends and the middle of the scale are marked."""
    with picture(f"{number(row['value'], 2)}, {_in_digits(row)}", "plotted"):
        for at in (0.0, 0.5, 1.0):
            shape("line", "grid", x1=across(at), x2=across(at), y1=0, y2=2 * _MIDDLE)
        if row["ci_low"] is not None:
            ends = {"x1": across(_within(row["ci_low"])), "x2": across(_within(row["ci_high"]))}
            shape("line", "interval", y1=_MIDDLE, y2=_MIDDLE, **ends)
        shape("circle", "dot", cx=across(_within(row["value"])), cy=_MIDDLE, r=4.5)


def _in_digits(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "nothing scored"
    if row["ci_low"] is None:
        return "no interval"
    return f"{number(row['ci_low'], 2)} to {number(row['ci_high'], 2)}"


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _held(row: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> list[tuple[str, Tone]]:
    """What its gates say, in one word."""
    if row["statistic"] != "mean":
        return []
    own = [gate["passed"] for gate in gates if gate.get("metric") == row["metric"] and _is_of(gate, row)]
    if not own:
        return []
    if False in own:
        return [("gate failed", "fail")]
    return [("gate undecided", "warn")] if None in own else [("gate passed", "pass")]


def _is_of(gate: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(gate.get(key) in (None, row[key]) for key in ("dataset", "target"))


def anchor(metric: str) -> str:
    """The name of a metric's card within the page."""
    return f"metric-{metric}"


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


MOST = 200
"""Tags that are shown; all are in the run's report."""


class TagTable:
    """The table; it is filled after the first paint."""

    def __init__(self, workspace: Workspace, run: Run, pick: Callable[..., Awaitable[None]]) -> None:
        self._workspace, self._run, self._pick = workspace, run, pick
        with section("By tag", "The mean of each metric with its 95 % interval. Click a tag for its scores."):
            self._place = ui.element("div").classes("card by-tag").props("tabindex=0 role=region aria-label='By tag'")

    async def load(self) -> None:
        """Fill it."""
        rows = await to_thread.run_sync(summary, self._workspace, self._run.run_id)
        rows = [row for row in without_means_of_figures(rows) if row["tag"] is not None]
        apart = varying(rows)
        table: dict[str, dict[str, Mapping[str, Any]]] = {}
        columns: dict[str, None] = {}
        for row in rows:
            column = " · ".join(part for part in (row["metric"], series_name(row, apart), _statistic(row)) if part)
            columns[column] = None
            table.setdefault(row["tag"], {})[column] = row
        with self._place, ui.element("table"):
            with ui.element("thead"), ui.element("tr"):
                for name in ("Tag", "Cases", *columns):
                    text(name, "th").props("scope=col")
            with ui.element("tbody"):
                for tag in list(table)[:MOST]:
                    self._row(tag, table[tag], list(columns))
        if len(table) > MOST:
            with self._place:
                text(f"{len(table) - MOST:,} more tags are in the run's report.", "p", "muted small")

    def _row(self, tag: str, cells: Mapping[str, Mapping[str, Any]], columns: list[str]) -> None:
        with ui.element("tr"):
            with ui.element("th").props("scope=row"), ui.element("button").props("type=button").classes("tag") as one:
                text(tag, "span")
            one.on("click", lambda _: self._pick(tag=tag), args=[])
            text(f"{max(row['n'] for row in cells.values()):,}", "td", "muted")
            for column in columns:
                row = cells.get(column)
                with ui.element("td"):
                    text(number(row["value"] if row else None, 2), "span", "reading")
                    if row and row["ci_low"] is not None:
                        said = f"{number(row['ci_low'], 2)} to {number(row['ci_high'], 2)}"
                        text(said, "span", "muted small")


def _statistic(row: Mapping[str, Any]) -> str:
    return "" if row["statistic"] == "mean" else str(row["statistic"])

"""A run's metrics: an overview, a card for each, and a table by tag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.runs import Run
from evalflow.app.studio.scores import Distribution, distribution, summary
from evalflow.app.studio.space import Workspace
from evalflow.report.wording import method, number, percent, series_name, varying, without_means_of_figures
from evalflow.web.pages.runs import history_path
from evalflow.web.pages.threshold import ThresholdBar, bars, in_words
from evalflow.web.ui.parts import (
    Tone,
    across,
    badge,
    interval,
    joined,
    picture,
    plain_button,
    section,
    shape,
    table,
    text,
)

FEWEST = 3
"""Smallest number of figures for an overview; below it, the cards are enough."""
_MIDDLE = 11
"""Distance in pixels from the top to the line of an interval."""
_ABOUT = "A dot is a metric's value from 0 to 1; its line is the 95 % interval. Click a name for details."


def overview(run: Run) -> None:
    """All figures on one scale; nothing if there are few."""
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
        direction = "" if metric["direction"] == "higher_is_better" else "lower is better"
        text(joined(series, _statistic(row), direction), "span", "small muted")
    text(number(row["value"], 2), "span", "reading")
    if metric["bounded"] and row["value"] is not None:
        _draw(row)
    else:
        text(_interval(row), "span", "small muted unlike")
    with ui.element("div").classes("actions small muted"):
        if row["pass_rate"] is not None and row["statistic"] == "mean":
            text(f"{percent(row['pass_rate'])} pass", "span")
        unscored = row["n"] - row["n_scored"]
        if unscored:
            text(f"{unscored:,} unscored", "span", "unscored")
        for word, tone in _gate_badges(row, gates):
            badge(word, tone)


def _draw(row: Mapping[str, Any]) -> None:
    """The value with its interval; lines mark 0, 0.5 and 1."""
    with picture(f"{number(row['value'], 2)}, {_interval(row)}", "plotted"):
        for at in (0.0, 0.5, 1.0):
            shape("line", "grid", x1=across(at), x2=across(at), y1=0, y2=2 * _MIDDLE)
        if row["ci_low"] is not None:
            ends = {"x1": across(_within(row["ci_low"])), "x2": across(_within(row["ci_high"]))}
            shape("line", "interval", y1=_MIDDLE, y2=_MIDDLE, **ends)
        shape("circle", "dot", cx=across(_within(row["value"])), cy=_MIDDLE, r=4.5)


def _interval(row: Mapping[str, Any]) -> str:
    return "nothing scored" if row["value"] is None else interval(row["ci_low"], row["ci_high"], 2)


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _gate_badges(row: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> list[tuple[str, Tone]]:
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
    """The id of a metric's card."""
    return f"metric-{metric}"


_STATES = ("scored", "undefined", "error", "skipped")


class MetricCard:
    """A metric's figures, its distribution of scores, and its threshold.

    `metric` is its entry in the run's facts. `on_threshold` gets its name and the new threshold, None to reset it;
    `on_pick` gets metric and status, to list those scores.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        metric: Mapping[str, Any],
        on_threshold: Callable[[str, float | None], Awaitable[None]],
        on_pick: Callable[..., Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric = workspace, run, metric
        self._name: str = metric["name"]
        self._on_threshold, self._on_pick = on_threshold, on_pick
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
        """Draw the distribution, and set up the threshold."""
        scores = await self._distribution(self._metric["threshold"])
        if scores is None:
            with self._bars:
                text("Nothing was scored.", "p", "muted small")
            return
        self._draw(scores)
        with self._edges:
            text(number(scores.edges[0], 2), "span")
            text(number(scores.edges[-1], 2), "span")
        with self._threshold:
            bar = ThresholdBar(self._workspace, self._run, self._metric, scores, self._slid)
        await bar.load()

    def _counts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        cells = {(row["dataset"], row["target"], row["judge"]): row for row in rows}
        with ui.element("div").classes("counts"):
            for state in _STATES:
                n = sum(row[f"n_{state}"] for row in cells.values())
                label = f"{n:,} {state}"
                pick = partial(self._on_pick, metric=self._name, status=state)
                made = plain_button(label, pick, f"count {state if n else 'nothing'}")
                made.props["aria-label"] = f"{label}: show these scores of {self._name}"

    async def _distribution(self, threshold: float | None) -> Distribution | None:
        return await to_thread.run_sync(distribution, self._workspace, self._run.run_id, self._name, threshold)

    def _draw(self, scores: Distribution) -> None:
        self._bars.clear()
        self._bars.props("role=img")
        self._bars.props["aria-label"] = in_words(scores)
        with self._bars:
            bars(scores)

    async def _slid(self, value: float, is_at_rest: bool) -> None:
        """Colour the bars at once, and the list of scores when the slider rests."""
        self._at = value
        scores = await self._distribution(value)
        if scores is not None and value == self._at:  # otherwise the slider has moved again
            self._draw(scores)
        if is_at_rest:
            await self._on_threshold(self._name, None if value == self._metric["threshold"] else value)


def _figure(row: Mapping[str, Any], series: str, *, bounded: bool) -> None:
    """A figure with its interval, as numbers and on the scale."""
    with ui.element("div").classes("overall-of"):
        if about := joined(series, _statistic(row)):
            text(about, classes="small muted")
        with ui.element("div").classes("actions"):
            text(number(row["value"]), "span", "reading big")
            ends = text(interval(row["ci_low"], row["ci_high"]), "span", "muted")
            if row["ci_low"] is not None:
                ends.props["title"] = f"95 % interval, {method(row['ci_method'])}"
        if bounded and row["value"] is not None:
            _mark(row)


def _mark(row: Mapping[str, Any]) -> None:
    with ui.element("div").classes("scale").props("aria-hidden=true"):
        if row["ci_low"] is not None:
            low, high = _within(row["ci_low"]), _within(row["ci_high"])
            ui.element("i").classes("interval").style(f"left: {100 * low:.1f}%; width: {100 * (high - low):.1f}%")
        ui.element("i").classes("mean-at").style(f"left: {100 * _within(row['value']):.1f}%")


SHOWN_TAGS = 200
"""Maximum number of tags shown; the run's report has all."""


class TagTable:
    """The figures by tag, read after the first paint; `on_pick` is called with a tag, to list its scores."""

    def __init__(self, workspace: Workspace, run: Run, on_pick: Callable[..., Awaitable[None]]) -> None:
        self._workspace, self._run, self._on_pick = workspace, run, on_pick
        with section("By tag", "The mean of each metric with its 95 % interval. Click a tag for its scores."):
            self._place = ui.element("div").classes("card by-tag").props("tabindex=0 role=region aria-label='By tag'")

    async def load(self) -> None:
        """Read and show the figures."""
        rows = await to_thread.run_sync(summary, self._workspace, self._run.run_id)
        rows = [row for row in without_means_of_figures(rows) if row["tag"] is not None]
        apart = varying(rows)
        by_tag: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in rows:
            by_tag.setdefault(row["tag"], {})[joined(row["metric"], series_name(row, apart), _statistic(row))] = row
        columns = list(dict.fromkeys(column for cells in by_tag.values() for column in cells))
        with self._place:
            with table(("Tag", "Cases", *columns)):
                for tag in list(by_tag)[:SHOWN_TAGS]:
                    self._row(tag, by_tag[tag], columns)
            if len(by_tag) > SHOWN_TAGS:
                text(f"{len(by_tag) - SHOWN_TAGS:,} more tags are in the run's report.", "p", "muted small")

    def _row(self, tag: str, cells: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> None:
        with ui.element("tr"):
            with ui.element("th").props("scope=row"):
                plain_button(tag, partial(self._on_pick, tag=tag), "tag")
            text(f"{max(row['n'] for row in cells.values()):,}", "td", "muted")
            for column in columns:
                row = cells.get(column)
                with ui.element("td"):
                    text(number(row["value"] if row else None, 2), "span", "reading")
                    if row and row["ci_low"] is not None:
                        text(interval(row["ci_low"], row["ci_high"], 2), "span", "muted small")


def _statistic(row: Mapping[str, Any]) -> str:
    return "" if row["statistic"] == "mean" else str(row["statistic"])

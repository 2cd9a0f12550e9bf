"""A run's metrics: an overview, a card for each with its threshold, and a table by tag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.pages.run_threshold import ThresholdBar, bars
from evalflow.addons.studio.web.pages.runs import history_path
from evalflow.addons.studio.web.ui.headline import gate_badge, judge_line, metric_title
from evalflow.addons.studio.web.ui.parts import (
    Tone,
    across,
    address,
    filled,
    interval,
    markup,
    section,
    text,
)
from evalflow.addons.studio.web.ui.visitor import root_path
from evalflow.addons.studio.work.reruns import ChangeableMetric
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import Distribution, PassRate, distribution, distributions, pass_rates, summary
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.rederive import MetricInRun
from evalflow.records import CASES
from evalflow.report.sentences import labelled_in, of_labels
from evalflow.report.wording import (
    caveat,
    joined,
    method,
    number,
    percent,
    plain_statistic,
    series_name,
    varying,
    without_means_of_figures,
)
from evalflow.summary.rows import GateOutcome, SummaryRow
from evalflow.summary.verdicts import overall

FEWEST = 2
"""Smallest number of figures for an overview; below it, the cards are enough."""
_MIDDLE = 11
"""Distance in pixels from the top to the line of an interval."""
_ABOUT = "A dot is a metric's value from 0 to 1; its line is the 95 % interval. Click a name for details."


def overview(run: Run) -> None:
    """All numbers on one scale, those of whole cases first; nothing if there are few."""
    metrics = run.metrics
    rows = [row for row in without_means_of_figures(run.summary) if row.metric in {*metrics, CASES}]
    rows.sort(key=lambda row: row.metric != CASES)
    if len(rows) < FEWEST:
        return
    apart = varying(rows)
    gates = run.facts.get("gates", [])
    lines = [_overview_row(run, row, metrics.get(row.metric), series_name(row, apart), gates) for row in rows]
    with section("At a glance", _ABOUT):
        filled("ul", *lines, classes="card glance")


def _overview_row(
    run: Run, row: SummaryRow, metric: MetricInRun | None, series: str, gates: Sequence[GateOutcome]
) -> Markup:
    name = markup("a", metric_title(run, row.metric), href=f"#{anchor(row.metric)}", dir="auto")
    if row.metric == CASES:
        name = markup("strong", "Cases that pass everything")
    direction = "" if metric is None or metric.higher_is_better else "lower is better"
    about = markup("span", joined(series, _statistic(row), direction), cls="small muted", dir="auto")
    shown = markup("span", _interval(row), cls="small muted unlike")
    if (metric is None or metric.bounded) and row.value is not None:  # cases pass or fail
        shown = _line(row, row.value)
    notes: list[Markup] = []
    if row.pass_rate is not None and row.statistic == "mean":
        notes.append(markup("span", f"{percent(row.pass_rate)} pass"))
    if label_note := of_labels(row):
        notes.append(markup("span", label_note))
    unscored = row.n - row.n_scored
    if unscored:
        notes.append(markup("span", f"{unscored:,} unscored", cls="unscored"))
    notes += [markup("span", word, cls=f"badge {tone}") for word, tone in _gate_badges(row, gates)]
    return markup(
        "li",
        markup("div", name, about, cls="whose"),
        markup("span", number(row.value, 2), cls="reading"),
        shown,
        markup("div", *notes, cls="actions small muted"),
    )


def _line(row: SummaryRow, value: float) -> Markup:
    bottom = f"{2 * _MIDDLE}"
    shapes = [markup("line", cls="grid", x1=across(at), x2=across(at), y2=bottom) for at in (0.0, 0.5, 1.0)]
    middle = f"{_MIDDLE}"
    if row.ci_low is not None and row.ci_high is not None:
        ends = {"x1": across(_within(row.ci_low)), "x2": across(_within(row.ci_high))}
        shapes.append(markup("line", cls="interval", y1=middle, y2=middle, **ends))
    shapes.append(markup("circle", cls="dot", cx=across(_within(value)), cy=middle, r="4.5"))
    about = f"{number(value, 2)}, {_interval(row)}"
    return markup("svg", *shapes, cls="plotted", role="img", **{"aria-label": about})


def _interval(row: SummaryRow) -> str:
    return "nothing scored" if row.value is None else interval(row.ci_low, row.ci_high, 2)


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _gate_badges(row: SummaryRow, gates: Sequence[GateOutcome]) -> list[tuple[str, Tone]]:
    if row.statistic != "mean" and row.metric != CASES:
        return []
    own = [gate["passed"] for gate in gates if gate.get("metric") == row.metric and _is_of(gate, row)]
    return [gate_badge(overall(own))] if own else []


def _is_of(gate: Mapping[str, Any], row: SummaryRow) -> bool:
    return gate.get("dataset") in (None, row.dataset) and gate.get("target") in (None, row.target)


def anchor(metric: str) -> str:
    """The id of a metric's card."""
    return f"metric-{metric}"


_STATES = ("scored", "undefined", "error", "skipped")


class MetricCard:
    """A metric's figures, its distribution of scores, and its threshold.

    `on_threshold` gets its name and the new threshold, None to reset it; `on_pick` gets metric and status, to list
    those scores.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        metric: MetricInRun,
        on_threshold: Callable[[str, float | None], Awaitable[None]],
        on_pick: Callable[..., Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric = workspace, run, metric
        self.name = metric.name
        self._on_threshold, self._on_pick = on_threshold, on_pick
        self._at = metric.threshold
        rows = [row for row in without_means_of_figures(run.summary) if row.metric == self.name]
        with ui.element("div").classes("card metric") as card:
            card.props["id"] = anchor(self.name)
            details = filled("div", *self._about(rows), self._counts(rows), classes="told")
            details.on("click", lambda event: self._on_pick(metric=self.name, status=event.args), js_handler=_PICKS)
            self._bars = ui.element("div").classes("spread")
            self._edges = ui.element("div").classes("edges muted small")
            self._threshold = ui.element("div").classes("threshold")
            self._changing = ui.element("div").classes("changing")

    def _about(self, rows: Sequence[SummaryRow]) -> list[Markup]:
        metric, name = self._metric, metric_title(self._run, self.name)
        link = {"href": f"{root_path()}{history_path(self._run, self.name)}", "aria-label": f"{name} from run to run"}
        over_time = markup("a", "Over time", cls="nicegui-link small", **link)
        shown = [markup("div", markup("h3", name, dir="auto"), over_time, cls="actions named")]
        if about := metric.description:
            shown.append(markup("p", about, cls="muted small clamp", title=about, dir="auto"))
        shown.append(markup("p", judge_line(metric), cls="muted small said-by", dir="auto"))
        apart = varying(rows)
        return [*shown, *(self._figure(row, series_name(row, apart)) for row in rows)]

    def _figure(self, row: SummaryRow, series: str) -> Markup:
        shown: list[Markup] = []
        if about := joined(series, _statistic(row)):
            shown.append(markup("div", about, cls="small muted", dir="auto"))
        ends = "" if row.ci_low is None else f"95 % interval, {method(row.ci_method)}"
        reading = [
            markup("span", number(row.value), cls="reading big"),
            markup("span", interval(row.ci_low, row.ci_high), cls="muted", title=ends),
        ]
        if row.value is not None and (why := caveat(row.ci_method)):
            reading.append(markup("span", why, cls="small muted"))
        shown.append(markup("div", *reading, cls="actions"))
        if label_note := of_labels(row):
            shown.append(markup("div", label_note, cls="small muted"))
        if where := labelled_in(self._run.facts.get("followed", ()), row.dataset, self.name):
            shown.append(markup("div", f"Labelled {where}.", cls="small muted"))
        if self._metric.bounded and row.value is not None:
            shown.append(_mark(row, row.value))
        return markup("div", *shown, cls="overall-of")

    async def load(self, scores: Distribution | None, rate: PassRate | None) -> None:
        """Draw the distribution and set up the threshold; `rate` is the share that passes it, None without one."""
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
        await bar.load(rate)

    def offer_change(self, changeable: Mapping[str, ChangeableMetric]) -> None:
        """Offer to change the metric, if it can be; `changeable`: those of the run that can, by name."""
        editable = changeable.get(self.name)
        if editable is not None:
            metrics, query = f"/bots/{quote(editable.bot, safe='')}/metrics", {"run": self._run.run_id}
            own = address(f"{metrics}/{editable.name}", query)
            path = own if editable.is_own else address(f"{metrics}/new", {"source": editable.name, **query})
            with self._changing:
                ui.link("Change it and grade again", path).classes("small")

    def _counts(self, rows: Sequence[SummaryRow]) -> Markup:
        cells = {(row.dataset, row.target, row.judge): row for row in rows}
        title = metric_title(self._run, self.name)
        buttons: list[Markup] = []
        for state in _STATES:
            n = sum(row.states[state] for row in cells.values())
            label = f"{n:,} {state}"
            does = {"data-picks": state, "aria-label": f"{label}: show these scores of {title}"}
            about = markup("span", label)
            buttons.append(markup("button", about, cls=f"count {state if n else 'nothing'}", type="button", **does))
        return markup("div", *buttons, cls="counts")

    def _draw(self, scores: Distribution) -> None:
        self._bars.props["innerHTML"] = str(bars(scores))

    async def _slid(self, value: float, is_at_rest: bool) -> None:
        """Colour the bars at once, and the list of scores when the slider rests."""
        self._at = value
        scores = await to_thread.run_sync(distribution, self._workspace, self._run.run_id, self.name, value)
        if scores is not None and value == self._at:  # otherwise the slider has moved again
            self._draw(scores)
        if is_at_rest:
            await self._on_threshold(self.name, None if value == self._metric.threshold else value)


async def load_cards(workspace: Workspace, run: Run, cards: Sequence[MetricCard]) -> None:
    """Read the scores of all cards at once, and fill the cards."""

    def read() -> tuple[dict[str, Distribution], dict[str, PassRate]]:
        shown = distributions(workspace, run.run_id, {name: metric.threshold for name, metric in run.metrics.items()})
        return shown, {rate.metric: rate for rate in pass_rates(workspace, run.run_id)}

    shown, rates = await to_thread.run_sync(read)
    for card in cards:
        await card.load(shown.get(card.name), rates.get(card.name))


def _mark(row: SummaryRow, value: float) -> Markup:
    shapes = [markup("rect", cls="axis", y="6", width="100%", height="2", rx="1")]
    if row.ci_low is not None and row.ci_high is not None:
        low, high = _within(row.ci_low), _within(row.ci_high)
        shapes.append(
            markup("rect", cls="interval", x=across(low), width=across(high - low), y="4", height="6", rx="3")
        )
    shapes.append(markup("rect", cls="mean-at", x=across(_within(value)), y="1", width="3", height="12", rx="2"))
    return markup("svg", *shapes, cls="scale", **{"aria-hidden": "true"})


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
        rows = [row for row in without_means_of_figures(rows) if row.tag is not None]
        apart = varying(rows)
        by_tag: dict[str, dict[str, SummaryRow]] = {}
        for row in rows:
            metric = metric_title(self._run, row.metric)
            by_tag.setdefault(row.tag or "", {})[joined(metric, series_name(row, apart), _statistic(row))] = row
        columns = list(dict.fromkeys(column for cells in by_tag.values() for column in cells))
        heads = markup("tr", *(markup("th", markup("span", head), scope="col") for head in ("Tag", "Cases", *columns)))
        lines = [_tag_row(tag, by_tag[tag], columns) for tag in list(by_tag)[:SHOWN_TAGS]]
        with self._place:
            table = filled("table", markup("thead", heads), markup("tbody", *lines))
            table.on("click", lambda event: self._on_pick(tag=event.args), js_handler=_PICKS)
            if len(by_tag) > SHOWN_TAGS:
                text(f"{len(by_tag) - SHOWN_TAGS:,} more tags are in the run's report.", "p", "muted small")


_PICKS = """(event) => {
    const button = event.target.closest("button");
    if (button) emit(button.dataset.picks);
}"""


def _tag_row(tag: str, cells: Mapping[str, SummaryRow], columns: Sequence[str]) -> Markup:
    named = markup("button", markup("span", tag), cls="tag", type="button", **{"data-picks": tag})
    shown = [_tag_cell(cells.get(column)) for column in columns]
    cases = markup("td", f"{max(row.n for row in cells.values()):,}", cls="muted")
    return markup("tr", markup("th", named, scope="row"), cases, *shown)


def _tag_cell(row: SummaryRow | None) -> Markup:
    value = markup("span", number(row.value if row else None, 2), cls="reading")
    if not row or row.ci_low is None:
        return markup("td", value)
    return markup("td", value, markup("span", interval(row.ci_low, row.ci_high, 2), cls="muted small"))


def _statistic(row: SummaryRow) -> str:
    return "" if row.statistic == "mean" or row.metric == CASES else plain_statistic(str(row.statistic))

"""A run's metrics: an overview, a card for each with its threshold, and a table by tag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.app.studio.run_files import carry_threshold, keep_threshold, passing, restore_threshold
from evalflow.app.studio.runs import Run
from evalflow.app.studio.scores import Distribution, distribution, pass_rates, summary
from evalflow.app.studio.space import Workspace
from evalflow.report.wording import caveat, method, number, percent, series_name, varying, without_means_of_figures
from evalflow.web.pages.runs import history_path
from evalflow.web.ui import forms
from evalflow.web.ui.markup import filled, markup
from evalflow.web.ui.parts import (
    Latest,
    Tone,
    across,
    badge,
    button,
    interval,
    joined,
    picture,
    plain_button,
    section,
    shape,
    tell,
    text,
)
from evalflow.web.ui.visitor import may

if TYPE_CHECKING:
    from evalflow.summary.summarise import Passing


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
    with ui.element("div").classes("overall-of"):
        if about := joined(series, _statistic(row)):
            text(about, classes="small muted")
        with ui.element("div").classes("actions"):
            text(number(row["value"]), "span", "reading big")
            ends = text(interval(row["ci_low"], row["ci_high"]), "span", "muted")
            if row["ci_low"] is not None:
                ends.props["title"] = f"95 % interval, {method(row['ci_method'])}"
            if row["value"] is not None and (why := caveat(row["ci_method"])):
                text(why, "span", "small muted")
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
        heads = markup("tr", *(markup("th", markup("span", head), scope="col") for head in ("Tag", "Cases", *columns)))
        lines = [_tag_row(tag, by_tag[tag], columns) for tag in list(by_tag)[:SHOWN_TAGS]]
        with self._place:
            table = filled("table", markup("thead", heads), markup("tbody", *lines))
            table.on("click", lambda event: self._on_pick(tag=event.args), js_handler=_PICKS)
            if len(by_tag) > SHOWN_TAGS:
                text(f"{len(by_tag) - SHOWN_TAGS:,} more tags are in the run's report.", "p", "muted small")


_PICKS = """(event) => {
    const tag = event.target.closest("button");
    if (tag) emit(tag.dataset.tag);
}"""


def _tag_row(tag: str, cells: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> Markup:
    named = markup("button", markup("span", tag), cls="tag", type="button", **{"data-tag": tag})
    shown = [_tag_cell(cells.get(column)) for column in columns]
    cases = markup("td", f"{max(row['n'] for row in cells.values()):,}", cls="muted")
    return markup("tr", markup("th", named, scope="row"), cases, *shown)


def _tag_cell(row: Mapping[str, Any] | None) -> Markup:
    value = markup("span", number(row["value"] if row else None, 2), cls="reading")
    if not row or row["ci_low"] is None:
        return markup("td", value)
    return markup("td", value, markup("span", interval(row["ci_low"], row["ci_high"], 2), cls="muted small"))


def _statistic(row: Mapping[str, Any]) -> str:
    return "" if row["statistic"] == "mean" else str(row["statistic"])


MARKS = 41
"""Number of thresholds at which the curve of pass rates is computed."""
_WIDE, _HIGH = 1000.0, 100.0
"""Size of the picture in its own units; it is stretched to any width."""


def bars(scores: Distribution) -> None:
    """A histogram, coloured by pass and fail; a threshold may split a bar."""
    highest = max(scores.counts) or 1
    for place, count in enumerate(scores.counts):
        parts = {"": count}
        if scores.passed is not None:
            parts = {"pass": scores.passed[place], "fail": count - scores.passed[place]}
        with ui.element("span").classes("bin") as bar:
            for side, n in parts.items():
                if n:
                    ui.element("i").classes(side).style(f"height: {max(100 * n / highest, 2):.1f}%")
        sides = ", ".join(f"{n:,} {side}" for side, n in parts.items() if n and side)
        span = interval(scores.edges[place], scores.edges[place + 1], 2)
        bar.props["title"] = f"{span}: {sides or f'{count:,}'}"


def in_words(scores: Distribution) -> str:
    """The histogram for screen readers."""
    filled = [
        f"{count:,} from {interval(scores.edges[place], scores.edges[place + 1], 2)}"
        for place, count in enumerate(scores.counts)
        if count
    ]
    return f"Scores of {scores.metric}: {'; '.join(filled)}"


class RateCurve:
    """The pass rate by threshold from `low` to `high`, with its interval as a band, for each dataset and target."""

    def __init__(self, rates: Sequence[Passing], low: float, high: float) -> None:
        self._low, self._high = low, high
        few = [f"{percent(one.rate)} from {number(one.threshold, 2)}" for one in rates[:: MARKS // 4]]
        about = f"Share that passes by threshold, with its 95 % interval: {'; '.join(few)}"
        with ui.element("div").classes("passing"):
            with picture(about, "curve") as drawn:
                drawn.props(f'viewBox="0 0 {_WIDE:g} {_HIGH:g}" preserveAspectRatio="none"')
                for _, own in groupby(rates, lambda one: (one.dataset, one.target)):
                    self._draw(list(own))
            self._marker = ui.element("i").classes("at").props("aria-hidden=true")
            for share, place in ((1, "top"), (0, "bottom")):
                text(percent(share), "span", f"muted {place}").props("aria-hidden=true")

    def mark(self, threshold: float | None) -> None:
        """Move the marker to a threshold; None hides it."""
        self._marker.set_visibility(threshold is not None)
        if threshold is not None:
            self._marker.style(f"left: {100 * self._x(threshold) / _WIDE:.2f}%")

    def _draw(self, rates: Sequence[Passing]) -> None:
        banded = [one for one in rates if one.low is not None and one.high is not None]
        if banded:
            upper = self._steps([(one.threshold, one.high or 0.0) for one in banded])
            lower = self._steps([(one.threshold, one.low or 0.0) for one in banded])
            shape("polygon", "band", points=" ".join([*upper, *reversed(lower)]))
        shape("polyline", "rate", points=" ".join(self._steps([(one.threshold, one.rate) for one in rates])))

    def _steps(self, values: Sequence[tuple[float, float]]) -> list[str]:
        """Points of a line with steps, since a pass rate changes only at a score."""
        points: list[str] = []
        before = None
        for threshold, share in values:
            x = f"{self._x(threshold):.1f}"
            if before is not None:
                points.append(f"{x},{before}")
            before = f"{_HIGH * (1 - share):.1f}"
            points.append(f"{x},{before}")
        return points

    def _x(self, value: float) -> float:
        return _WIDE * min(max((value - self._low) / (self._high - self._low), 0.0), 1.0)


class ThresholdBar:
    """A slider, the pass rate at its threshold, and buttons to save the threshold.

    `on_slide` gets the threshold, and False while the slider moves, True once it rests.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        metric: Mapping[str, Any],
        scores: Distribution,
        on_slide: Callable[[float, bool], Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric, self._on_slide = workspace, run, metric, on_slide
        self._name: str = metric["name"]
        self._own: float | None = metric["threshold"]
        self._latest = Latest()
        low, high = scores.edges[0], scores.edges[-1]
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        self._start = self._own if self._own is not None else (low + high) / 2
        self._low, self._high = min(low, self._start), max(high, self._start)
        self._at = self._start
        self._curve: RateCurve | None = None
        self._line = ui.element("div").classes("line-of-rates")
        with ui.element("div").classes("moving"):
            text("Threshold", "span", "small muted")
            self._value = text(number(self._start, 2), "span", "reading")
            self._slider()
        self._rate = text("", "p", "rate").props("aria-live=polite")
        with ui.element("div").classes("actions keeping") as keeping:
            declared = metric["declared"]
            self._apply = button("Apply to this run", self._apply_to_run)
            self._carry = button("Use it in the next runs", self._carry_on)
            self._reset = button(f"Reset to {'none' if declared is None else number(declared, 2)}", self._reset_run)
        keeping.set_visibility(may("edit"))
        self._offer(self._own)

    async def load(self) -> None:
        """Show the pass rate, and draw it by threshold."""
        await self._show_rate(self._own, self._latest.begin())
        marks = [self._low + (self._high - self._low) * i / (MARKS - 1) for i in range(MARKS)]
        rates = await to_thread.run_sync(passing, self._workspace, self._run.run_id, self._name, marks)
        if rates:
            with self._line:
                self._curve = RateCurve(rates, self._low, self._high)
            self._curve.mark(self._own)

    def _slider(self) -> None:
        step = 0.01 if self._high - self._low <= 2 else round((self._high - self._low) / 100, 6)
        slider = ui.element("input").props("type=range")
        # "^" makes an attribute (the initial value); the browser controls the property.
        for name, position in (("min", self._low), ("max", self._high), ("step", step), ("^value", self._start)):
            slider.props[name] = position
        slider.props["aria-label"] = f"Threshold of {self._name}"
        value = "(event) => emit(event.target.value)"
        slider.on("input", lambda event: self._slid(float(event.args)), throttle=0.05, js_handler=value)

    async def _slid(self, value: float) -> None:
        self._at = value
        self._value.set_text(number(value, 2))
        if self._curve is not None:
            self._curve.mark(value)
        self._offer(value)
        await self._on_slide(value, False)
        is_latest = self._latest.begin()
        await self._show_rate(value, is_latest)
        if is_latest():
            await self._on_slide(value, True)

    async def _show_rate(self, threshold: float | None, is_latest: Callable[[], bool]) -> None:
        """Show the share that passes, and then its interval, which takes longer."""
        if threshold is None:
            self._rate.set_text("No threshold is set. Move the slider to see what share would pass.")
            return
        space, run, name = self._workspace, self._run.run_id, self._name
        rates = await to_thread.run_sync(lambda: pass_rates(space, run, {name: threshold}, name))
        if not is_latest() or not rates:
            return
        count = f"{percent(rates[0].rate)} pass ({rates[0].passed:,} of {rates[0].n:,})"
        self._rate.set_text(f"{count}{self._preview_note(threshold)}")
        found = await to_thread.run_sync(passing, space, run, name, [threshold])
        if is_latest() and found:
            self._rate.set_text(f"{count}; {_intervals(found)}{self._preview_note(threshold)}")

    def _preview_note(self, threshold: float) -> str:
        if threshold == self._own:
            return ""
        return f". Preview only{'' if self._own is None else f'; the saved threshold is {number(self._own, 2)}'}"

    def _offer(self, threshold: float | None) -> None:
        is_moved = threshold is not None and threshold != self._own
        is_changed = self._metric["declared"] != self._own
        self._apply.set_visibility(is_moved)
        self._carry.set_visibility(threshold is not None and (is_moved or is_changed))
        self._reset.set_visibility(is_changed)

    async def _apply_to_run(self) -> None:
        work = lambda: keep_threshold(self._workspace, self._run.run_id, self._name, self._at)  # noqa: E731
        if await forms.attempt(work, by=self._apply):
            ui.navigate.reload()  # figures and gates change, too

    async def _reset_run(self) -> None:
        if await forms.attempt(
            lambda: restore_threshold(self._workspace, self._run.run_id, self._name), by=self._reset
        ):
            ui.navigate.reload()

    async def _carry_on(self) -> None:
        value = self._at
        work = lambda: carry_threshold(self._workspace, self._run.run_id, self._name, value)  # noqa: E731
        found = await forms.attempt(work, by=self._carry)
        if found is not None:
            tell(f"{found.name} of {found.bot} has the threshold {number(value, 2)} from the next run on.")


def _intervals(found: Sequence[Passing]) -> str:
    """The interval of each dataset and target, which are separate samples."""
    if len(found) == 1:
        return _rate_interval(found[0])
    varying = [part for part in ("dataset", "target") if len({getattr(one, part) for one in found}) > 1]
    parts: list[str] = []
    for one in found:
        name = ", ".join(getattr(one, part) for part in varying)
        parts.append(f"{name}: {percent(one.rate)}, {_rate_interval(one)}")
    return "; ".join(parts)


def _rate_interval(one: Passing) -> str:
    if one.low is None or one.high is None:
        return f"no interval ({method(one.method)})"
    return f"95 % interval {percent(one.low)} to {percent(one.high)}"

"""The history over runs of all metrics of a bot, and of a single one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import when
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import outcome_badge
from evalflow.addons.studio.web.ui.parts import (
    across,
    address,
    badge,
    caption,
    cell,
    empty,
    filled,
    interval,
    markup,
    message,
    section,
    shape,
    table,
    table_row,
    text,
)
from evalflow.addons.studio.web.ui.visitor import root_path, title_of, with_titles
from evalflow.addons.studio.work.comparing import (
    History,
    HistoryPoint,
    TrackedMetric,
    histories,
    history,
    tracked_metrics,
)
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted, joined, number, plain_statistic

_ABOUT_ALL = "How a bot’s metrics changed from run to run, over the same runs, oldest first."
_ABOUT = "How a metric changed from run to run, and where runs stop being comparable."
_WHAT = forms.About("Metric", "A metric of one bot on one dataset.", required=True)
_BOT = forms.About("Bot", "All its metrics are shown over the same runs.", required=True)
_METRICS = forms.About("Metrics", "Empty: all.", "All metrics")
_NUMBER = forms.About("Number", "E.g. the mean, or the share of cases that pass.", required=True)
LONGEST = 50
"""Maximum number of points in the chart; the table has all."""


@guarded_page("/history")
async def _one_page(
    workspace: Workspace, bot: str = "", dataset: str = "", metric: str = "", statistic: str = "", metrics: str = ""
) -> None:
    known = await to_thread.run_sync(tracked_metrics, workspace)
    if not known:
        about = "Every finished run adds a point here with its interval, so that you can tell changes from noise."
        with frame("History", place="History", about=_ABOUT):
            empty("timeline", "No run has ended yet", about, ("To the runs", "/runs"))
        return
    if not metric:
        names = list(dict.fromkeys(one.bot for one in known))
        shown = bot if bot in names else names[0]
        every = await to_thread.run_sync(histories, workspace, shown, LONGEST)
        with frame("History", place="History", about=_ABOUT_ALL):
            if bot and bot != shown:
                message(f"{title_of('bot', bot)} has no history.", "Choose another bot.", "warn")
            _all_metrics(names, shown, every, [name for name in metrics.split(",") if name])
        return
    wanted = (bot, dataset, metric)
    chosen = next((one for one in known if _key(one) == wanted), known[0])
    name = statistic if statistic in chosen.statistics else chosen.statistics[0]
    series = await to_thread.run_sync(history, workspace, *_key(chosen), name)
    trail = [(f"All metrics of {title_of('bot', chosen.bot)}", address("/history", {"bot": chosen.bot}))]
    with frame(title_of("metric", chosen.metric, chosen.bot), place="History", about=_ABOUT, trail=trail):
        if _key(chosen) != wanted:
            asked = f"{title_of('metric', metric, bot)} of {title_of('bot', bot)} on {title_of('dataset', dataset)}"
            message(f"{asked} has no history.", "Choose another metric.", "warn")
        _picks(known, chosen, name)
        _picture(series, chosen, name)
        _table(series.points, chosen.bot)


def _all_metrics(
    bots: Sequence[str], bot: str, metric_histories: Sequence[tuple[str, str, str, History]], chosen: Sequence[str]
) -> None:
    """A small chart for each metric, all over the same runs."""
    named = {metric: title_of("metric", metric, bot) for _, metric, _, _ in metric_histories}
    kept = [name for name in chosen if name in named]

    def go(name: str, metrics: Sequence[str]) -> None:
        ui.navigate.to(address("/history", {"bot": name, "metrics": ",".join(metrics)}))

    with ui.element("div").classes("card form wide"), ui.element("div").classes("pair top"):
        which = forms.pick(_BOT, {name: title_of("bot", name) for name in bots}, bot)
        what = forms.several(_METRICS, named, kept)
    which.on_value_change(lambda: go(str(which.value), []))
    what.on_value_change(lambda: go(bot, what.value))
    own = [one for one in metric_histories if one[1] in kept or not kept]
    runs = {point.run_id: point.at for *_, one in own for point in one.points if point.value is not None}
    columns = sorted(runs, key=lambda run_id: runs[run_id])
    with ui.element("div").classes("multiples"):
        for dataset, metric, statistic, one in own:
            query = {"bot": bot, "dataset": dataset, "metric": metric, "statistic": statistic}
            points = [point for point in one.points if point.value is not None]
            with ui.element("section"):
                with ui.element("div").classes("actions"), ui.element("h2"):
                    ui.link(named[metric], address("/history", query))
                way = "" if one.higher_is_better else "lower is better"
                passing = _thresholds_in_words(points)
                text(joined(plain_statistic(statistic), title_of("dataset", dataset), way, passing), "p", "muted small")
                if points:
                    limited = statistic == "mean"
                    chart(points, bounded=one.bounded, columns=columns, is_explained=False, is_limited=limited)
                else:
                    message("No run has a value for this.", "", "warn")
    limited = [point for _, _, statistic, one in own for point in one.points if statistic == "mean"]
    _legend([point for *_, one in own for point in one.points], limited)


def _key(one: TrackedMetric) -> tuple[str, str, str]:
    return one.bot, one.dataset, one.metric


def _called(one: TrackedMetric) -> str:
    metric, bot = title_of("metric", one.metric, one.bot), title_of("bot", one.bot)
    return f"{metric} · {bot} on {title_of('dataset', one.dataset)}"


def _picks(known: Sequence[TrackedMetric], chosen: TrackedMetric, statistic: str) -> None:
    options = {str(i): f"{_called(one)} ({counted(one.runs, 'run')})" for i, one in enumerate(known)}
    numbers = {name: plain_statistic(name) for name in chosen.statistics}

    def go(one: TrackedMetric, name: str) -> None:
        query = {"bot": one.bot, "dataset": one.dataset, "metric": one.metric, "statistic": name}
        ui.navigate.to(address("/history", query))

    with ui.element("div").classes("card form wide"), ui.element("div").classes("pair top"):
        what = forms.pick(_WHAT, options, str(known.index(chosen)))
        which = forms.pick(_NUMBER, numbers, statistic)
    what.on_value_change(lambda: go(known[int(str(what.value))], statistic))
    which.on_value_change(lambda: go(chosen, str(which.value)))


def _picture(series: History, chosen: TrackedMetric, statistic: str) -> None:
    shown = [point for point in series.points if point.value is not None][-LONGEST:]
    way = "higher is better" if series.higher_is_better else "lower is better"
    name = title_of("metric", chosen.metric, chosen.bot)
    with section(f"{name}, {plain_statistic(statistic)}", f"The oldest run first; {way}."):
        if shown:
            chart(shown, bounded=series.bounded, is_limited=statistic == "mean")
        else:
            message("No run has a value for this.", "Choose another number.", "warn")
        if len(series.points) == 1:
            message("One run so far.", "Run again to see what changes.")


_HEADS = ("Run", "Value", "95 % interval", "Scored", "Threshold", "Gate", "Since the run before")


def _table(points: Sequence[HistoryPoint], bot: str) -> None:
    with section("All points", "The newest first."), table(_HEADS, "table stacked"):
        for point in reversed(points):
            _row(point, bot)


def _row(point: HistoryPoint, bot: str) -> None:
    with table_row(point.title or point.run_id, joined(when(point.at), point.taken), f"/runs/{point.run_id}"):
        cell("Value", number(point.value))
        cell("95 % interval", interval(point.low, point.high, none="–"))
        cell("Scored", f"{point.n_scored:,} of {point.n:,}")
        cell("Threshold", "–" if point.threshold is None else number(point.threshold, 2))
        with cell("Gate", classes=""), ui.element("div").classes("gates"):
            for gate in point.gates:
                outcome, tone = outcome_badge(gate.passed)
                badge(f"{gate.condition} {outcome}", tone)
            if not point.gates:
                text("–", "span", "muted")
        with cell("Since the run before", classes="since"), ui.element("div"):
            for obstacle in point.breaks:
                text(f"Not comparable: {with_titles(obstacle.what, bot)}", "p", "text small")
            for changed in point.changed:
                text(f"{changed} changed", "p", "small muted")
            if not point.breaks and not point.changed:
                text("–", "span", "muted")


_TOP, _BOTTOM = 26, 226
"""Distance in pixels from the top to the ends of the scale."""
_HIGH = 236
_MARKS = 5
_CROWDED = 14
"""From this number of points on, breaks have no label in the chart; the table explains them."""


class _ValueScale:
    def __init__(self, points: Sequence[HistoryPoint], *, bounded: bool, is_limited: bool) -> None:
        ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
        ends += [gate.condition.limit for point in points for gate in point.gates]
        ends += [point.threshold for point in points if is_limited and point.threshold is not None]
        low, high = min(ends), max(ends)
        step = _round_step((high - low or abs(high) or 1.0) / (_MARKS - 1))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if first == last:
            first, last = first - 1, last + 1
        if bounded:
            first, last = max(first, 0), min(last, round(1 / step))
        self.marks = [round(i * step, 10) for i in range(first, last + 1)]

    def down(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.marks[0], self.marks[-1]
        return round(_BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP), 2)


def chart(
    points: Sequence[HistoryPoint],
    *,
    bounded: bool,
    columns: Sequence[str] = (),
    is_explained: bool = True,
    is_limited: bool = False,
) -> None:
    """Draw the points, the oldest first; all must have a value.

    `columns` are all runs of the axis, if some of them have no point here. `is_limited`: whether the number is on the
    scale of the thresholds, which are then drawn.
    """
    scale = _ValueScale(points, bounded=bounded, is_limited=is_limited)
    runs = columns or [point.run_id for point in points]
    places = [runs.index(point.run_id) for point in points]
    with ui.element("figure").classes("card chart"):
        filled("div", _axis(scale), _plot(points, places, len(runs), scale, is_limited=is_limited), classes="drawing")
        with ui.element("div").classes("ends small muted"):
            for point in points[:1] if len(points) == 1 else (points[0], points[-1]):
                text(when(point.at), "span")
        if is_explained:
            _legend(points, points if is_limited else [])


def _axis(scale: _ValueScale) -> Markup:
    marks = [caption(f"{mark:g}", x=36, y=scale.down(mark) + 4, text_anchor="end") for mark in scale.marks]
    return shape("svg", "axis", *marks, width=44, height=_HIGH, aria_hidden="true")


def _plot(
    points: Sequence[HistoryPoint], places: Sequence[int], count: int, scale: _ValueScale, *, is_limited: bool
) -> Markup:
    elements = [
        shape("line", "grid", x1=0, x2="100%", y1=scale.down(mark), y2=scale.down(mark)) for mark in scale.marks
    ]
    for i, point in zip(places, points, strict=True):
        limits = [("gate", gate.condition.limit) for gate in point.gates]
        if is_limited and point.threshold is not None:
            limits.append(("threshold", point.threshold))
        for kind, limit in limits:
            ends = {"x1": across(i / count), "x2": across((i + 1) / count)}
            elements.append(shape("line", kind, y1=scale.down(limit), y2=scale.down(limit), **ends))
    elements += _links(points, places, count, scale)
    elements += [_point(point, _across(i, count), scale) for i, point in zip(places, points, strict=True)]
    return shape("svg", "plot", *elements, height=_HIGH, role="group", aria_label=_in_words(points))


def _links(points: Sequence[HistoryPoint], places: Sequence[int], count: int, scale: _ValueScale) -> Iterator[Markup]:
    """A line to the next point, or a break if the two runs cannot be compared."""
    for (i, one), (j, other) in pairwise(zip(places, points, strict=True)):
        if other.breaks:
            middle = across(j / count)
            yield shape("line", "break", x1=middle, x2=middle, y1=_TOP - 8, y2=_BOTTOM)
            if count <= _CROWDED:
                yield caption(f"other {other.breaks[0].kind}", "break", x=middle, y=_TOP - 14, text_anchor="middle")
            continue
        ends = {"x1": _across(i, count), "x2": _across(j, count)}
        yield shape("line", "link", y1=scale.down(one.value or 0.0), y2=scale.down(other.value or 0.0), **ends)


def _point(point: HistoryPoint, x: str, scale: _ValueScale) -> Markup:
    """A dot with its interval, linked to the run; a diamond if a gate failed."""
    assert point.value is not None
    y, about = scale.down(point.value), _point_in_words(point)
    elements = [markup("title", about), shape("rect", "hit", x=-10, y=_TOP, width=20, height=_BOTTOM - _TOP)]
    if point.low is not None and point.high is not None:
        elements.append(shape("line", "interval", x1=0, x2=0, y1=scale.down(point.low), y2=scale.down(point.high)))
    if point.gate_failed:
        elements.append(shape("path", "dot", d=f"M0 {y - 7.5} L7.5 {y} L0 {y + 7.5} L-7.5 {y} Z"))
    else:
        elements.append(shape("circle", "dot", cx=0, cy=y, r=5.5))
    link = shape("a", "", *elements, href=f"{root_path()}/runs/{point.run_id}", aria_label=about)
    return shape("svg", "point failed" if point.gate_failed else "point", link, x=x, overflow="visible")


def _legend(points: Sequence[HistoryPoint], limited: Sequence[HistoryPoint]) -> None:
    """The legend; thresholds are drawn at the `limited` points."""
    signs = ["A dot is a run’s value; its line is the 95 % interval. Click it to open the run."]
    if any(point.gates for point in points):
        signs.append("The dashed line is the gate.")
    if any(point.threshold is not None for point in limited):
        signs.append("The dotted line is the threshold of a single score.")
    if any(point.gate_failed for point in points):
        signs.append("A diamond failed its gate.")
    if any(point.breaks for point in points):
        signs.append("Runs on two sides of a vertical line cannot be compared.")
    text(" ".join(signs), "p", "signs small muted")


def _in_words(points: Sequence[HistoryPoint]) -> str:
    first, last = points[0], points[-1]
    return joined(
        f"{len(points)} runs, from {number(first.value)} to {number(last.value)}", _thresholds_in_words(points)
    )


def _thresholds_in_words(points: Sequence[HistoryPoint]) -> str:
    """The threshold, or those over the runs if it changed; empty without one."""
    known = (point.threshold for point in points if point.threshold is not None)
    thresholds = [number(value, 2) for value, _ in groupby(known)]
    return f"threshold {', then '.join(thresholds)}" if thresholds else ""


def _point_in_words(point: HistoryPoint) -> str:
    ends = "" if point.low is None else f", interval {interval(point.low, point.high)}"
    failed = ", a gate failed" if point.gate_failed else ""
    limit = "" if point.threshold is None else f", threshold {number(point.threshold, 2)}"
    taken = f", {point.taken}" if point.taken else ""
    return f"{point.title or point.run_id}, {when(point.at)}{taken}: {number(point.value)}{ends}{limit}{failed}"


def _across(i: int, count: int) -> str:
    return across((i + 0.5) / count)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))

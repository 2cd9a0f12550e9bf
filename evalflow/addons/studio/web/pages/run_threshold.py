"""The threshold of a metric: a histogram of its scores, the pass rate by threshold, and a slider to try others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.headline import metric_title
from evalflow.addons.studio.web.ui.parts import Latest, across, interval, markup, picture, shape, tell, text
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.metrics import MetricDefinition
from evalflow.addons.studio.work.run_files import carry_threshold, keep_threshold, passing, restore_threshold
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import Distribution, PassRate, pass_rates
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.rederive import MetricInRun
from evalflow.report.wording import method, number, percent

if TYPE_CHECKING:
    from evalflow.summary.summarise import Passing

MARKS = 41
"""Number of thresholds at which the curve of pass rates is computed."""
_GAP = 0.005
"""The gap between bars, as a share of their width."""
_WIDE, _HIGH = 1000.0, 100.0
"""Size of the picture in SVG units; it is stretched to any width."""


def bars(scores: Distribution) -> Markup:
    """A histogram, coloured by pass and fail; a threshold may split a bar."""
    highest, width = max(scores.counts) or 1, 1 / len(scores.counts)
    bins: list[Markup] = []
    for place, count in enumerate(scores.counts):
        parts = {"": count}
        if scores.passed is not None:
            parts = {"pass": scores.passed[place], "fail": count - scores.passed[place]}
        sides = ", ".join(f"{n:,} {side}" for side, n in parts.items() if n and side)
        span = interval(scores.edges[place], scores.edges[place + 1], 2)
        across_bar = {"x": across(place * width), "width": across(width - _GAP)}
        rects, top = [markup("title", f"{span}: {sides or f'{count:,}'}")], 1.0
        for side, n in reversed(parts.items()):
            if n:
                height = max(n / highest, 0.02)
                top -= height
                rects.append(markup("rect", cls=side, y=across(top), height=across(height), **across_bar))
        bins.append(markup("g", *rects, cls="bin"))
    return markup("svg", *bins, role="img", **{"aria-label": in_words(scores)})


def in_words(scores: Distribution) -> str:
    """The histogram for screen readers."""
    filled = [
        f"{count:,} from {interval(scores.edges[place], scores.edges[place + 1], 2)}"
        for place, count in enumerate(scores.counts)
        if count
    ]
    return f"Scores: {'; '.join(filled)}"


class RateCurve:
    """The pass rate by threshold from `low` to `high`, with its interval as a band, for each dataset and target."""

    def __init__(self, rates: Sequence[Passing], low: float, high: float) -> None:
        self._low, self._high = low, high
        points = [f"{percent(one.rate)} from {number(one.threshold, 2)}" for one in rates[:: MARKS // 4]]
        about = f"Share that passes by threshold, with its 95 % interval: {'; '.join(points)}"
        with ui.element("div").classes("passing"):
            series = (list(own) for _, own in groupby(rates, lambda one: (one.dataset, one.target)))
            box = {"viewBox": f"0 0 {_WIDE:g} {_HIGH:g}", "preserveAspectRatio": "none"}
            picture(about, "curve", chain.from_iterable(map(self._shapes, series)), **box)
            self._marker = ui.element("i").classes("at").props("aria-hidden=true")
            for share, place in ((1, "top"), (0, "bottom")):
                text(percent(share), "span", f"muted {place}").props("aria-hidden=true")

    def mark(self, threshold: float | None) -> None:
        """Move the marker to a threshold; None hides it."""
        self._marker.set_visibility(threshold is not None)
        if threshold is not None:
            self._marker.style(f"left: {100 * self._x(threshold) / _WIDE:.2f}%")

    def _shapes(self, rates: Sequence[Passing]) -> Iterator[Markup]:
        banded = [one for one in rates if one.low is not None and one.high is not None]
        if banded:
            upper = self._steps([(one.threshold, one.high or 0.0) for one in banded])
            lower = self._steps([(one.threshold, one.low or 0.0) for one in banded])
            yield shape("polygon", "band", points=" ".join([*upper, *reversed(lower)]))
        yield shape("polyline", "rate", points=" ".join(self._steps([(one.threshold, one.rate) for one in rates])))

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
        metric: MetricInRun,
        scores: Distribution,
        on_slide: Callable[[float, bool], Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric, self._on_slide = workspace, run, metric, on_slide
        self._name = metric.name
        self._own = metric.threshold
        self._latest = Latest()
        low, high = scores.edges[0], scores.edges[-1]
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        self._start = self._own if self._own is not None else (low + high) / 2
        self._low, self._high = min(low, self._start), max(high, self._start)
        self._at = self._start
        self._offered = False, False
        self._curve: RateCurve | None = None
        self._line = ui.element("div").classes("line-of-rates")
        with ui.element("div").classes("moving"):
            text("Threshold", "span", "small muted")
            self._value = text(number(self._start, 2), "span", "reading")
            self._slider()
        self._rate = text("", "p", "rate").props("aria-live=polite")
        self._keeping = ui.element("div").classes("actions keeping")
        self._offer(self._own)

    async def load(self, rate: PassRate | None) -> None:
        """Show the share that passes the run's threshold, and draw it by threshold."""
        is_latest = self._latest.begin()
        self._show(self._own, rate)
        marks = [self._low + (self._high - self._low) * i / (MARKS - 1) for i in range(MARKS)]
        own = [] if self._own is None else [self._own]
        every = await to_thread.run_sync(passing, self._workspace, self._run.run_id, self._name, [*own, *marks])
        step = len(own) + MARKS  # of each dataset and target
        if is_latest():
            self._show(self._own, rate, every[::step] if own else [])
        if every:
            with self._line:
                curve = [one for at, one in enumerate(every) if at % step >= len(own)]
                self._curve = RateCurve(curve, self._low, self._high)
            self._curve.mark(self._own)

    def _slider(self) -> None:
        step = 0.01 if self._high - self._low <= 2 else round((self._high - self._low) / 100, 6)
        slider = ui.element("input").props("type=range")
        # "^" makes an attribute (the initial value); the browser controls the property.
        for name, position in (("min", self._low), ("max", self._high), ("step", step), ("^value", self._start)):
            slider.props[name] = position
        slider.props["aria-label"] = f"Threshold of {metric_title(self._run, self._name)}"
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

    async def _show_rate(self, threshold: float, is_latest: Callable[[], bool]) -> None:
        """Show the share that passes, and then its interval, which takes longer."""
        space, run, name = self._workspace, self._run.run_id, self._name
        rates = await to_thread.run_sync(lambda: pass_rates(space, run, {name: threshold}, name))
        if not is_latest() or not rates:
            return
        self._show(threshold, rates[0])
        estimates = await to_thread.run_sync(passing, space, run, name, [threshold])
        if is_latest():
            self._show(threshold, rates[0], estimates)

    def _show(self, threshold: float | None, rate: PassRate | None, estimates: Sequence[Passing] = ()) -> None:
        if threshold is None:
            self._rate.set_text("No threshold is set. Move the slider to see what share would pass.")
        elif rate is not None:
            count = f"{percent(rate.rate)} pass ({rate.passed:,} of {rate.n:,})"
            intervals = f"; {_intervals(estimates)}" if estimates else ""
            self._rate.set_text(f"{count}{intervals}{self._preview_note(threshold)}")

    def _preview_note(self, threshold: float) -> str:
        if threshold == self._own:
            return ""
        return f". Preview only{'' if self._own is None else f'; the saved threshold is {number(self._own, 2)}'}"

    def _offer(self, threshold: float | None) -> None:
        """Offer to save the slider's threshold, and to reset it to the declared one."""
        is_moved = threshold is not None and threshold != self._own
        is_changed = self._metric.declared != self._own
        if not may("edit") or (is_moved, is_changed) == self._offered:
            return
        self._offered = is_moved, is_changed
        self._keeping.clear()
        of_run, declared = (self._workspace, self._run.run_id, self._name), self._metric.declared
        with self._keeping:
            if is_moved:
                work_button("Apply to this run", lambda: keep_threshold(*of_run, self._at), _show_again)
            if is_moved or (is_changed and threshold is not None):
                work_button("Use it in the next runs", lambda: carry_threshold(*of_run, self._at), self._tell_carried)
            if is_changed:
                label = f"Reset to {'none' if declared is None else number(declared, 2)}"
                work_button(label, partial(restore_threshold, *of_run), _show_again)

    def _tell_carried(self, saved: MetricDefinition) -> None:
        bot, threshold = title_of("bot", self._run.bot), number(saved.definition["threshold"], 2)
        tell(f"{saved.title} of {bot} has the threshold {threshold} from the next run on.")


def _show_again(_: Run) -> None:
    ui.navigate.reload()  # figures and gates change, too


def _intervals(estimates: Sequence[Passing]) -> str:
    """The interval of each dataset and target, which are separate samples."""
    if len(estimates) == 1:
        return _rate_interval(estimates[0])
    varying = [part for part in ("dataset", "target") if len({getattr(one, part) for one in estimates}) > 1]
    parts: list[str] = []
    for one in estimates:
        name = ", ".join(getattr(one, part) for part in varying)
        parts.append(f"{name}: {percent(one.rate)}, {_rate_interval(one)}")
    return "; ".join(parts)


def _rate_interval(one: Passing) -> str:
    if one.low is None or one.high is None:
        return f"no interval ({method(one.method)})"
    return f"95 % interval {percent(one.low)} to {percent(one.high)}"

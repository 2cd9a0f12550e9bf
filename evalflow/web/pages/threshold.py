"""The threshold of a metric in a run, over the distribution of its scores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.run_files import carry_threshold, keep_threshold, passing, restore_threshold
from evalflow.app.studio.run_types import Run
from evalflow.app.studio.scores import Distribution, PassRate, pass_rates
from evalflow.app.studio.space import Workspace
from evalflow.report.wording import method, number, percent
from evalflow.web.ui.parts import attempt, button, picture, shape, tell, text

if TYPE_CHECKING:
    from evalflow.summary.pass_rates import Passing


MARKS = 41
"""Thresholds that the line of pass rates is drawn from."""
_WIDE, _HIGH = 1000.0, 100.0
"""Of the picture's own units; it is stretched to any width."""


def thresholds_of(low: float, high: float) -> list[float]:
    """Where the pass rate is looked at, evenly from one end of the scale to the other."""
    return [low + (high - low) * i / (MARKS - 1) for i in range(MARKS)]


def bars(lies: Distribution) -> None:
    """A bar for each part of the scale, in the colours of what passes and fails; a threshold may part a bar."""
    highest = max(lies.counts) or 1
    for place, count in enumerate(lies.counts):
        parts = {"": count}
        if lies.passed is not None:
            parts = {"pass": lies.passed[place], "fail": count - lies.passed[place]}
        with ui.element("span").classes("bin") as bar:
            for side, n in parts.items():
                if n:
                    ui.element("i").classes(side).style(f"height: {max(100 * n / highest, 2):.1f}%")
        told = ", ".join(f"{n:,} {side}" for side, n in parts.items() if n and side)
        span = f"{number(lies.edges[place], 2)} to {number(lies.edges[place + 1], 2)}"
        bar.props["title"] = f"{span}: {told or f'{count:,}'}"


def in_words(lies: Distribution) -> str:
    """The bars, for those who do not see them."""
    filled = [
        f"{count:,} from {number(lies.edges[place], 2)} to {number(lies.edges[place + 1], 2)}"
        for place, count in enumerate(lies.counts)
        if count
    ]
    return f"Scores of {lies.metric}: {'; '.join(filled)}"


def curve(rates: Sequence[Passing], low: float, high: float) -> ui.element:
    """The pass rate by threshold with its interval as a band, a line for each dataset and target.

    Args:
        rates: Of `thresholds_of(low, high)`, as they come.
        low: The left end of the scale.
        high: The right one.

    Returns:
        The mark that stands at a threshold; `mark` moves it.
    """
    with ui.element("div").classes("passing"):
        with picture(_spoken(rates), "curve") as drawn:
            drawn.props(f'viewBox="0 0 {_WIDE:g} {_HIGH:g}" preserveAspectRatio="none"')
            for _, own in groupby(rates, lambda one: (one.dataset, one.target)):
                _rate_line(list(own), low, high)
        marker = ui.element("i").classes("at").props("aria-hidden=true")
        for share, place in ((1, "top"), (0, "bottom")):
            text(percent(share), "span", f"muted {place}").props("aria-hidden=true")
    return marker


def mark(marker: ui.element, threshold: float | None, low: float, high: float) -> None:
    """Move the mark to a threshold; None takes it away."""
    marker.set_visibility(threshold is not None)
    if threshold is not None:
        marker.style(f"left: {100 * _across(threshold, low, high) / _WIDE:.2f}%")


def _rate_line(rates: Sequence[Passing], low: float, high: float) -> None:
    """Steps, since a pass rate only changes where a score lies."""
    banded = [one for one in rates if one.low is not None and one.high is not None]
    if banded:
        upper = _steps([(one.threshold, one.high or 0.0) for one in banded], low, high)
        lower = _steps([(one.threshold, one.low or 0.0) for one in banded], low, high)
        shape("polygon", "band", points=" ".join([*upper, *reversed(lower)]))
    shape("polyline", "rate", points=" ".join(_steps([(one.threshold, one.rate) for one in rates], low, high)))


def _steps(values: Sequence[tuple[float, float]], low: float, high: float) -> list[str]:
    points: list[str] = []
    before = None
    for threshold, share in values:
        x = f"{_across(threshold, low, high):.1f}"
        if before is not None:
            points.append(f"{x},{before}")
        before = f"{_HIGH * (1 - share):.1f}"
        points.append(f"{x},{before}")
    return points


def _across(value: float, low: float, high: float) -> float:
    return _WIDE * min(max((value - low) / (high - low), 0.0), 1.0)


def _spoken(rates: Sequence[Passing]) -> str:
    """Some of the line, for those who do not see it."""
    few = [f"{percent(one.rate)} from {number(one.threshold, 2)}" for one in rates[:: MARKS // 4]]
    return f"Share that passes by threshold, with its 95 % interval: {'; '.join(few)}"


STEP = 0.01
THROTTLE_S = 0.05
_VALUE = "(event) => emit(event.target.value)"


class ThresholdBar:
    """A slider, what would pass where it stands, and what can be done with that.

    Args:
        workspace: The door to what is stored.
        run: Whose metric.
        metric: Its entry in the run's facts.
        lies: How its scores lie.
        moved: Is called with the threshold at once, and again once its pass rate is told.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        metric: Mapping[str, Any],
        lies: Distribution,
        moved: Callable[[float, bool], Awaitable[None]],
    ) -> None:
        self._workspace, self._run, self._metric, self._moved = workspace, run, metric, moved
        self._name: str = metric["name"]
        self._own: float | None = metric["threshold"]
        self._asked = 0
        low, high = lies.edges[0], lies.edges[-1]
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        self._start = self._own if self._own is not None else (low + high) / 2
        self._low, self._high = min(low, self._start), max(high, self._start)
        self._at = self._start
        self._marker: ui.element | None = None
        self._line = ui.element("div").classes("line-of-rates")
        with ui.element("div").classes("moving"):
            text("Threshold", "span", "small muted")
            self._value = text(number(self._start, 2), "span", "reading")
            self._slider()
        self._rate = text("", "p", "rate").props("aria-live=polite")
        with ui.element("div").classes("actions keeping"):
            self._keep = button("Apply to this run", self._keeping)
            self._carry = button("Use it in the next runs", self._carrying)
            self._back = button(self._back_label(), self._restoring)
        self._offer(self._own)

    async def load(self) -> None:
        """Say what passes now, and draw the pass rate by threshold."""
        await self._tell(self._own)
        marks = thresholds_of(self._low, self._high)
        rates = await to_thread.run_sync(passing, self._workspace, self._run.run_id, self._name, marks)
        if rates:
            with self._line:
                self._marker = curve(rates, self._low, self._high)
                mark(self._marker, self._own, self._low, self._high)

    def _slider(self) -> None:
        step = STEP if self._high - self._low <= 2 else round((self._high - self._low) / 100, 6)
        slider = ui.element("input").props("type=range")
        # "^": an attribute, which is where it starts; the property is left to whoever moves it
        for name, value in (("min", self._low), ("max", self._high), ("step", step), ("^value", self._start)):
            slider.props[name] = value
        slider.props["aria-label"] = f"Threshold of {self._name}"
        slider.on("input", lambda event: self._slid(float(event.args)), throttle=THROTTLE_S, js_handler=_VALUE)

    async def _slid(self, value: float) -> None:
        self._at = value
        self._value.set_text(number(value, 2))
        if self._marker is not None:
            mark(self._marker, value, self._low, self._high)
        self._offer(value)
        await self._moved(value, False)
        asked = await self._tell(value)
        if asked == self._asked:
            await self._moved(value, True)

    async def _tell(self, threshold: float | None) -> int:
        """Say what share passes by that threshold, and then how sure that is."""
        self._asked += 1
        asked = self._asked
        if threshold is None:
            self._rate.set_text("No threshold is set. Move the slider to see what share would pass.")
            return asked
        space, run, name = self._workspace, self._run.run_id, self._name
        counted = await to_thread.run_sync(lambda: pass_rates(space, run, {name: threshold}, name))
        if asked != self._asked or not counted:
            return asked
        self._rate.set_text(f"{_count(counted[0])}{self._apart(threshold)}")
        found = await to_thread.run_sync(passing, space, run, name, [threshold])
        if asked == self._asked and found:
            self._rate.set_text(f"{_count(counted[0])}; {_intervals(found)}{self._apart(threshold)}")
        return asked

    def _apart(self, threshold: float) -> str:
        if threshold == self._own:
            return ""
        return (
            ". Preview only" if self._own is None else f". Preview only; the saved threshold is {number(self._own, 2)}"
        )

    def _offer(self, threshold: float | None) -> None:
        moved = threshold is not None and threshold != self._own
        self._keep.set_visibility(moved)
        self._carry.set_visibility(threshold is not None and (moved or self._is_kept()))
        self._back.set_visibility(self._is_kept())

    def _is_kept(self) -> bool:
        return self._metric["declared"] != self._own

    def _back_label(self) -> str:
        declared = self._metric["declared"]
        return "Reset to none" if declared is None else f"Reset to {number(declared, 2)}"

    async def _keeping(self) -> None:
        await self._change(lambda: keep_threshold(self._workspace, self._run.run_id, self._name, self._at), self._keep)

    async def _restoring(self) -> None:
        await self._change(lambda: restore_threshold(self._workspace, self._run.run_id, self._name), self._back)

    async def _change(self, work: Callable[[], Run], by: ui.button) -> None:
        """The numbers, gates and reports that follow are on the page that is shown anew."""
        if await attempt(work, by=by):
            ui.navigate.reload()

    async def _carrying(self) -> None:
        value = self._at
        work = lambda: carry_threshold(self._workspace, self._run.run_id, self._name, value)  # noqa: E731
        found = await attempt(work, by=self._carry)
        if found is not None:
            tell(f"{found.name} of {found.bot} has the threshold {number(value, 2)} from the next run on.")


def _count(rate: PassRate) -> str:
    return f"{percent(rate.rate)} pass ({rate.passed:,} of {rate.n:,})"


def _intervals(found: Sequence[Passing]) -> str:
    """The 95 % interval; one for each dataset and target where there are several, which are not one sample."""
    if len(found) == 1:
        return _interval(found[0])
    targets = {one.target for one in found}
    datasets = {one.dataset for one in found}
    several = [(len(datasets) > 1, "dataset"), (len(targets) > 1, "target")]
    parts: list[str] = []
    for one in found:
        name = ", ".join(getattr(one, part) for is_told, part in several if is_told)
        parts.append(f"{name}: {percent(one.rate)}, {_interval(one)}")
    return "; ".join(parts)


def _interval(one: Passing) -> str:
    if one.low is None or one.high is None:
        return f"no interval ({method(one.method)})"
    return f"95 % interval {percent(one.low)} to {percent(one.high)}"

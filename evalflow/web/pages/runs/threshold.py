"""The threshold of a metric in a run: moved to see what would pass, kept, given back, or taken along by the bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Distribution, PassRate
from evalflow.app.workspace.scores import pass_rates
from evalflow.app.workspace.thresholds import carry_threshold, keep_threshold, passing, restore_threshold
from evalflow.report.wording import method, number, percent
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.parts import button, text
from evalflow.web.pages.runs.spread import curve, mark, thresholds_of

if TYPE_CHECKING:
    from evalflow.summary import Passing

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
            self._keep = button("Keep it for this run", self._keeping)
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
            self._rate.set_text("No threshold counts here; move it to see what share would pass.")
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
        return "; not kept" if self._own is None else f"; not kept, the run's own is {number(self._own, 2)}"

    def _offer(self, threshold: float | None) -> None:
        moved = threshold is not None and threshold != self._own
        self._keep.set_visibility(moved)
        self._carry.set_visibility(threshold is not None and (moved or self._is_kept()))
        self._back.set_visibility(self._is_kept())

    def _is_kept(self) -> bool:
        return self._metric["declared"] != self._own

    def _back_label(self) -> str:
        declared = self._metric["declared"]
        return "Back to none, as declared" if declared is None else f"Back to {number(declared, 2)}, as declared"

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

"""Two runs held against each other: picked, compared, and read case by case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.comparison.comparable import KINDS, Obstacle
from evalflow.app.comparison.comparing import How
from evalflow.app.workspace import Workspace
from evalflow.app.workspace.comparing import Candidate, candidates, compare_runs, obstacles_between, scored_runs
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.runs import get_run
from evalflow.errors import EvalflowError
from evalflow.report.comparison import Comparison
from evalflow.web.pages.address import page
from evalflow.web.pages.compare.changed import changed
from evalflow.web.pages.compare.table import differences
from evalflow.web.pages.forms import About, number, pick
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, empty, link_button, message, section, text
from evalflow.web.pages.runs.words import name_of, when

_ABOUT = "What changed from one run to another, case by case, and whether chance alone could have done it."
_BEFORE = About("Run A", "The one before; those that can be compared with B come first.", required=True)
_AFTER = About("Run B", "The one that is judged, such as the latest.", required=True)
_MARGIN = About(
    "Acceptable loss", "Also says whether B is not worse than A by more than this; empty: not asked.", "0.02"
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is compared, as the address says it."""

    a: str
    b: str
    allow: tuple[str, ...] = ()
    margin: float | None = None

    @property
    def path(self) -> str:
        margin = "" if self.margin is None else f"{self.margin:g}"
        words = {"a": self.a, "b": self.b, "allow": ",".join(self.allow), "margin": margin}
        return f"/compare?{urlencode({name: word for name, word in words.items() if word})}"


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/compare")
    async def compare(a: str = "", b: str = "", allow: str = "", margin: str = "") -> None:
        runs = await to_thread.run_sync(scored_runs, workspace)
        if len(runs) < 2 and not (a and b):
            _too_few(runs)
            return
        after = await to_thread.run_sync(get_run, workspace, b) if b else runs[0]
        others = await to_thread.run_sync(candidates, workspace, after.run_id)
        before = await to_thread.run_sync(get_run, workspace, a) if a else None
        with frame("Compare", place="Compare", about=_ABOUT):
            accepted = _margin(margin)
            _picks(runs, after, before, others, accepted)
            if before is not None:
                allowed = tuple(kind for kind in KINDS if kind in allow.split(","))
                _Result(workspace, before, after, _Pair(before.run_id, after.run_id, allowed, accepted))


def _too_few(runs: Sequence[Run]) -> None:
    title = "One run so far" if runs else "No run has ended yet"
    about = "Run the same test cases and metrics twice, with something changed in between; then see here what it did."
    with frame("Compare", place="Compare", about=_ABOUT), empty("compare_arrows", title, about):
        link_button("To the runs", "/runs", primary=True)


def _margin(said: str) -> float | None:
    """How much worse is acceptable; None where nobody asks, or what is said is none."""
    try:
        value = float(said.replace(",", "."))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _picks(
    runs: Sequence[Run], after: Run, before: Run | None, others: Sequence[Candidate], accepted: float | None
) -> None:
    """The two runs; with another run B, those that it can be compared with are looked up anew."""
    newer = {run.run_id: _option(run) for run in (*runs, after)}
    older = {one.run.run_id: _option(one.run) + _why_not(one.obstacles) for one in others}
    if before is not None:
        older.setdefault(before.run_id, _option(before))
    first = before.run_id if before is not None else next(iter(older), None)

    def chosen() -> str:
        return _Pair(str(a.value), after.run_id, margin=_margin(str(margin.value or ""))).path

    with ui.element("div").classes("card stack"):
        with ui.element("div").classes("form wide"), ui.element("div").classes("pair top"):
            a = pick(_BEFORE, older, first or "")
            b = pick(_AFTER, newer, after.run_id)
            margin = number(_MARGIN, accepted)
        if first is None:
            message("No other run has a dataset and a metric in common with run B.", "Choose another run B.")
        with ui.element("div").classes("actions"):
            if first is not None:
                button("Compare", lambda: ui.navigate.to(chosen()), kind="primary")
            if before is not None:
                link_button("Swap A and B", _Pair(after.run_id, before.run_id, margin=accepted).path)
    b.on_value_change(lambda: ui.navigate.to(f"/compare?{urlencode({'b': str(b.value)})}"))


def _option(run: Run) -> str:
    return f"{name_of(run)} · {when(run.created_at)}"


def _why_not(obstacles: Sequence[Obstacle]) -> str:
    kinds = dict.fromkeys(obstacle.kind for obstacle in obstacles)
    return f" (other {', '.join(kinds)})" if kinds else ""


class _Result:
    """What the comparison says, or what keeps it from being made; comes after the first paint, as it takes a while."""

    def __init__(self, workspace: Workspace, before: Run, after: Run, pair: _Pair) -> None:
        self._workspace, self._runs, self._pair = workspace, (before, after), pair
        self._place = ui.element("div").props("aria-live=polite aria-busy=true")
        with self._place:
            text("Comparing …", "p", "muted waiting")
        ui.timer(0, self._fill, once=True)

    async def _fill(self) -> None:
        pair, space = self._pair, self._workspace
        try:
            found = await to_thread.run_sync(obstacles_between, space, pair.a, pair.b)
            if any(obstacle.kind not in pair.allow for obstacle in found):
                self._show_obstacles(found)
            else:
                self._show(
                    await to_thread.run_sync(compare_runs, space, pair.a, pair.b, How(pair.allow, margin=pair.margin))
                )
        except EvalflowError as error:
            self._begin()
            with self._place:
                message("They cannot be compared", str(error), "fail")

    def _begin(self) -> None:
        self._place.clear()
        self._place.props(remove="aria-busy")

    def _show_obstacles(self, found: Sequence[Obstacle]) -> None:
        self._begin()
        kinds = tuple(dict.fromkeys(obstacle.kind for obstacle in found))
        with self._place, section("These runs cannot be compared as they are", "Their scores may not mean the same:"):
            with ui.element("ul").classes("obstacles"):
                for obstacle in found:
                    text(obstacle.what, "li", "text")
            with ui.element("div").classes("actions"):
                link_button("Compare all the same", replace(self._pair, allow=kinds).path)
                link_button("Run A again, as B was", f"/runs/new?{urlencode({'source': self._pair.b})}")
                link_button("Choose another run A", f"/compare?{urlencode({'b': self._pair.b})}")

    def _show(self, found: Comparison) -> None:
        self._begin()
        with self._place:
            differences(found, self._runs)
            changed(self._workspace, found, self._runs)

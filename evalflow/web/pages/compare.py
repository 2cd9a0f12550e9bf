"""Two runs compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.core.comparison import KINDS, How, Obstacle
from evalflow.app.studio.comparing import ComparableRun, candidates, compare_runs, obstacles_between, scored_runs
from evalflow.app.studio.runs import Run, get_run
from evalflow.app.studio.space import Workspace
from evalflow.report.comparison import VERDICTS, Comparison, in_words
from evalflow.report.wording import method, number, p_value, signed
from evalflow.web.pages.compare_cases import changed
from evalflow.web.pages.runs import name_of, when
from evalflow.web.ui.forms import About, number_field, pick
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    Tone,
    across,
    badge,
    button,
    cell,
    empty,
    fill,
    link_button,
    message,
    picture,
    section,
    shape,
    table,
    text,
)

if TYPE_CHECKING:
    from evalflow.summary.compare import ComparisonRow

_ABOUT = "What changed between two runs, case by case, and whether it could be chance."
_BEFORE = About("Run A", "The earlier run; comparable runs come first.", required=True)
_AFTER = About("Run B", "The run to judge, e.g. the latest.", required=True)
_MARGIN = About("Acceptable loss", "Also tests that B is not worse than A by more than this. Empty: no test.", "0.02")


@dataclass(frozen=True, slots=True)
class _Pair:
    """The comparison given by a URL."""

    a: str
    b: str
    allow: tuple[str, ...] = ()
    margin: float | None = None

    @property
    def path(self) -> str:
        margin = "" if self.margin is None else f"{self.margin:g}"
        query = {"a": self.a, "b": self.b, "allow": ",".join(self.allow), "margin": margin}
        return f"/compare?{urlencode({name: value for name, value in query.items() if value})}"


def add(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/compare")
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
                _result(workspace, (before, after), _Pair(before.run_id, after.run_id, allowed, accepted))


def _too_few(runs: Sequence[Run]) -> None:
    title = "One run so far" if runs else "No run has ended yet"
    about = "Run the same test cases and metrics twice with a change in between; then compare here."
    with frame("Compare", place="Compare", about=_ABOUT), empty("compare_arrows", title, about):
        link_button("To the runs", "/runs", primary=True)


def _margin(content: str) -> float | None:
    """The acceptable loss; None if it is missing, or not a positive number."""
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _picks(
    runs: Sequence[Run], after: Run, before: Run | None, others: Sequence[ComparableRun], accepted: float | None
) -> None:
    """The fields for the two runs; choosing another run B reloads the page with the runs comparable to it."""
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
            margin = number_field(_MARGIN, accepted)
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


def _result(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    """The comparison, or the obstacles; loaded after the first paint, because it is slow."""

    def compare() -> Comparison | list[Obstacle]:
        obstacles = obstacles_between(workspace, pair.a, pair.b)
        if any(obstacle.kind not in pair.allow for obstacle in obstacles):
            return obstacles
        return compare_runs(workspace, pair.a, pair.b, How(pair.allow, margin=pair.margin))

    def show(found: Comparison | list[Obstacle]) -> None:
        if isinstance(found, list):
            _show_obstacles(found, pair)
        else:
            differences(found, runs)
            changed(workspace, found, runs)

    async def read() -> Comparison | list[Obstacle]:
        return await to_thread.run_sync(compare)

    place = ui.element("div")
    ui.timer(0, lambda: fill(place, "Comparing …", read, show, "These runs cannot be compared"), once=True)


def _show_obstacles(obstacles: Sequence[Obstacle], pair: _Pair) -> None:
    kinds = tuple(dict.fromkeys(obstacle.kind for obstacle in obstacles))
    with section("These runs cannot be compared as they are", "Their scores may not mean the same:"):
        with ui.element("ul").classes("obstacles"):
            for obstacle in obstacles:
                text(obstacle.what, "li", "text")
        with ui.element("div").classes("actions"):
            link_button("Compare anyway", replace(pair, allow=kinds).path)
            link_button("Run A again, as B was", f"/runs/new?{urlencode({'source': pair.b})}")
            link_button("Choose another run A", f"/compare?{urlencode({'b': pair.b})}")


_TONES: dict[str, Tone] = {"better": "pass", "worse": "fail", "cannot_tell": ""}
_HEADS = ("Metric", "A", "B", "B minus A, with its 95 % interval", "Verdict", "p, adjusted", "Could detect", "Cases")
_MARGIN_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("not worse", "pass"),
    False: ("worse", "fail"),
    None: ("cannot tell whether worse", "warn"),
}
_MIDDLE = 13
"""Distance in pixels from the top to the line of an interval."""
_LEGEND = (
    "A difference is clear if its adjusted p-value is below 0.05 and its interval excludes 0. “Could detect” is the "
    "true difference that this many cases would find four times in five."
)


def differences(found: Comparison, runs: tuple[Run, Run]) -> None:
    """The verdict in a sentence, then each difference."""
    with section("Verdict"):
        text(in_words(found.rows), "p", "verdict-in-words")
        with ui.element("div").classes("sides"):
            for side, run in zip("AB", runs, strict=True):
                _side(side, run)
        for note in found.notes:
            message(note)
    with section("Differences", "B minus A, over the cases scored in both runs."):
        _table(found.rows)
        if found.margin is not None:
            _against(found.rows, found.margin)
        with ui.element("div").classes("legend small muted"):
            for note in (*found.judges, f"A {found.family}.", _LEGEND):
                text(note, "p")


def _side(side: str, run: Run) -> None:
    with ui.element("div").classes("side"):
        badge(side, "accent")
        ui.link(name_of(run), f"/runs/{run.run_id}")
        text(f"{run.bot} · {when(run.created_at)}", "span", "small muted")


def _table(rows: Sequence[ComparisonRow]) -> None:
    span = _span([row for row in rows if _is_small(row)])
    several = len({row.dataset for row in rows}) > 1
    with table(_HEADS, "table stacked"):
        for row in rows:
            _row(row, span if _is_small(row) else _span([row]), several)


def _row(row: ComparisonRow, span: float, several: bool) -> None:
    found = row.found
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            text(row.metric, classes="name")
            text(_about(row, several), classes="small muted")
        cell("A", number(found.value_a))
        cell("B", number(found.value_b))
        with cell(_HEADS[3], classes="drawn"):
            _interval(row, span)
            ends = "no interval" if found.low is None else f"{signed(found.low)} to {signed(found.high)}"
            with ui.element("div").classes("said"):
                text(signed(found.difference), "strong")
                text(f"{ends}, {method(found.method)}", "span", "small muted")
        with cell("Verdict", classes=""):
            badge(VERDICTS[row.verdict], _TONES[row.verdict])
        cell("p, adjusted", p_value(row.p_adjusted))
        cell("Could detect", number(row.detectable))
        cases = f"{found.n:,}" + (f" in {found.clusters:,} clusters" if found.clusters != found.n else "")
        cell("Cases", cases)


def _against(rows: Sequence[ComparisonRow], margin: float) -> None:
    """Whether B is not worse by more than the margin, metric by metric."""
    with ui.element("ul").classes("card margins"):
        for row in rows:
            found = row.document(margin)
            words, tone = _MARGIN_VERDICTS[found["not_worse"]]
            needed = found["cases_needed"]
            more = f"About {needed:,} cases would decide, if the difference stays the same." if needed else ""
            with ui.element("li"):
                badge(words, tone)
                text(f"{row.metric}, {_about(row, several=True)}", "span")
                text(f"by more than {margin:g}. {more}", "span", "small muted")


def _about(row: ComparisonRow, several: bool) -> str:
    lower = "" if row.higher_is_better else "lower is better"
    return ", ".join(part for part in (row.called or "mean", row.dataset if several else "", row.judge, lower) if part)


def _interval(row: ComparisonRow, span: float) -> None:
    """The difference as a dot on its interval; 0 is in the middle."""
    found = row.found
    with picture(f"difference {signed(found.difference)}, interval {signed(found.low)} to {signed(found.high)}", "bar"):
        shape("line", "zero", x1="50%", x2="50%", y1=0, y2=2 * _MIDDLE)
        if found.low is not None and found.high is not None:
            ends = {"x1": across(_across(found.low, span)), "x2": across(_across(found.high, span))}
            shape("line", f"line {row.verdict}", y1=_MIDDLE, y2=_MIDDLE, **ends)
        if found.difference is not None:
            shape("circle", f"dot {row.verdict}", cx=across(_across(found.difference, span)), cy=_MIDDLE, r=5)


def _across(value: float, span: float) -> float:
    return 0.5 + 0.48 * value / span


def _span(rows: Sequence[ComparisonRow]) -> float:
    """The largest distance from 0."""
    ends = [abs(end) for row in rows for end in (row.found.low, row.found.high, row.found.difference) if end]
    return max(ends, default=1.0)


def _is_small(row: ComparisonRow) -> bool:
    """Whether the row fits the common scale; rows in other units get a separate scale."""
    found = row.found
    return all(end is None or abs(end) <= 1 for end in (found.low, found.high, found.difference))

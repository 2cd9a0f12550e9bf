"""A metric from run to run: drawn with its intervals and gates, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.history import Held, History, Point, Tracked, history, tracked
from evalflow.report.wording import number
from evalflow.web.pages.address import page
from evalflow.web.pages.forms import About, pick
from evalflow.web.pages.frame import frame
from evalflow.web.pages.history.chart import chart
from evalflow.web.pages.parts import Tone, badge, empty, link_button, message, section, text
from evalflow.web.pages.runs.words import when

_ABOUT = "How a number moved from run to run, and where it stopped meaning the same."
_WHAT = About("Metric", "Of one bot, over one set of test cases, such as “fees · names_the_fee · desk”.", required=True)
_NUMBER = About("Number", "Such as its mean, or the share of cases that pass.", required=True)
_HEADS = ("Run", "Value", "95 % interval", "Scored", "Gate", "Since the run before")
_OUTCOMES: dict[bool | None, tuple[str, Tone]] = {
    True: ("held", "pass"),
    False: ("failed", "fail"),
    None: ("undecided", "warn"),
}
LONGEST = 50
"""Points of a picture; the table has them all."""


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/history")
    async def one(bot: str = "", dataset: str = "", metric: str = "", statistic: str = "") -> None:
        known = await to_thread.run_sync(tracked, workspace)
        if not known:
            _none_yet()
            return
        wanted = (bot, dataset, metric)
        chosen = next((one for one in known if _key(one) == wanted), known[0])
        name = statistic if statistic in chosen.statistics else chosen.statistics[0]
        found = await to_thread.run_sync(history, workspace, *_key(chosen), name)
        with frame("History", place="History", about=_ABOUT):
            if metric and _key(chosen) != wanted:
                message(f"{metric} of {bot} on {dataset} has no history.", "Choose another metric.", "warn")
            _picks(known, chosen, name)
            _picture(found, chosen, name)
            _table(found.points)


def _none_yet() -> None:
    about = "Every run that ends adds a point here, with its interval, so that you see what moves and what only wavers."
    with frame("History", place="History", about=_ABOUT), empty("timeline", "No run has ended yet", about):
        link_button("To the runs", "/runs", primary=True)


def _key(one: Tracked) -> tuple[str, str, str]:
    return one.bot, one.dataset, one.metric


def _picks(known: Sequence[Tracked], chosen: Tracked, statistic: str) -> None:
    options = {str(i): _option(one) for i, one in enumerate(known)}
    numbers = {name: _spoken(name) for name in chosen.statistics}

    def go(one: Tracked, name: str) -> None:
        said = {"bot": one.bot, "dataset": one.dataset, "metric": one.metric, "statistic": name}
        ui.navigate.to(f"/history?{urlencode(said)}")

    with ui.element("div").classes("card form wide"), ui.element("div").classes("pair top"):
        what = pick(_WHAT, options, str(known.index(chosen)))
        which = pick(_NUMBER, numbers, statistic)
    what.on_value_change(lambda: go(known[int(str(what.value))], statistic))
    which.on_value_change(lambda: go(chosen, str(which.value)))


def _option(one: Tracked) -> str:
    return f"{one.metric} · {one.bot} on {one.dataset} ({one.runs} run{'' if one.runs == 1 else 's'})"


def _spoken(statistic: str) -> str:
    return {"mean": "mean", "pass_rate": "pass rate"}.get(statistic, statistic)


def _picture(found: History, chosen: Tracked, statistic: str) -> None:
    shown = [point for point in found.points if point.value is not None][-LONGEST:]
    way = "higher is better" if found.higher_is_better else "lower is better"
    with section(f"{chosen.metric}, {_spoken(statistic)}", f"The oldest run first; {way}."):
        if shown:
            chart(shown, bounded=found.bounded)
        else:
            message("No run has a value for this.", "Choose another number.", "warn")
        if len(found.points) == 1:
            message("One run so far.", "Run again, and see here what moved.")


def _table(points: Sequence[Point]) -> None:
    with section("All points", "The newest first."), ui.element("table").classes("table stacked"):
        with ui.element("thead"), ui.element("tr"):
            for head in _HEADS:
                text(head, "th").props("scope=col")
        with ui.element("tbody"):
            for point in reversed(points):
                _row(point)


def _row(point: Point) -> None:
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            ui.link(point.title or point.run_id, f"/runs/{point.run_id}").classes("name")
            text(when(point.at), classes="small muted")
        _cell("Value", number(point.value))
        _cell("95 % interval", "–" if point.low is None else f"{number(point.low)} to {number(point.high)}")
        _cell("Scored", f"{point.n_scored:,} of {point.n:,}")
        with ui.element("td").props('data-label="Gate"'), ui.element("div").classes("gates"):
            for held in point.gates:
                _gate(held)
            if not point.gates:
                text("–", "span", "muted")
        with ui.element("td").props('data-label="Since the run before"').classes("since"), ui.element("div"):
            for obstacle in point.breaks:
                text(f"Not comparable: {obstacle.what}", "p", "text small")
            for changed in point.changed:
                text(f"{changed} changed", "p", "small muted")
            if not point.breaks and not point.changed:
                text("–", "span", "muted")


def _cell(label: str, content: str) -> None:
    text(content, "td", "num").props(f'data-label="{label}"')


def _gate(held: Held) -> None:
    said, tone = _OUTCOMES[held.passed]
    badge(f"{held.condition} {said}", tone)

"""A bot's home: its quality and change, trends, weak tags and latest runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import ACTIVE, ON_SAMPLES, is_on_samples, name_of, state_of, when
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import basis, heading
from evalflow.addons.studio.web.ui.parts import (
    across,
    address,
    badge,
    empty,
    later,
    link_button,
    message,
    picture,
    section,
    shape,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import bot_home
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.comparing import History, HistoryPoint, histories
from evalflow.addons.studio.work.datasets import sample_datasets
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.sentences import judge_beside
from evalflow.report.wording import counted, joined, number, percent, plain_statistic

TREND = 12
"""The number of runs of a trend."""


@guarded_page("/bots/{bot}")
async def _home_page(workspace: Workspace, bot: str) -> None:
    definition = await to_thread.run_sync(get_bot, workspace, bot)
    shown = await to_thread.run_sync(bot_home.bot_home, workspace, bot)
    samples = await to_thread.run_sync(sample_datasets, workspace)
    with frame(definition.title, place="Bots", about=definition.description, trail=[("Bots", "/")]) as actions:
        with actions:
            if may("edit"):
                link_button("Run again" if shown.runs else "Run", _run_path(bot, shown.runs), primary=True)
            if definition.origin == "workspace":
                link_button("Metrics", f"/bots/{bot}/metrics")
            link_button("Settings", f"/bots/{bot}/settings")
        if not shown.runs:
            _without_runs(bot)
            return
        _latest_state(shown.runs[0])
        if shown.headline is not None:
            _verdict(workspace, shown.headline)
            _trends(workspace, bot)
            _weak(workspace, shown.headline)
        _runs(bot, shown, samples)


def _run_path(bot: str, runs: Sequence[Run]) -> str:
    repeatable = next((run for run in runs if run.request and not run.taken.is_part), None)
    return address("/runs/new", {"source": repeatable.run_id} if repeatable else {"bot": bot})


def _without_runs(bot: str) -> None:
    about = "Choose test cases and a metric; you see the estimate before anything is sent."
    step = ("New run", address("/runs/new", {"bot": bot}))
    empty("play_circle", "Is it good? Run it to find out", about, *([step] if may("edit") else []))


def _latest_state(run: Run) -> None:
    """The state of the latest run, unless it is done."""
    if run.state in ACTIVE:
        done = f"{run.progress.done:,} of {run.progress.expected:,} scores" if run.progress.expected else "starting"
        message(f"A run is in progress: {done}.", "The sentence below is about the run before.", "")
    elif run.state != "done":
        message(f"The latest run was {state_of(run)[0]}: {run.message or name_of(run)}.", "See it below.", "warn")


def _verdict(workspace: Workspace, headline: bot_home.Headline) -> None:
    with ui.element("section").classes("card headline").props('aria-label="Is it good?"'):
        heading(headline)
        if alone := judge_beside(headline.row):
            text(alone, "p", "text")
        place = ui.element("div").classes("since-before")
        basis(headline, f"run of {when(headline.run.created_at)}")
        with ui.element("div").classes("actions"):
            link_button("See each case", f"/runs/{headline.run.run_id}")

    def show(change: bot_home.HeadlineChange) -> None:
        text(since_last_time(change), "p", "text")
        if change.before is not None and not change.before.obstacles:
            pair = {"a": change.before.run.run_id, "b": headline.run.run_id}
            ui.link("Compare with last time", address("/compare", pair)).classes("small")

    read = partial(bot_home.change_since, workspace, headline)
    later(place, "Comparing with last time …", read, show, "It cannot be compared.")


def since_last_time(change: bot_home.HeadlineChange) -> str:
    """The result of a comparison with the previous run."""
    if change.before is None:
        return "There is no earlier run of all cases to compare with."
    if change.before.obstacles:
        return f"Not comparable with last time: {change.before.obstacles[0].what}."
    if change.sentence is None:
        return "Last time has no number to compare with."
    return f"Compared with last time: {change.sentence}"


def _trends(workspace: Workspace, bot: str) -> None:
    about = f"The last {TREND} runs of all cases or of a random sample; a gap is where runs cannot be compared."
    with section("Over time", about):
        place = ui.element("div")

    def show(metric_histories: list[tuple[str, str, str, History]]) -> None:
        if not metric_histories:
            message("No run of all cases yet.", "Runs of a part of the cases are not shown here.")
        with ui.element("div").classes("cards trends"):
            for dataset, metric, statistic, history in metric_histories:
                _trend(bot, dataset, metric, statistic, history)

    read = partial(histories, workspace, bot, TREND)
    later(place, "Reading the earlier runs …", read, show, "They cannot be read.")


def _trend(bot: str, dataset: str, metric: str, statistic: str, history: History) -> None:
    points = [point for point in history.points if point.value is not None]
    query = {"bot": bot, "dataset": dataset, "metric": metric, "statistic": statistic}
    with ui.link(target=address("/history", query)).classes("card"):
        with ui.element("div").classes("actions named"):
            text(title_of("metric", metric, bot), "h3")
            text(_shown(statistic, points[-1].value) if points else "–", "span", "reading")
        text(joined(title_of("dataset", dataset), plain_statistic(statistic)), "p", "muted small")
        if len(points) > 1:
            _line(points)
        else:
            text("One run so far.", "p", "muted small")


def _shown(statistic: str, value: float | None) -> str:
    return percent(value) if statistic == "pass_rate" else number(value, 2)


_HIGH = 56
"""Height of a trend in pixels."""


def _line(points: Sequence[HistoryPoint]) -> None:
    """Dots with intervals, joined if the runs can be compared; the scale is the range of the intervals."""
    ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
    low, span = min(ends), max(ends) - min(ends) or 1.0

    def down(value: float | None) -> float:
        return round(_HIGH - 5 - ((value or 0.0) - low) / span * (_HIGH - 10), 1)

    def right(i: int) -> str:
        return across((i + 0.5) / len(points))

    elements: list[Markup] = []
    for i, point in enumerate(points):
        here = {"x1": right(i), "x2": right(i)}
        if i and not point.breaks:
            before = {"x1": right(i - 1), "y1": down(points[i - 1].value)}
            elements.append(shape("line", "link", **{**here, **before}, y2=down(point.value)))
        if point.low is not None and point.high is not None:
            elements.append(shape("line", "interval", **here, y1=down(point.low), y2=down(point.high)))
        dot = "dot failed" if point.gate_failed else "dot"
        elements.append(shape("circle", dot, cx=right(i), cy=down(point.value), r=3.5))
    first, last = points[0].value, points[-1].value
    about = f"{len(points)} runs, from {number(first, 2)} to {number(last, 2)}"
    picture(about, "spark", elements, height=_HIGH)


def _weak(workspace: Workspace, headline: bot_home.Headline) -> None:
    def show(weakest: list[bot_home.WeakTag]) -> None:
        if not weakest:
            return
        about = f"Worse than all cases together, of the tags with at least {bot_home.FEWEST} scored answers."
        with section("Weakest tags", about), ui.element("ul").classes("card weak"):
            for one in weakest:
                with ui.element("li"):
                    query = {"tag": one.tag, "metric": headline.metric}
                    ui.link(one.tag, address(f"/runs/{headline.run.run_id}", query))
                    text(_shown(headline.statistic, one.value), "span", "reading")
                    text(_tag_basis(headline.statistic, one), "span", "muted small")

    later(ui.element("div"), "", partial(bot_home.weak_tags, workspace, headline), show, "The tags cannot be read.")


def _tag_basis(statistic: str, one: bot_home.WeakTag) -> str:
    ends = "" if one.low is None else f"{_shown(statistic, one.low)} to {_shown(statistic, one.high)}"
    return joined(ends, counted(one.n_scored, "answer"))


def _runs(bot: str, shown: bot_home.BotHome, samples: Collection[str]) -> None:
    with section("Latest runs"), ui.element("ul").classes("card weak"):
        for run in shown.runs:
            with ui.element("li"):
                ui.link(name_of(run), f"/runs/{run.run_id}")
                badge(*state_of(run))
                if is_on_samples(run, samples):
                    badge(ON_SAMPLES)
                text(joined(run.taken.in_words, when(run.created_at)), "span", "muted small")
    if len(shown.runs) == bot_home.LATEST:
        ui.link("All runs", address("/runs", {"bot": bot})).classes("small")

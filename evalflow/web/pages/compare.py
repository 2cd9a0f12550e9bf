"""Two runs compared: what is chosen, why they cannot be compared, or the verdict and the cases that changed."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.core.comparison import KINDS, ComparisonOptions, Obstacle
from evalflow.app.studio import comparing
from evalflow.app.studio.bots import Bot
from evalflow.app.studio.reruns import bot_with_prompt, run_with_prompt
from evalflow.app.studio.runs import Run, get_run
from evalflow.app.studio.space import Workspace
from evalflow.report.comparison import Comparison
from evalflow.web.pages.compare_cases import ChangeQuery, changed_cases
from evalflow.web.pages.compare_verdict import verdict
from evalflow.web.pages.runs import ACTIVE, name_of, when
from evalflow.web.ui import forms
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import address, button, empty, fill, fold, link_button, message, polled, section, text
from evalflow.web.ui.visitor import may

_ABOUT = "What changed between two runs, case by case, and whether it could be chance."
_BEFORE = forms.About("Run A", "The earlier run; comparable runs come first.", required=True)
_AFTER = forms.About("Run B", "The run to judge, e.g. the latest.", required=True)
_MARGIN = forms.About(
    "Acceptable loss", "Also tests that B is not worse than A by more than this. Empty: no test.", "0.02"
)
_PROMPT = forms.About("System prompt", "It comes before every conversation. Earlier runs keep the prompt they used.")
POLL_S = 1.0
"""Seconds between polls of a run in progress."""


@dataclass(frozen=True, slots=True)
class _Pair:
    a: str
    b: str
    allow: tuple[str, ...] = ()
    margin: float | None = None

    def path(self, query: ChangeQuery | None = None) -> str:
        margin = "" if self.margin is None else f"{self.margin:g}"
        own = {"a": self.a, "b": self.b, "allow": ",".join(self.allow), "margin": margin}
        return address("/compare", {**own, **asdict(query or ChangeQuery())})


def add() -> None:
    """Register the page."""

    @guarded_page("/compare")
    async def compare(workspace: Workspace, a: str = "", b: str = "", allow: str = "", margin: str = "") -> None:
        runs = await to_thread.run_sync(comparing.scored_runs, workspace)
        if not runs or (len(runs) < 2 and not b):
            title = "One run so far" if runs else "No run has ended yet"
            about = "Run the same test cases and metrics twice with a change in between; then compare here."
            with frame("Compare", place="Compare", about=_ABOUT), empty("compare_arrows", title, about):
                link_button("To the runs", "/runs", primary=True)
            return
        after = await to_thread.run_sync(get_run, workspace, b) if b else runs[0]
        before = await to_thread.run_sync(get_run, workspace, a) if a else None
        is_scored = bool(after.facts.get("metrics"))
        others = await to_thread.run_sync(comparing.candidates, workspace, after.run_id) if is_scored else []
        bot = await to_thread.run_sync(bot_with_prompt, workspace, after) if is_scored and may("edit") else None
        with frame("Compare", place="Compare", about="" if before else _ABOUT):
            accepted = _margin(margin)
            if before is not None:
                allowed = tuple(kind for kind in KINDS if kind in allow.split(","))
                _show(workspace, (before, after), _Pair(before.run_id, after.run_id, allowed, accepted))
            if bot is not None:
                _prompt_form(workspace, after, bot)
            if is_scored:
                with fold("Compare other runs", is_open=before is None).classes("card other-runs"):
                    _picks(runs, after, before, others, accepted)


def _margin(content: str) -> float | None:
    """The acceptable loss; None if it is missing, or not a positive number."""
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _picks(
    runs: Sequence[Run],
    after: Run,
    before: Run | None,
    others: Sequence[comparing.ComparableRun],
    accepted: float | None,
) -> None:
    """The fields for the two runs; choosing another run B reloads the page with the runs comparable to it."""
    newer = {run.run_id: _option(run) for run in (*runs, after)}
    older: dict[str, str] = {}
    for one in others:
        kinds = dict.fromkeys(obstacle.kind for obstacle in one.obstacles)
        older[one.run.run_id] = _option(one.run) + (f" (other {', '.join(kinds)})" if kinds else "")
    if before is not None:
        older.setdefault(before.run_id, _option(before))
    first = before.run_id if before is not None else next(iter(older), None)

    def chosen() -> str:
        return _Pair(str(a.value), after.run_id, margin=_margin(str(margin.value or ""))).path()

    with ui.element("div").classes("stack"):
        with ui.element("div").classes("form wide"), ui.element("div").classes("pair top"):
            a = forms.pick(_BEFORE, older, first)
            b = forms.pick(_AFTER, newer, after.run_id)
            margin = forms.number_field(_MARGIN, accepted)
        if first is None:
            message("No other run has a dataset and a metric in common with run B.", "Choose another run B.")
        with ui.element("div").classes("actions"):
            if first is not None:
                button("Compare", lambda: ui.navigate.to(chosen()), kind="" if before else "primary")
            if before is not None:
                link_button("Swap A and B", _Pair(after.run_id, before.run_id, margin=accepted).path())
    b.on_value_change(lambda: ui.navigate.to(f"/compare?{urlencode({'b': str(b.value)})}"))


def _option(run: Run) -> str:
    return f"{name_of(run)} · {when(run.created_at)}"


def _show(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    """The result; before it, how far a run is that is still going."""
    waiting = next((run for run in reversed(runs) if not run.facts.get("metrics")), None)
    if waiting is None:
        _result(workspace, runs, pair)
    elif waiting.state in ACTIVE:
        _wait(workspace, waiting)
    else:
        what = f"{name_of(waiting)} has no results: {waiting.state}."
        message(what, waiting.message or "Resume it, then compare.", "warn")
        link_button("To the run", f"/runs/{waiting.run_id}")


def _wait(workspace: Workspace, waiting: Run) -> None:
    with ui.element("section").classes("verdict-first waits"):
        text(f"{name_of(waiting)} is running", "h2", "verdict-in-words")
        done = text("", "p", "muted").props("aria-live=polite")
        bar = ui.element("div").classes("progress")
        bar.props("role=progressbar aria-valuemin=0 aria-valuemax=100 aria-label='Finished scores'")
        with bar:
            filled = ui.element("i")
        link_button("To the run", f"/runs/{waiting.run_id}")

    def tell_progress(run: Run) -> None:
        progress = run.progress
        share = min(1.0, progress.done / progress.expected) if progress.expected else 0.0
        of = f" of {progress.expected:,}" if progress.expected else ""
        done.set_text(f"{progress.done:,}{of} scores so far. The comparison appears here when the run ends.")
        filled.style(f"width: {100 * share:.1f}%")
        bar.props["aria-valuenow"] = round(100 * share)

    async def poll() -> None:
        run = await to_thread.run_sync(get_run, workspace, waiting.run_id)
        if run.state in ACTIVE:
            tell_progress(run)
        else:
            timer.deactivate()
            ui.navigate.reload()

    tell_progress(waiting)
    timer = polled(POLL_S, poll)


def _result(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    query = ChangeQuery.of_address()

    def compare() -> Comparison | list[Obstacle]:
        obstacles = comparing.obstacles_between(workspace, pair.a, pair.b)
        if any(obstacle.kind not in pair.allow for obstacle in obstacles):
            return obstacles
        return comparing.compare_runs(workspace, pair.a, pair.b, ComparisonOptions(pair.allow, margin=pair.margin))

    def show(found: Comparison | list[Obstacle]) -> None:
        if isinstance(found, list):
            _show_obstacles(found, pair)
        else:
            verdict(found, runs)
            changed_cases(workspace, runs, query, pair.path)

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
            link_button("Compare anyway", replace(pair, allow=kinds).path())
            if may("edit"):
                link_button("Run A again, as B was", f"/runs/new?{urlencode({'source': pair.b})}")
            link_button("Choose another run A", f"/compare?{urlencode({'b': pair.b})}")


def _prompt_form(workspace: Workspace, run: Run, bot: Bot) -> None:
    """Edit the prompt of the bot of run B, run the same cases again, and compare with run B."""

    async def start() -> None:
        prompt, key = str(field.value or ""), f"prompt-{uuid.uuid4().hex}"
        started = await forms.attempt(
            lambda: run_with_prompt(workspace, run.run_id, prompt, bot.version, key),
            {"system_prompt": field, "prompt": field},
            starting,
        )
        if started is not None:
            forms.leave(_Pair(run.run_id, started.run_id).path())

    title = f"Edit the prompt of {bot.title}, run and compare"
    with fold(title).classes("card prompt-trial"), forms.unsaved(), ui.element("div").classes("form wide"):
        field = forms.area(_PROMPT, str(bot.config.get("system_prompt") or "")).props("dir=auto")
        with ui.element("div").classes("actions"):
            starting = button("Run and compare", start, kind="primary", icon="play_arrow")
            about = f"Asks {bot.title} the same test cases again, and compares with {name_of(run)}."
            text(about, "span", "small muted")

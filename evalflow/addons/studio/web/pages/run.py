"""One run: its progress, then its results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.nicegui_core import TextElement
from evalflow.addons.studio.web.pages.case_choice import choice_in_words, left_out_in_words
from evalflow.addons.studio.web.pages.results import Found, ResultTable, find
from evalflow.addons.studio.web.pages.results_filter import ResultQuery
from evalflow.addons.studio.web.pages.run_actions import run_actions
from evalflow.addons.studio.web.pages.run_metrics import MetricCard, TagTable, load_cards, overview
from evalflow.addons.studio.web.pages.runs import ACTIVE, duration, name_of, seconds_in_words, state_of, when
from evalflow.addons.studio.web.ui.budget import run_budget
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import (
    basis,
    gate_name,
    gates_in_words,
    heading,
    metric_title,
    outcome_badge,
)
from evalflow.addons.studio.web.ui.naming import TagCounts
from evalflow.addons.studio.web.ui.parts import (
    ProgressBar,
    address,
    after_paint,
    badge,
    capitalised,
    copyable,
    facts,
    interval,
    message,
    polled,
    section,
    text,
)
from evalflow.addons.studio.web.ui.score import status_badge
from evalflow.addons.studio.web.ui.visitor import know_titles, may, title_of
from evalflow.addons.studio.work import runs
from evalflow.addons.studio.work.bot_home import headline_of
from evalflow.addons.studio.work.case_choice import LeftOutCases
from evalflow.addons.studio.work.comparing import related
from evalflow.addons.studio.work.reruns import changeable_metrics
from evalflow.addons.studio.work.run_files import RunFile, list_files
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.scores import note_view, run_tags
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import UserError
from evalflow.report.gate_sentences import beside_value, gates_once
from evalflow.report.sentences import judge_beside, labelled_in
from evalflow.report.wording import cost, joined, number
from evalflow.summary.verdicts import overall

POLL_S = 0.5
"""Seconds between polls of a run in progress; the worker saves its progress once a second."""
FIRST_S = 0.3
"""Seconds for which the page waits for the first results."""
_REPORT = "report.html"


@guarded_page("/runs/{run}")
async def _one_page(workspace: Workspace, run: str) -> None:
    query = ResultQuery.of_address()
    shown_run = await to_thread.run_sync(runs.get_run, workspace, run)
    first = asyncio.create_task(to_thread.run_sync(find, workspace, run, query))
    await to_thread.run_sync(note_view, workspace, run)
    tags, files = await to_thread.run_sync(_tags_and_files, workspace, shown_run)
    left_out = await to_thread.run_sync(runs.left_out_of, workspace, run)
    notices = await to_thread.run_sync(runs.notices_of, workspace, run)
    await asyncio.wait([first], timeout=FIRST_S)
    with frame(name_of(shown_run), place="Runs", trail=[("Runs", "/runs")]) as actions:
        for notice in notices:
            message(capitalised(notice), tone="warn")
        RunView(workspace, shown_run, tags, files, query, actions, left_out, first)


def _tags_and_files(workspace: Workspace, run: runs.Run) -> tuple[TagCounts, Sequence[RunFile]]:
    try:
        files = list_files(workspace, run.run_id) if run.facts else []
    except UserError:  # its folder was moved
        files = []
    return run_tags(workspace, run.run_id), files


class RunView:
    """The page of a run; when the run ends, the page becomes its results."""

    def __init__(
        self,
        workspace: Workspace,
        run: runs.Run,
        tags: TagCounts,
        files: Sequence[RunFile],
        query: ResultQuery,
        actions: ui.element,
        left_out: Mapping[str, LeftOutCases],
        first: asyncio.Task[Found],
    ) -> None:
        self._workspace, self._run, self._actions, self._left_out = workspace, run, actions, left_out
        self._progress: ProgressCard | None = None
        self._above = ui.element("div")
        self._results = Results(workspace, run, query, tags)
        self._below = ui.element("div")
        self._results.table.show_first(first)
        self._build(files)
        after_paint(lambda: self._results.fill(self._results.table.load(first)))
        if run.state in ACTIVE:
            self._timer = polled(POLL_S, self._poll)

    def _build(self, files: Sequence[RunFile]) -> None:
        """Rebuild everything except the results."""
        run = self._run
        know_titles(run)
        for place in (self._actions, self._above, self._below):
            place.clear()
        if may("edit"):
            with self._actions:
                run_actions(self._workspace, run)
        with self._above:
            state = _about(run, self._left_out)
            if run.facts:
                _verdict(run)
                overview(run)
            if run.state in ACTIVE:
                self._progress = ProgressCard(run, state)
                run_budget(self._workspace, run.run_id)
            else:
                _ending(run)
            if run.facts:
                _onward(self._workspace, run)
        with self._below:
            if files:
                _files(run.run_id, files)
            with section("Repeat it", "Run this in a terminal, in the folder where evalflow was started."):
                if run.repeat:
                    copyable(run.repeat)
                facts([("Run", run.run_id), ("Folder", str(run.folder))])

    async def _poll(self) -> None:
        before, latest = self._run, await to_thread.run_sync(runs.get_run, self._workspace, self._run.run_id)
        if latest.state not in ACTIVE:
            tags, files = await to_thread.run_sync(_tags_and_files, self._workspace, latest)
            self._timer.deactivate()
            self._run = latest
            self._build(files)
            self._results.show(latest, tags)
            await self._results.fill(self._results.table.load())
            return
        self._run = latest
        if latest != before and self._progress is not None:
            self._progress.show(self._run)
            if self._run.progress.done != before.progress.done:
                await self._results.table.load()


def _about(run: runs.Run, left_out: Mapping[str, LeftOutCases]) -> TextElement:
    with ui.element("div").classes("actions said-of-run"):
        state = badge(*state_of(run))
        if run.origin != "workspace":
            badge(run.origin)
        took, price = duration(run), "" if run.cost_usd is None else cost(run.cost_usd)
        saved = run.facts.get("provider_savings") or ""
        text(
            joined(title_of("bot", run.bot), when(run.created_at), took and f"took {took}", price, saved),
            "span",
            "muted small",
        )
        chosen = choice_in_words(run.request) if run.request else ""
        if which := joined(chosen, left_out_in_words(left_out)):
            text(which, "span", "muted small")
        if run.request and (examples := _examples_in_words(run, run.request)):
            text(examples, "span", "muted small")
    return state


def _examples_in_words(run: runs.Run, request: RunRequest) -> str:
    """A sentence on the answer examples that the run fills or has filled; empty if it fills none."""
    if filled := run.filled_examples:
        have = "test case that had none has" if filled == 1 else "test cases that had none have"
        return f"{filled:,} {have} this run's answer as answer example"
    will_fill = request.fill_examples and request.options.get("generate", True) in (True, "missing")
    return "its answers become the missing answer examples" if run.state in ACTIVE and will_fill else ""


def _ending(run: runs.Run) -> None:
    errors, done = run.progress.errors, run.progress.done
    if run.state == "failed":
        hint = "Resume continues with the settings of this run; finished work is not repeated."
        if run.request is not None:
            hint = f"Start again uses the current bot and metrics; cached replies cost nothing. {hint}"
        message(run.message or "It failed without an error message; its folder has a log.", hint, "fail")
    elif run.state in ("cancelled", "interrupted"):
        at = f" at {done:,} of {run.progress.expected:,} scores" if run.progress.expected else ""
        message(f"It was {run.state}{at}.", "Resume to finish; finished work is not repeated.", "warn")
    elif run.message:
        message(run.message, "Its files are untouched; see its folder below.", "warn")
    elif run.facts.get("too_many_errors"):
        hint = "Errors are left out of every mean. Retry them, or see them below."
        message(f"The run is inconclusive: errors at {errors:,} of {done:,} scores.", hint, "warn")


def _verdict(run: runs.Run) -> None:
    headline, gates = headline_of(run), gates_in_words(run.facts["gates"], run)
    if headline is None and not gates:
        return
    with ui.element("section").classes("card headline").props('aria-label="In one sentence"'):
        if headline is not None:
            heading(headline)
            if alone := judge_beside(headline.row):
                text(alone, "p", "text")
            if where := labelled_in(run.facts.get("followed", ()), headline.dataset, headline.metric):
                text(f"Labelled {where}.", "p", "muted small")
        if gates:
            failed = overall(gate["passed"] for gate in run.facts["gates"]) is False
            text(gates, "p", "gates-said failed" if failed else "gates-said")
        if headline is not None:
            basis(headline)
        for line in run.facts.get("sampling", ()):
            text(line, "p", "muted small")


def _onward(workspace: Workspace, run: runs.Run) -> None:
    """Next steps for a run with results; links that require reading other runs are loaded after the first paint."""
    with ui.element("nav").classes("onward").props('aria-label="From here"') as place:
        if (run.folder / _REPORT).is_file():
            _link("description", "Report", _file_path(run.run_id, _REPORT), new_tab=True)

    async def fill() -> None:
        relations = await to_thread.run_sync(related, workspace, run.run_id)
        with place:
            if relations.before is not None:
                before = relations.before.run
                unlike = ", not comparable as it is" if relations.before.obstacles else ""
                path = address("/compare", {"a": before.run_id, "b": run.run_id})
                about = f"{name_of(before)}, {when(before.created_at)}{unlike}"
                _link("compare_arrows", "Compare with the run before", path, about)
            _link("compare_arrows", "Compare with another run", address("/compare", {"b": run.run_id}))
            if relations.bot:
                _link("smart_toy", title_of("bot", relations.bot), f"/bots/{quote(relations.bot, safe='')}", "The bot")
            for dataset in relations.datasets:
                _link(
                    "checklist", title_of("dataset", dataset), f"/datasets/{quote(dataset, safe='')}", "Its test cases"
                )

    after_paint(fill)


def _link(icon: str, label: str, path: str, about: str = "", *, new_tab: bool = False) -> None:
    with ui.link(target=path, new_tab=new_tab) as link:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(label)
    if about:
        link.props["title"] = about


class ProgressCard:
    """A card with the progress of a run; it also keeps the badge of the run's state up to date."""

    def __init__(self, run: runs.Run, state: TextElement) -> None:
        self._state = state
        with ui.element("div").classes("card stack watch"):
            self._what = text("", "h2").props("aria-live=polite")
            self._bar = ProgressBar()
            self._facts: dict[str, TextElement] = {}
            with ui.element("dl").classes("facts tight"):
                for name in _progress_facts(run):
                    with ui.element("div"):
                        text(name, "dt")
                        self._facts[name] = text("", "dd")
            text("Latest scores", "h3")
            self._latest = ui.element("ul").classes("latest")
        self.show(run)

    def show(self, run: runs.Run) -> None:
        """Show the progress."""
        progress = run.progress
        label, tone = state_of(run)
        self._state.set_text(label)
        self._state.classes(replace=f"badge {tone}")
        self._what.set_text(_activity(run))
        self._bar.show(progress.done, progress.expected)
        for name, value in _progress_facts(run).items():
            self._facts[name].set_text(value)
        self._latest.clear()
        with self._latest:
            if not progress.latest:
                text("Nothing yet.", "li", "muted")
            for score in progress.latest:
                _latest_score(run, score)


def _activity(run: runs.Run) -> str:
    progress = run.progress
    if run.cancelling:
        return "Stopping: finishing the requests in progress"
    if run.state == "queued":
        return "Waiting for the worker"
    if progress.loaded:
        return "Loading the scores"
    if progress.done:
        return "Scoring"
    return "Asking the bot" if progress.answers else "Starting"


def _progress_facts(run: runs.Run) -> dict[str, str]:
    progress = run.progress
    expected = f" of {progress.expected:,}" if progress.expected else ""
    left = progress.seconds_left
    return {
        "Done": f"{progress.done:,}{expected} scores",
        "Errors": f"{progress.errors:,}",
        "Rate": f"{progress.rate:,.1f} a second" if progress.rate else "–",
        "Cost so far": cost(progress.cost_usd),
        "Time left": "–" if left is None else f"about {seconds_in_words(left)}",
    }


def _latest_score(run: runs.Run, score: Mapping[str, Any]) -> None:
    with ui.element("li"):
        if score["status"] == "scored":
            text(number(score["score"], 2), "span", "reading")
        else:
            status_badge(score["status"])
        label = joined(metric_title(run, score["metric"]), case_title(score.get("question"), score["case_id"]))
        if score.get("position") is None:
            text(label, "span", "small muted line")
        else:
            ui.link(label, f"/runs/{run.run_id}/cases/{score['position']}").classes("small line")
        text(score["reason"] or "", "span", "line")


class Results:
    """The results of a run: the list of answers, then the figures, gates and tags.

    The list appears with the first score. It is not rebuilt when the run ends, because the user may be reading it.
    """

    def __init__(self, workspace: Workspace, run: runs.Run, query: ResultQuery, tags: TagCounts) -> None:
        self._workspace, self._run = workspace, run
        self._thresholds: dict[str, float] = {}
        self._cards: list[MetricCard] = []
        self._tags: TagTable | None = None
        with ui.element("section").classes("section") as self._each:
            self._heading = text("", "h2")
            text(
                "Click a row for the conversation and each reason. Keys: j and k for the next and the previous case, "
                "/ to search, Escape to close.",
                "p",
                "muted",
            )
            self.table = ResultTable(workspace, run, query, tags, lambda: self._thresholds)
        self._overall = ui.element("div")
        self.show(run, tags)

    def show(self, run: runs.Run, tags: TagCounts) -> None:
        """Show the run's new state; `fill` reads the scores."""
        self._run, is_active = run, run.state in ACTIVE
        self._heading.set_text("Results so far" if is_active else "Results")
        self._each.set_visibility(bool(is_active or run.facts or run.progress.done))
        self.table.follow(run, tags)
        self._overall.clear()
        self._cards, self._tags = [], None
        if run.facts:
            with self._overall:
                self._build(run, tags)

    def _build(self, run: runs.Run, tags: TagCounts) -> None:
        about = "Each metric over all cases, with its 95 % interval. Trying a threshold is free; nothing is re-run."
        with section("Overall", about), ui.element("div").classes("metrics"):
            metrics = run.metrics.values()
            self._cards = [MetricCard(self._workspace, run, metric, self._moved, self._pick) for metric in metrics]
        if run.facts.get("gates"):
            _gates(run)
        if tags:
            self._tags = TagTable(self._workspace, run, self._pick)

    async def fill(self, loading: Awaitable[None]) -> None:
        """Read the scores, those of the table first."""
        await loading
        await self.table.open_case()
        await load_cards(self._workspace, self._run, self._cards)
        if self._cards and may("edit"):
            changeable = await to_thread.run_sync(changeable_metrics, self._workspace, self._run.run_id)
            for card in self._cards:
                card.offer_change(changeable)
        if self._tags is not None:
            await self._tags.load()

    async def _moved(self, metric: str, threshold: float | None) -> None:
        if threshold is None:
            self._thresholds.pop(metric, None)
        else:
            self._thresholds[metric] = threshold
        await self.table.load()

    async def _pick(self, **values: str) -> None:
        self.table.bar.focus()
        await self.table.bar.set(**values)


def _gates(run: runs.Run) -> None:
    with section("Gates", "The conditions that this run had to meet."), ui.element("ul").classes("gate-list card"):
        for gate in gates_once(run.facts["gates"]):
            with ui.element("li"):
                badge(*outcome_badge(gate["passed"]))
                text(gate_name(gate, run), "span")
                if gate["value"] is not None:
                    ends = "" if gate["ci_low"] is None else f" ({interval(gate['ci_low'], gate['ci_high'])})"
                    text(f"is {number(gate['value'])}{ends}", "span", "muted")
                if why := beside_value(gate):
                    text(why, "span", "muted small")


def _files(run: str, files: Sequence[RunFile]) -> None:
    about = "Reports and tables of this run, to open or download."
    with section("Files", about), ui.element("ul").classes("card files"):
        with ui.element("li"):
            path = f"/api/v1/runs/{quote(run, safe='')}/archive"
            ui.link("All files", path).classes("mono").props("download")
            text("All of them with the configuration, prompts and cases, as zip", "span", "muted small")
        for file in files:
            with ui.element("li"):
                link = ui.link(file.name, _file_path(run, file.name), new_tab=file.name == _REPORT).classes("mono")
                if file.name != _REPORT:
                    link.props("download")
                text(file.about, "span", "muted small")
                text(_size(file.size), "span", "muted small num")


def _file_path(run: str, name: str) -> str:
    return f"/api/v1/runs/{quote(run, safe='')}/files/{name}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

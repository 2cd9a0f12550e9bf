"""One run: watched while it goes on, read once it has ended."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from evalflow.app.studio.comparing import Related, related
from evalflow.app.studio.run_files import RunFile, list_files
from evalflow.app.studio.run_types import Progress, Run
from evalflow.app.studio.runs import (
    cancel_run,
    changed_request,
    create_run,
    delete_run,
    get_run,
    resume_run,
    retry_errors,
)
from evalflow.app.studio.scores import run_tags
from evalflow.app.studio.space import Workspace
from evalflow.errors import UserError
from evalflow.report.wording import cost, number
from evalflow.web.pages.run_metrics import MetricCard, TagTable, overview
from evalflow.web.pages.runs import ACTIVE, name_of, span, state_of, took, when
from evalflow.web.pages.score_filter import Wanted
from evalflow.web.pages.scores import ScoreList
from evalflow.web.ui.dialogs import confirmation
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    Tone,
    attempt,
    badge,
    button,
    copyable,
    facts,
    link_button,
    message,
    section,
    tell,
    text,
)

REPORT = "report.html"


def file_path(run: str, name: str) -> str:
    """The address of one of a run's files."""
    return f"/api/v1/runs/{quote(run, safe='')}/files/{name}"


def files(run: str, found: Sequence[RunFile]) -> None:
    """A line for each; nothing where there are none."""
    if not found:
        return
    about = "Reports and tables of this run, to open or download."
    with section("Files", about), ui.element("ul").classes("card files"):
        for file in found:
            _file(run, file)


def _file(run: str, file: RunFile) -> None:
    with ui.element("li"):
        link = ui.link(file.name, file_path(run, file.name), new_tab=file.name == REPORT).classes("mono")
        if file.name != REPORT:
            link.props("download")
        text(file.about, "span", "muted small")
        text(_size(file.size), "span", "muted small num")


def _size(count: int) -> str:
    """Bytes as people say them."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


class Onward:
    """Links below the heading of a run that has results; what takes a look elsewhere comes after the first paint."""

    def __init__(self, workspace: Workspace, run: Run) -> None:
        self._workspace, self._run = workspace, run
        self._place = ui.element("nav").classes("onward").props('aria-label="From here"')
        with self._place:
            if (run.folder / REPORT).is_file():
                _link("description", "Report", file_path(run.run_id, REPORT), new_tab=True)
        ui.timer(0, self._fill, once=True)

    async def _fill(self) -> None:
        found = await to_thread.run_sync(related, self._workspace, self._run.run_id)
        with self._place:
            self._show(found)

    def _show(self, found: Related) -> None:
        run = self._run.run_id
        if found.before is not None:
            before = found.before.run
            unlike = ", not comparable as it is" if found.before.obstacles else ""
            path = f"/compare?{urlencode({'a': before.run_id, 'b': run})}"
            about = f"{name_of(before)}, {when(before.created_at)}{unlike}"
            _link("compare_arrows", "Compare with the run before", path, about)
        _link("compare_arrows", "Compare with another run", f"/compare?{urlencode({'b': run})}")
        if found.bot:
            _link("smart_toy", found.bot, f"/bots/{quote(found.bot, safe='')}", "The bot")
        for dataset in found.datasets:
            _link("checklist", dataset, f"/datasets/{quote(dataset, safe='')}", "Its test cases")


def _link(icon: str, label: str, path: str, about: str = "", *, new_tab: bool = False) -> None:
    with ui.link(target=path, new_tab=new_tab) as link:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(label)
    if about:
        link.props["title"] = about


_OUTCOMES: dict[bool | None, tuple[str, Tone]] = {
    True: ("passed", "pass"),
    False: ("failed", "fail"),
    None: ("undecided", "warn"),
}


def gates(found: Sequence[Mapping[str, Any]]) -> None:
    """A line for each gate; nothing where there are none."""
    if not found:
        return
    with section("Gates", "The conditions that this run had to meet."), ui.element("ul").classes("gate-list card"):
        for gate in found:
            with ui.element("li"):
                badge(*_OUTCOMES[gate["passed"]])
                text(str(gate["name"]), "span", "mono")
                if gate["value"] is not None:
                    text(f"is {_estimate(gate)}", "span", "muted")
                if gate["passed"] is not None and gate["basis"]:
                    text(gate["basis"], "span", "muted small")
                if gate["passed"] is None and gate.get("message"):
                    text(str(gate["message"]), "span", "muted small")


def _estimate(gate: Mapping[str, Any]) -> str:
    if gate["ci_low"] is None:
        return number(gate["value"])
    return f"{number(gate['value'])} ({number(gate['ci_low'])} to {number(gate['ci_high'])})"


Tags = Sequence[tuple[str, int]]


class Results:
    """The parts of a page of results, which know of each other: a threshold moves the list of scores too.

    The list is there from the first score on, and stays as it is when the run ends: it may just be read.

    Args:
        workspace: The door to what is stored.
        run: As it is now.
        wanted: Which scores are to be seen at first.
        tags: What there is to choose from.
    """

    def __init__(self, workspace: Workspace, run: Run, wanted: Wanted, tags: Tags) -> None:
        self._workspace = workspace
        self._thresholds: dict[str, float] = {}
        self._cards: list[MetricCard] = []
        self._tags: TagTable | None = None
        self._overall = ui.element("div")
        with ui.element("section").classes("section") as self._each:
            self._heading = text("", "h2")
            text("Every score with its reason. Click a question to see the whole case.", "p", "muted")
            self._list = ScoreList(workspace, run, wanted, tags, lambda: self._thresholds)
        self.show(run, tags)

    def show(self, run: Run, tags: Tags) -> None:
        """Go on with the run as it is now; what takes a look at many scores follows with `fill`."""
        self._heading.set_text("Scored so far" if run.state in ACTIVE else "Each case")
        self._each.set_visibility(bool(run.state in ACTIVE or run.facts or run.progress.done))
        self._list.follow(run, tags)
        self._overall.clear()
        self._cards, self._tags = [], None
        if run.facts:
            with self._overall:
                self._build(run, tags)

    def _build(self, run: Run, tags: Tags) -> None:
        overview(run)
        about = "Each metric over all cases, with its 95 % interval. Trying a threshold is free; nothing is re-run."
        with section("Overall", about), ui.element("div").classes("metrics"):
            self._cards = [
                MetricCard(self._workspace, run, metric, self._moved, self._pick)
                for metric in run.facts.get("metrics", [])
            ]
        gates(run.facts.get("gates", []))
        if tags:
            self._tags = TagTable(self._workspace, run, self._pick)

    async def fill(self) -> None:
        """Show what takes a look at many scores; after the first paint."""
        await self._list.load()
        for card in self._cards:
            await card.load()
        if self._tags is not None:
            await self._tags.load()

    async def add(self) -> None:
        """Show what has been scored since."""
        await self._list.load()

    async def _moved(self, metric: str, threshold: float | None) -> None:
        if threshold is None:
            self._thresholds.pop(metric, None)
        else:
            self._thresholds[metric] = threshold
        await self._list.rejudge()

    async def _pick(self, **values: str) -> None:
        self._list.bar.focus()
        await self._list.bar.set(**values)


class Watch:
    """A card that tells how far a run is.

    Args:
        run: As it is now.
        state: The badge of its state, which follows, too: most pages are opened before a worker has claimed the run.
    """

    def __init__(self, run: Run, state: TextElement) -> None:
        self._state = state
        with ui.element("div").classes("card stack watch"):
            self._what = text("", "h2").props("aria-live=polite")
            with (
                ui.element("div").classes("progress").props("role=progressbar aria-valuemin=0 aria-valuemax=100") as bar
            ):
                self._filled = ui.element("i")
            self._bar = bar
            bar.props["aria-label"] = "Finished scores"
            with ui.element("dl").classes("facts tight"):
                self._facts = {name: _fact(name) for name in ("Done", "Errors", "Rate", "Cost so far", "Time left")}
            text("Latest scores", "h3")
            self._latest = ui.element("ul").classes("latest")
        self.show(run)

    def show(self, run: Run) -> None:
        """Tell how far it is now."""
        progress = run.progress
        word, tone = state_of(run)
        self._state.set_text(word)
        self._state.classes(replace=f"badge {tone}")
        self._what.set_text(_doing(run))
        share = min(1.0, progress.done / progress.expected) if progress.expected else 0.0
        self._filled.style(f"width: {100 * share:.1f}%")
        self._bar.props["aria-valuenow"] = round(100 * share)
        for name, value in _numbers(progress).items():
            self._facts[name].set_text(value)
        self._latest.clear()
        with self._latest:
            _latest(run.run_id, progress.latest)


def _fact(name: str) -> TextElement:
    with ui.element("div"):
        text(name, "dt")
        return text("", "dd")


def _doing(run: Run) -> str:
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


def _numbers(progress: Progress) -> dict[str, str]:
    expected = f" of {progress.expected:,}" if progress.expected else ""
    left = progress.seconds_left
    return {
        "Done": f"{progress.done:,}{expected} scores",
        "Errors": f"{progress.errors:,}",
        "Rate": f"{progress.rate:,.1f} a second" if progress.rate else "–",
        "Cost so far": cost(progress.cost_usd),
        "Time left": "–" if left is None else f"about {span(left)}",
    }


def _latest(run: str, scores: Sequence[Mapping[str, Any]]) -> None:
    if not scores:
        text("Nothing yet.", "li", "muted")
    for score in scores:
        with ui.element("li"):
            if score["status"] == "scored":
                text(number(score["score"], 2), "span", "reading")
            else:
                badge(score["status"], "fail" if score["status"] == "error" else "")
            of = f"{score['metric']} · {score['case_id']}"
            if score.get("position") is None:
                text(of, "span", "small muted line")
            else:
                ui.link(of, f"/runs/{run}/cases/{score['position']}").classes("small line")
            text(score["reason"] or "", "span", "line")


LOOK_S = 0.5
"""Between two looks at a run under way; the worker writes down how far it is once a second."""
_INCONCLUSIVE = 3
_GATE_FAILED = 1


def add(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/runs/{run}")
    async def one(
        run: str,
        metric: str = "",
        status: str = "",
        tag: str = "",
        search: str = "",
        low: str = "",
        high: str = "",
        sort: str = "",
        page: str = "",
    ) -> None:
        found = await to_thread.run_sync(get_run, workspace, run)
        beside = await to_thread.run_sync(_beside, workspace, found)
        with frame(name_of(found), place="Runs", trail=[("Runs", "/runs")]) as actions:
            RunView(workspace, found, beside, Wanted(metric, status, tag, search, low, high, sort, page), actions)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a page shows beside the run itself."""

    tags: list[tuple[str, int]]
    files: list[RunFile]


class RunView:
    """The page of a run. It follows a run that is under way, and becomes its results in place when it has ended.

    Args:
        workspace: The door to what is stored.
        run: As it is now.
        beside: What else there is of it.
        wanted: Which scores are to be seen at first.
        actions: The element beside the heading.
    """

    def __init__(self, workspace: Workspace, run: Run, beside: _Beside, wanted: Wanted, actions: ui.element) -> None:
        self._workspace, self._run, self._actions = workspace, run, actions
        self._watch: Watch | None = None
        self._above = ui.element("div")
        self._results = Results(workspace, run, wanted, beside.tags)
        self._below = ui.element("div")
        self._build(beside.files)
        ui.timer(0, self._results.fill, once=True)
        if run.state in ACTIVE:
            self._timer = ui.timer(LOOK_S, self._look)

    def _build(self, found: list[RunFile]) -> None:
        """All but the results; in the place of what is there."""
        for place in (self._actions, self._above, self._below):
            place.clear()
        with self._actions:
            _actions(self._workspace, self._run)
        with self._above:
            state = _said(self._run)
            if self._run.facts:
                Onward(self._workspace, self._run)
            if self._run.state in ACTIVE:
                self._watch = Watch(self._run, state)
            else:
                _ending(self._run)
        with self._below:
            files(self._run.run_id, found)
            _repeating(self._run)

    async def _look(self) -> None:
        before, self._run = self._run, await to_thread.run_sync(get_run, self._workspace, self._run.run_id)
        if self._run.state not in ACTIVE:
            self._timer.deactivate()
            beside = await to_thread.run_sync(_beside, self._workspace, self._run)
            self._build(beside.files)
            self._results.show(self._run, beside.tags)
            await self._results.fill()
        elif self._run != before and self._watch is not None:
            self._watch.show(self._run)
            if self._run.progress.done != before.progress.done:
                await self._results.add()


def _beside(workspace: Workspace, run: Run) -> _Beside:
    return _Beside(run_tags(workspace, run.run_id), _files(workspace, run))


def _files(workspace: Workspace, run: Run) -> list[RunFile]:
    """None where its folder lies elsewhere now."""
    try:
        return list_files(workspace, run.run_id) if run.facts else []
    except UserError:
        return []


def _said(run: Run) -> TextElement:
    """Its state and what it is, in a line; gives the badge of the state."""
    with ui.element("div").classes("actions said-of-run"):
        state = badge(*state_of(run))
        if run.origin != "workspace":
            badge(run.origin)
        cost = f"${run.cost_usd:,.4f}" if run.cost_usd is not None else ""
        parts = [run.bot, when(run.created_at), took(run) and f"took {took(run)}", cost]
        text(" · ".join(part for part in parts if part), "span", "muted small")
    return state


def _ending(run: Run) -> None:
    """Why it ended as it did, and what comes next, unless all went well."""
    errors = run.progress.errors
    if run.state == "failed":
        resume = "Resume continues with the settings of this run; finished work is not repeated."
        again = "Start again uses the current bot and metrics; cached replies cost nothing. "
        hint = f"{again}{resume}" if run.request is not None else resume
        message(run.message or "It failed without an error message; its folder has a log.", hint, "fail")
    elif run.state in ("cancelled", "interrupted"):
        done, expected = run.progress.done, run.progress.expected
        far = f" at {done:,} of {expected:,} scores" if expected else ""
        message(f"It was {run.state}{far}.", "Resume to finish; finished work is not repeated.", "warn")
    elif run.message:
        message(run.message, "Its files are untouched; see its folder below.", "warn")
    elif run.exit_code == _INCONCLUSIVE and errors:
        hint = "Errors are left out of every mean. Retry them, or see them below."
        message(f"The run is inconclusive: errors at {errors:,} of {run.progress.done:,} scores.", hint, "warn")
    elif run.exit_code == _GATE_FAILED:
        message("A gate failed.", "See the gates below.", "fail")


def _actions(workspace: Workspace, run: Run) -> None:
    def act(work: Callable[[Workspace, str], Run], done: str) -> Callable[[], object]:
        async def acted() -> None:
            if await attempt(lambda: work(workspace, run.run_id)):
                tell(done)
                ui.navigate.reload()

        return acted

    if run.state in ACTIVE:
        if not run.cancelling:
            button("Cancel the run", act(cancel_run, "Stopping."), kind="danger")
        return
    if run.request is not None and run.state == "failed":
        key = f"again-{uuid.uuid4().hex}"

        async def start() -> None:
            made = await attempt(lambda: create_run(workspace, changed_request(run), key), by=starting)
            if made is not None:
                ui.navigate.to(f"/runs/{made.run_id}")

        starting = button("Start again", start, kind="primary")
    if run.request is not None:
        link_button("Run again with changes", f"/runs/new?source={run.run_id}", primary=run.state == "done")
    if run.state == "done" and run.progress.errors and run.origin == "workspace":
        errors = "error" if run.progress.errors == 1 else f"{run.progress.errors:,} errors"
        button(f"Retry the {errors}", act(retry_errors, "Retrying what failed."))
    if run.state != "done":
        starts_again = run.state == "failed" and run.request is not None
        button("Resume", act(resume_run, "Resumed."), kind="" if starts_again else "primary")
    button("Delete", _deletion(workspace, run).open, kind="danger")


def _deletion(workspace: Workspace, run: Run) -> ui.dialog:
    async def delete() -> None:
        if await attempt(lambda: delete_run(workspace, run.run_id) or True):
            ui.navigate.to("/runs")

    about = "It disappears from these pages. Its folder with all files stays, and can be opened again."
    return confirmation("Delete this run?", about, "Delete", delete)


def _repeating(run: Run) -> None:
    with section("Repeat it", "Run this in a terminal, in the folder where evalflow was started."):
        if run.repeat:
            copyable(run.repeat)
        facts([("Run", run.run_id), ("Folder", str(run.folder))])

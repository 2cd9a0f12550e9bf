"""The runs, newest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import confirmation, folder_dialog
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import about_what, gate_badge, heading, metric_title
from evalflow.addons.studio.web.ui.parts import Latest, Tone, address, badge, button, empty, link_button, polled, text
from evalflow.addons.studio.web.ui.ticks import tick_box
from evalflow.addons.studio.web.ui.visitor import local_time, may, title_of
from evalflow.addons.studio.work.bot_home import headline_of
from evalflow.addons.studio.work.datasets import sample_datasets
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.runs import Run, list_runs
from evalflow.addons.studio.work.space import Page, Workspace
from evalflow.app.core.saved import ProgramError
from evalflow.errors import EvalflowError
from evalflow.report.wording import joined
from evalflow.summary.verdicts import overall

STATES: dict[str, tuple[str, Tone]] = {
    "queued": ("waiting", "accent"),
    "running": ("running", "accent"),
    "done": ("done", "pass"),
    "failed": ("failed", "fail"),
    "cancelled": ("cancelled", "warn"),
    "interrupted": ("interrupted", "warn"),
}
ACTIVE = ("queued", "running")
ON_SAMPLES = "sample data"


def name_of(run: Run) -> str:
    """The run's title, or else its bot and datasets."""
    if run.title:
        return run.title
    datasets = datasets_of(run)
    named = ", ".join(title_of("dataset", name) for name in datasets)
    return f"{title_of('bot', run.bot)} on {named}" if datasets else run.run_id


def datasets_of(run: Run) -> list[str]:
    """Names of the run's datasets; empty if not known yet."""
    return list(run.request.datasets if run.request else run.facts.get("datasets", ()))


def is_on_samples(run: Run, samples: Collection[str]) -> bool:
    """Whether all datasets of a run are samples."""
    return bool(datasets_of(run)) and set(datasets_of(run)) <= set(samples)


def run_option(run: Run, samples: Collection[str]) -> str:
    """A run in a list to choose from."""
    return joined(name_of(run), when(run.created_at), ON_SAMPLES if is_on_samples(run, samples) else "")


def own_first(runs: Iterable[Run], samples: Collection[str]) -> list[Run]:
    """The runs, those on samples last."""
    return sorted(runs, key=lambda run: is_on_samples(run, samples))


def metrics_of(run: Run) -> list[str]:
    """Names of the run's metrics; empty if not known yet."""
    return list(run.request.metrics) if run.request else list(run.metrics)


def metric_titles(run: Run) -> dict[str, str]:
    """The titles of the run's metrics by name."""
    return {name: metric_title(run, name) for name in metrics_of(run)}


def history_path(run: Run, metric: str) -> str:
    """The URL of a metric's history, on the first of the run's datasets."""
    query = {"bot": run.bot, "dataset": next(iter(run.facts.get("datasets", ())), ""), "metric": metric}
    return address("/history", query)


def state_of(run: Run) -> tuple[str, Tone]:
    """The run's state as a word, with its colour."""
    if run.state == "running" and run.cancelling:
        return "stopping", "warn"
    return STATES[run.state]


def when(moment: str | None) -> str:
    """A database time in the visitor's zone; empty without one."""
    return local_time(moment) if moment else ""


def duration(run: Run) -> str:
    """Duration of the run; empty if it has not ended."""
    if not run.started_at or not run.finished_at:
        return ""
    seconds = (datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)).total_seconds()
    return seconds_in_words(max(seconds, 0.0))


def seconds_in_words(seconds: float) -> str:
    """Format a duration: 8 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


PAGE_SIZE = 25
POLL_S = 1.5
"""Seconds between polls of runs in progress."""
_PAUSE_MS = 250
"""Milliseconds without a key press after which the search starts."""


@guarded_page("/runs")
async def _runs_page(workspace: Workspace, cursor: str = "", search: str = "", bot: str = "") -> None:
    query = _RunQuery(search, bot, cursor)
    page = await to_thread.run_sync(query.read, workspace)
    samples = await to_thread.run_sync(sample_datasets, workspace)
    about = f"Runs of {title_of('bot', bot)}." if bot else "Each run evaluates a bot on test cases with metrics."
    with frame("Runs", place="Runs", about=about) as actions:
        with actions:
            if may("own"):
                button("Open a folder", _open_dialog(workspace).open)
            if (page.items or search) and may("edit"):
                link_button("New run", "/runs/new", primary=True)
        if page.items or search:
            _RunList(workspace, query, page, samples)
        else:
            _none_yet(is_first=not cursor)


@dataclass(frozen=True, slots=True)
class _RunQuery:
    """The filter of the list, as in the query of a URL; an empty value is not set."""

    search: str = ""
    bot: str = ""
    cursor: str = ""

    def read(self, workspace: Workspace) -> Page[Run]:
        return list_runs(workspace, self.cursor or None, PAGE_SIZE, bot=self.bot or None, text=self.search or None)

    def path(self) -> str:
        return address("/runs", asdict(self))


class _RunList:
    """A page of runs, which can be searched and ticked, and is refreshed while one of them is in progress."""

    def __init__(self, workspace: Workspace, query: _RunQuery, page: Page[Run], samples: Collection[str]) -> None:
        self._workspace, self._query, self._page, self._samples = workspace, query, page, samples
        self._ticked: set[str] = set()
        self._latest = Latest()
        with ui.element("div").classes("above-runs"):
            field = ui.input(value=query.search, placeholder="title, bot, dataset, metric, model")
            field.props(f'outlined dense debounce={_PAUSE_MS} data-key=/ aria-label="Search runs"')
            field.on_value_change(lambda event: self._search(str(event.value or "").strip()))
            self._hint = text("", "span", "muted small").props("aria-live=polite")
            self._compare = button("Compare", self._to_comparison)
        self._rows = ui.element("ul").classes("runs")
        self._pages = ui.element("nav").classes("actions page-nav").props('aria-label="Pages"')
        self._show()
        self._timer = polled(POLL_S, self._poll, active=self._has_active())

    def _has_active(self) -> bool:
        return any(run.state in ACTIVE for run in self._page.items)

    def _show(self) -> None:
        self._rows.clear()
        self._pages.clear()
        self._ticked &= {run.run_id for run in self._page.items}
        with self._rows:
            for run in self._page.items:
                with ui.element("li"):
                    self._tick_box(run)
                    _row(run, is_sample=is_on_samples(run, self._samples))
            if not self._page.items:
                text("No matching runs. Clear the search to see all of them.", "li", "muted card")
        with self._pages:
            if self._query.cursor:
                link_button("Newest", replace(self._query, cursor="").path())
            if self._page.next is not None:
                link_button("Older", replace(self._query, cursor=self._page.next).path())
        self._offer()

    def _tick_box(self, run: Run) -> None:
        label = f"Compare {name_of(run)}, {when(run.created_at)}"
        box = tick_box(label, run.run_id in self._ticked, partial(self._tick, run.run_id))
        if not run.facts:
            box.props("disabled")

    def _tick(self, run: str, is_on: bool) -> None:
        (self._ticked.add if is_on else self._ticked.discard)(run)
        self._offer()

    def _offer(self) -> None:
        two = len(self._ticked) == 2
        self._hint.set_text("" if two else "Tick two runs to compare them.")
        self._hint.set_visibility(sum(bool(run.facts) for run in self._page.items) > 1 and not two)
        self._compare.set_visibility(two)

    def _to_comparison(self) -> None:
        after, before = (run.run_id for run in self._page.items if run.run_id in self._ticked)  # newest first
        ui.navigate.to(address("/compare", {"a": before, "b": after}))

    async def _search(self, search: str) -> None:
        is_latest = self._latest.begin()
        query = replace(self._query, search=search, cursor="")
        page = await to_thread.run_sync(query.read, self._workspace)
        if is_latest():
            self._query, self._page = query, page
            ui.navigate.history.replace(query.path())
            self._show()
            self._timer.active = self._has_active()

    async def _poll(self) -> None:
        query = self._query
        page = await to_thread.run_sync(query.read, self._workspace)
        if query != self._query:  # another search meanwhile
            return
        if page.items != self._page.items:
            self._page = page
            self._show()
        if not self._has_active():
            self._timer.deactivate()


def _row(run: Run, *, is_sample: bool) -> None:
    headline = headline_of(run) if run.facts else None
    with ui.link(target=f"/runs/{run.run_id}").classes(f"card run{' sample' if is_sample else ''}"):
        with ui.element("div").classes("what"):
            text(name_of(run), "h2")
            of = joined(run.taken.in_words, ", ".join(metric_titles(run).values()))
            text(of or run.run_id, "p", "muted small line")
            if run.state in ACTIVE and run.progress.expected:
                text(f"{run.progress.done:,} of {run.progress.expected:,} scores", "p", "muted small")
        with ui.element("div").classes("overall"):
            if headline is not None:
                heading(headline, "p")
                text(joined(*about_what(headline)), "p", "muted small line")
        with ui.element("div").classes("state"):
            badge(*state_of(run))
            if (gates := run.facts.get("gates")) and (outcome := overall(gate["passed"] for gate in gates)) is not True:
                badge(*gate_badge(outcome))
            if is_sample:
                badge(ON_SAMPLES)
            if run.origin != "workspace":
                badge(run.origin)
            text(when(run.created_at), classes="muted small")


def _none_yet(*, is_first: bool) -> None:
    if not is_first:
        empty("history", "No older runs", "This is the end of the list.", ("To the newest", "/runs"))
    elif may("edit"):
        about = "Pick a bot, test cases and metrics; check the estimate; then start and watch it run."
        empty("play_circle", "Start your first run", about, ("New run", "/runs/new"))
    else:
        empty("play_circle", "No runs yet", "Editors of the project start them.")


def _open_dialog(workspace: Workspace) -> ui.dialog:
    async def take(path: str, field: forms.Field, _: ui.button) -> None:
        await open_folder(path, field, trust_program=False)

    async def open_folder(path: str, field: forms.Field, *, trust_program: bool) -> None:
        try:
            run = await to_thread.run_sync(partial(open_run, workspace, path, trust_program=trust_program))
        except ProgramError as error:
            about = f"{error.problems[0].what}. Open it only if you trust the person who made it."
            trusted = partial(open_folder, path, field, trust_program=True)
            confirmation("This run starts a program", about, "Open anyway", trusted, keep="Cancel").open()
        except EvalflowError as error:
            field.error = str(error)
        else:
            ui.navigate.to(f"/runs/{run.run_id}")

    help = "The folder of a run made on the command line, or its address such as s3://bucket/runs/first."
    folder = forms.About("Folder", help, "outputs/latest", required=True)
    return folder_dialog("Open a run of the command line", "", folder, "Open", take)

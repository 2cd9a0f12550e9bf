"""Reusable checks: the list, a new one, and one with its examples and the cases that use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.cases import CaseSearch
from evalflow.addons.studio.web.pages.check_fields import about_kind, in_words, offered_kinds
from evalflow.addons.studio.web.pages.check_form import CheckForm, check_content
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Deleting, carry_out, confirmation, edited, offer_undo
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.naming import offer_tags, tag_options
from evalflow.addons.studio.web.ui.parts import (
    Latest,
    address,
    after_paint,
    badge,
    button,
    cell,
    empty,
    fold,
    link_button,
    section,
    table,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.visitor import local_time, may, title_of
from evalflow.addons.studio.work import check_uses, checks
from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.cases import Deleted, dataset_tags
from evalflow.addons.studio.work.checks import Check
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.report.wording import counted, joined

_TRAIL = [("Checks", "/checks")]
_ABOUT = "What an answer must do, defined once and enabled on many test cases."


@guarded_page("/checks")
async def _listed_page(workspace: Workspace) -> None:
    listing = await to_thread.run_sync(_overview, workspace)
    with frame("Checks", place="Checks", about=_ABOUT) as actions:
        if may("edit") and listing.checks:
            with actions:
                link_button("New check", "/checks/new", primary=True)
        _list(listing)
        with fold("Built-in checks", is_open=not listing.checks), ui.element("div").classes("stack"):
            text("Each test case can have these with parameters of its own. A reusable check is one of them.", "p")
            _built_in(listing.uses)


@guarded_page("/checks/new", "edit")
async def _new_page(workspace: Workspace) -> None:
    bots = await to_thread.run_sync(_bots, workspace)
    reusable = await to_thread.run_sync(checks.list_checks, workspace)
    with frame("New check", place="Checks", trail=_TRAIL):
        CheckForm(workspace, None, bots, reusable)


@guarded_page("/checks/{check}")
async def _one_page(workspace: Workspace, check: str) -> None:
    definition = await to_thread.run_sync(checks.get_check, workspace, check)
    use = (await to_thread.run_sync(check_uses.check_uses, workspace)).get(check, check_uses.CheckUse())
    failure = await to_thread.run_sync(check_uses.last_failure, workspace, check)
    bots = await to_thread.run_sync(_bots, workspace)
    reusable = await to_thread.run_sync(checks.list_checks, workspace)
    known = await to_thread.run_sync(list_datasets, workspace)
    own = [dataset.name for dataset in known if dataset.origin == "workspace"]
    with frame(definition.title or definition.name, place="Checks", trail=_TRAIL) as actions:
        if failure is not None:
            with ui.element("p").classes("last-failed"):
                text("Failed last on ", "span", "muted")
                _failure_link(failure)
        CheckForm(workspace, definition, bots, reusable)
        usage = CheckUsage(workspace, check, own, use)
        await usage.load()
        if may("edit"):
            _delete_button(workspace, definition, actions, usage)


@dataclass(frozen=True, slots=True)
class _Overview:
    """The reusable checks, how each check is used, and where reusable ones failed last."""

    checks: Sequence[Check]
    uses: Mapping[str, check_uses.CheckUse]
    failures: Mapping[str, check_uses.CheckFailure | None]


def _overview(workspace: Workspace) -> _Overview:
    reusable = checks.list_checks(workspace)
    failures = {one.name: check_uses.last_failure(workspace, one.name) for one in reusable}
    return _Overview(reusable, check_uses.check_uses(workspace), failures)


def _bots(workspace: Workspace) -> list[str]:
    return [bot.name for bot in list_bots(workspace) if bot.origin == "workspace"]


def _list(listing: _Overview) -> None:
    if not listing.checks:
        about = "Such as: the bot answers in English. Try it on good and bad answers, then enable it on many cases."
        if may("edit"):
            empty("rule", "No reusable checks yet", about, ("New check", "/checks/new"))
        else:
            empty("rule", "No reusable checks yet", "Editors of the project define them.")
        return

    with table(("Check", "What it checks", "Cases", "Failed last"), "table stacked check-list"):
        for one in listing.checks:
            use, failure = listing.uses.get(one.name, check_uses.CheckUse()), listing.failures[one.name]
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    ui.link(one.title or one.name, f"/checks/{one.name}").classes("name")
                    text(one.name, classes="small muted mono")
                with cell("What it checks", classes="said"), ui.element("div"):
                    text(in_words(one.type, one.params), classes="clamp")
                    text(joined(about_kind(one.type)[0], one.description), classes="small muted clamp")
                off = use.cases - use.enabled
                cell("Cases", f"{use.enabled:,}{f' ({off:,} off)' if off else ''}")
                with cell("Failed last", classes=""):
                    if failure is None:
                        text("–", "span", "muted")
                    else:
                        with ui.element("div"):
                            _failure_link(failure)


def _failure_link(failure: check_uses.CheckFailure) -> None:
    """A link to the first failed answer of the run, in the list of all that failed there."""
    query = {"metric": failure.metric, "status": "failed", "case": str(failure.position)}
    ui.link(case_title(failure.question, failure.case_id), address(f"/runs/{failure.run_id}", query)).classes("clamp")
    text(f"{failure.title or failure.run_id}, {local_time(failure.at)}", "span", "small muted")


def _built_in(uses: Mapping[str, check_uses.CheckUse]) -> None:
    with table(("Check", "What it checks", "Cases"), "table stacked check-list"):
        for name in offered_kinds():
            title, about, _ = about_kind(name)
            with ui.element("tr"):
                text(title, "th", "name").props("scope=row")
                cell("What it checks", about, "said")
                cell("Cases", f"{uses.get(name, check_uses.CheckUse()).enabled:,}")


def _delete_button(workspace: Workspace, definition: Check, actions: ui.element, usage: CheckUsage) -> None:
    title = definition.title or definition.name

    async def ask() -> None:
        use = (await to_thread.run_sync(check_uses.check_uses, workspace)).get(definition.name, check_uses.CheckUse())
        if use.cases:
            using.clear()
            with using:
                about = "A check that cases use cannot be deleted. Remove it from them first; you can undo that."
                what = f"{title} is on {counted(use.cases)}"
                confirmation(what, about, f"Remove it from {counted(use.cases)}", remove, "Keep it").open()
        else:
            deleting.open()

    remove = partial(carry_out, partial(check_uses.remove_everywhere, workspace, definition.name), usage.removed)
    delete = partial(checks.delete_check, workspace, definition.name)
    seen = edited(checks.get_check, workspace, check_content, definition)
    deleting = Deleting(seen, title, "Runs keep their own copies.", delete, "/checks")
    using = ui.element("div")
    with actions:
        button("Delete", ask, kind="danger")


_SHOWN = 20
_DATASET = forms.About("Dataset", required=True)
_SEARCH = forms.About("Search", example="refund")
_TAG = forms.About("Tag")
_STATE = forms.About("State")
_STATES = {"": "All", "active": "Active", "draft": "Drafts"}


class CheckUsage:
    """The cases of a check. `datasets`: those defined here; `use`: how many of their cases name it."""

    def __init__(self, workspace: Workspace, name: str, datasets: Sequence[str], use: check_uses.CheckUse) -> None:
        self._workspace, self._name, self._use = workspace, name, use
        self._first = 0
        self._enabling: _Enabling | None = None
        with section("Cases"), ui.element("div").classes("stack"):
            self._about = text("", "p", "muted").props("role=status")
            if datasets and may("edit"):
                self._enabling = _Enabling(workspace, name, datasets, self)
            elif may("edit"):
                link_button("Write test cases first", "/datasets")
            self._rows = ui.element("div")
            self._pager = ui.element("div").classes("actions page-nav")

    async def load(self) -> None:
        """Read the cases and show them."""
        self._about.set_text(_in_words(self._use))
        cases = await to_thread.run_sync(check_uses.cases_with, self._workspace, self._name, self._first, _SHOWN)
        self._rows.clear()
        self._pager.clear()
        if not cases:
            return
        with self._rows, table(("Question", "Dataset", ""), "table stacked"):
            for one in cases:
                with ui.element("tr"):
                    with ui.element("th").props("scope=row"):
                        ui.link(case_title(one.question, one.key), CaseSearch().case(one.dataset, one.id))
                    with cell("Dataset", classes=""):
                        ui.link(title_of("dataset", one.dataset), f"/datasets/{one.dataset}")
                    with cell("", classes="badges"):
                        if not one.is_enabled:
                            badge("off", "warn")
                        if one.is_draft:
                            badge("draft")
        with self._pager:
            last = self._first + len(cases)
            text(f"{self._first + 1:,}–{last:,} of {self._use.cases:,}", "span", "muted small")
            if self._first:
                button("Previous", partial(self._turn, -_SHOWN))
            if last < self._use.cases:
                button("Next", partial(self._turn, _SHOWN))

    async def _turn(self, by: int) -> None:
        self._first = max(0, self._first + by)
        await self.load()

    async def refresh(self) -> None:
        """Read again how many cases use the check, and show them."""
        uses = await to_thread.run_sync(check_uses.check_uses, self._workspace)
        self._use, self._first = uses.get(self._name, check_uses.CheckUse()), 0
        if self._enabling is not None:
            await self._enabling.read()
        await self.load()

    async def removed(self, gone: Deleted) -> None:
        """Say from how many cases the check was removed, and offer to undo it."""
        what = f"The check was removed from {counted(gone.count)}."
        offer_undo(self._workspace, gone.trash, what, self.refresh)
        await self.refresh()


def _in_words(use: check_uses.CheckUse) -> str:
    if not use.cases:
        return "No case uses this check yet. Runs try it on the cases that it is enabled on."
    off = use.cases - use.enabled
    return f"Enabled on {counted(use.enabled)}{f', switched off on {off:,}' if off else ''}."


class _Enabling:
    """A filter of cases, and buttons that enable the check on those that match, or remove it."""

    def __init__(self, workspace: Workspace, name: str, datasets: Sequence[str], usage: CheckUsage) -> None:
        self._workspace, self._name, self._usage = workspace, name, usage
        self._latest = Latest()
        self._coverage = check_uses.Coverage([], [], [])
        with ui.element("div").classes("card stack enabling"):
            text("Enable on many cases", "h3")
            with ui.element("div").classes("filters"):
                self._text = forms.line(_SEARCH).props("debounce=300 clearable type=search")
                self._dataset = forms.pick(
                    _DATASET, {name: title_of("dataset", name) for name in datasets}, datasets[0]
                )
                self._tag = forms.pick(_TAG, tag_options(()), "")
                self._state = forms.pick(_STATE, _STATES, "")
            self._status = text("", "p", "small").props("role=status")
            with ui.element("div").classes("actions"):
                self._enable = button("Enable", self._enabled)
                self._remove = button("Remove", self._ask_to_remove, kind="quiet")
            self._dialogs = ui.element("div")
        self._dataset.on_value_change(self._of_dataset)
        for field in (self._text, self._tag, self._state):
            field.on_value_change(self.read)
        after_paint(self._of_dataset)

    async def _of_dataset(self) -> None:
        offer_tags(self._tag, await to_thread.run_sync(dataset_tags, self._workspace, str(self._dataset.value)))
        await self.read()

    async def read(self) -> None:
        """Read which cases match the filter, and show how many have the check."""
        is_latest = self._latest.begin()
        search = CaseSearch(str(self._tag.value or ""), str(self._text.value or ""), state=str(self._state.value or ""))
        read = partial(check_uses.coverage, self._workspace, str(self._dataset.value), self._name, **search.filter)
        coverage = await to_thread.run_sync(read)
        if not is_latest():
            return
        self._coverage = coverage
        new, on = len(coverage.cases) - len(coverage.enabled), len(coverage.enabled)
        have = f"; the check is on {on:,} of them" if on else ""
        self._status.set_text(f"{counted(len(coverage.cases), 'matching case')}{have}.")
        self._enable.set_text(f"Enable on {counted(new)}")
        self._enable.set_visibility(new > 0)
        self._remove.set_text(f"Remove from {counted(len(coverage.naming))}")
        self._remove.set_visibility(bool(coverage.naming))

    async def _enabled(self) -> None:
        on = set(self._coverage.enabled)
        wanted = [case for case in self._coverage.cases if case not in on]
        dataset = str(self._dataset.value)
        work = partial(check_uses.enable_check, self._workspace, dataset, wanted, self._name)
        await carry_out(work, self._tell, by=self._enable)

    async def _tell(self, number: int) -> None:
        tell(f"The check was enabled on {counted(number)}.")
        await self._usage.refresh()

    def _ask_to_remove(self) -> None:
        title = f"Remove it from {counted(len(self._coverage.naming))}?"
        self._dialogs.clear()
        with self._dialogs:
            confirmation(title, "Runs keep their scores.", "Remove", self._removed, keep="Cancel").open()

    async def _removed(self) -> None:
        dataset = str(self._dataset.value)
        work = partial(check_uses.remove_check, self._workspace, dataset, self._coverage.naming, self._name)
        await carry_out(work, self._usage.removed, by=self._remove)

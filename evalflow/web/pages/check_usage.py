"""Where a reusable check is used: enable it on many cases at once, and the cases that have it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.cases import Deleted, dataset_tags
from evalflow.app.studio.check_uses import (
    CheckUse,
    Coverage,
    cases_with,
    check_uses,
    coverage,
    enable_check,
    remove_check,
)
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.cases import CaseSearch
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import confirmation
from evalflow.web.ui.parts import Latest, badge, button, cell, counted, link_button, section, table, tell, text
from evalflow.web.ui.undo import offer_undo
from evalflow.web.ui.visitor import may, title_of

_SHOWN = 20
_DATASET = forms.About("Dataset", required=True)
_SEARCH = forms.About("Search", example="refund")
_TAG = forms.About("Tag")
_STATE = forms.About("State")
_STATES = {"": "All", "active": "Active", "draft": "Drafts"}


class CheckUsage:
    """The cases of a check. `datasets`: those defined here; `use`: how many of their cases name it."""

    def __init__(self, workspace: Workspace, name: str, datasets: Sequence[str], use: CheckUse) -> None:
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
        found = await to_thread.run_sync(cases_with, self._workspace, self._name, self._first, _SHOWN)
        self._rows.clear()
        self._pager.clear()
        if not found:
            return
        with self._rows, table(("Question", "Dataset", ""), "table stacked"):
            for one in found:
                with ui.element("tr"):
                    with ui.element("th").props("scope=row"):
                        ui.link(one.question or one.key, CaseSearch().case(one.dataset, one.id)).props("dir=auto")
                    with cell("Dataset", classes=""):
                        ui.link(title_of("dataset", one.dataset), f"/datasets/{one.dataset}")
                    with cell("", classes="badges"):
                        if not one.is_enabled:
                            badge("off", "warn")
                        if one.is_draft:
                            badge("draft")
        with self._pager:
            last = self._first + len(found)
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
        uses = await to_thread.run_sync(check_uses, self._workspace)
        self._use, self._first = uses.get(self._name, CheckUse()), 0
        if self._enabling is not None:
            await self._enabling.read()
        await self.load()

    def offer_undo(self, removed: Deleted) -> None:
        """Say from how many cases the check was removed, and offer to undo it."""
        what = f"The check was removed from {counted(removed.count)}."
        offer_undo(self._workspace, removed.trash, what, self.refresh)


def _in_words(use: CheckUse) -> str:
    if not use.cases:
        return "No case uses this check yet. Runs try it on the cases that it is enabled on."
    off = use.cases - use.enabled
    return f"Enabled on {counted(use.enabled)}{f', switched off on {off:,}' if off else ''}."


class _Enabling:
    """A filter of cases, and buttons that enable the check on those that match, or remove it."""

    def __init__(self, workspace: Workspace, name: str, datasets: Sequence[str], usage: CheckUsage) -> None:
        self._workspace, self._name, self._usage = workspace, name, usage
        self._latest = Latest()
        self._found = Coverage([], [], [])
        with ui.element("div").classes("card stack enabling"):
            text("Enable on many cases", "h3")
            with ui.element("div").classes("filters"):
                self._text = forms.line(_SEARCH).props("debounce=300 clearable type=search")
                self._dataset = forms.pick(
                    _DATASET, {name: title_of("dataset", name) for name in datasets}, datasets[0]
                )
                self._tag = forms.pick(_TAG, {"": "All tags"}, "")
                self._state = forms.pick(_STATE, _STATES, "")
            self._said = text("", "p", "small").props("role=status")
            with ui.element("div").classes("actions"):
                self._enable = button("Enable", self._enabled)
                self._remove = button("Remove", self._ask_to_remove, kind="quiet")
            self._dialogs = ui.element("div")
        self._dataset.on_value_change(self._of_dataset)
        for field in (self._text, self._tag, self._state):
            field.on_value_change(self.read)
        ui.timer(0, self._of_dataset, once=True)

    async def _of_dataset(self) -> None:
        found = await to_thread.run_sync(dataset_tags, self._workspace, str(self._dataset.value))
        options = {"": "All tags", **{tag: f"{tag} ({number:,})" for tag, number in found}}
        if self._tag.value not in options:
            self._tag.value = ""
        self._tag.options = options
        self._tag.update()
        await self.read()

    async def read(self) -> None:
        """Read which cases match the filter, and show how many have the check."""
        is_latest = self._latest.begin()
        search = CaseSearch(str(self._tag.value or ""), str(self._text.value or ""), state=str(self._state.value or ""))
        read = partial(coverage, self._workspace, str(self._dataset.value), self._name, **search.filter)
        found = await to_thread.run_sync(read)
        if not is_latest():
            return
        self._found = found
        new, on = len(found.cases) - len(found.enabled), len(found.enabled)
        have = f"; the check is on {on:,} of them" if on else ""
        self._said.set_text(f"{counted(len(found.cases), 'matching case')}{have}.")
        self._enable.set_text(f"Enable on {counted(new)}")
        self._enable.set_visibility(new > 0)
        self._remove.set_text(f"Remove from {counted(len(found.naming))}")
        self._remove.set_visibility(bool(found.naming))

    async def _enabled(self) -> None:
        on = set(self._found.enabled)
        wanted = [case for case in self._found.cases if case not in on]
        dataset = str(self._dataset.value)
        work = partial(enable_check, self._workspace, dataset, wanted, self._name)
        number = await forms.attempt(work, by=self._enable)
        if number is not None:
            tell(f"The check was enabled on {counted(number)}.")
            await self._usage.refresh()

    def _ask_to_remove(self) -> None:
        title = f"Remove it from {counted(len(self._found.naming))}?"
        self._dialogs.clear()
        with self._dialogs:
            confirmation(title, "Runs keep their scores.", "Remove", self._removed, keep="Cancel").open()

    async def _removed(self) -> None:
        dataset = str(self._dataset.value)
        work = partial(remove_check, self._workspace, dataset, self._found.naming, self._name)
        removed = await forms.attempt(work, by=self._remove)
        if removed is not None:
            self._usage.offer_undo(removed)
            await self._usage.refresh()

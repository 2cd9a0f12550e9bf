"""The cases of a dataset that was defined here: found, selected, and changed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bulk import case_ids
from evalflow.app.workspace.case_places import cases_at
from evalflow.app.workspace.cases import StoredCase
from evalflow.web.pages.datasets.bulk_bar import BulkBar
from evalflow.web.pages.datasets.case_browser import CaseBrowser, Found, tag_options
from evalflow.web.pages.datasets.case_rows import case_table, stored_row
from evalflow.web.pages.datasets.sought import AT_ONCE, Sought
from evalflow.web.pages.parts import button, text


class CaseList(CaseBrowser[StoredCase]):
    """The list, with what can be done with the selected cases.

    Args:
        workspace: Where.
        dataset: Which; it has cases.
        tags: Its tags, with how many cases have each.
        sought: What to begin with; the cursor comes to its row.
    """

    def __init__(self, workspace: Workspace, dataset: str, tags: Sequence[tuple[str, int]], sought: Sought) -> None:
        self._workspace = workspace
        self._selected: set[int] = set()
        super().__init__(dataset, tags, sought)

    def show(self, found: Found[StoredCase]) -> None:
        """Show a page that was read."""
        super().show(found)
        self._bar.show()
        if self._sought.row is not None:
            ui.run_javascript('document.querySelector("tr.here a")?.focus()')
            self._sought = replace(self._sought, row=None)  # the cursor comes there once

    def _above_rows(self) -> None:
        self._bar = BulkBar(self._workspace, self._dataset, self._selected, self._changed)

    def _read(self, sought: Sought, is_wanted: Callable[[], bool]) -> Found[StoredCase]:
        return Found(*cases_at(self._workspace, self._dataset, sought.first, AT_ONCE, **sought.wanted))

    async def _filtered(self) -> None:
        self._selected.clear()
        await super()._filtered()

    async def _changed(self, tags: Sequence[tuple[str, int]]) -> None:
        """After the selected cases were changed."""
        options = tag_options(tags)
        if self._tag.value not in options:
            self._tag.value = ""
        self._tag.options = options
        self._tag.update()
        await self.refresh()

    def _table(self, items: Sequence[StoredCase]) -> None:
        there, total = {case.id for case in items}, self._found.total
        whole = there <= self._selected
        if whole and total > len(there) and len(self._selected) < total:
            with ui.element("div").classes("whole"):
                text(f"All {len(there)} on this page are selected.")
                button(f"Select all {total:,}", self._select_all, kind="quiet")
        with case_table(selectable=True, on_all=self._select_page, all_on=whole):
            for case in items:
                stored_row(
                    case,
                    self._sought.case(self._dataset, case.id),
                    on=case.id in self._selected,
                    here=case.id == self._sought.row,
                    on_change=lambda on, case=case.id: self._select(case, on),
                )

    def _select(self, case: int, on: bool) -> None:
        (self._selected.add if on else self._selected.discard)(case)
        self._bar.show()

    def _select_page(self, on: bool) -> None:
        there = {case.id for case in self._found.items}
        (self._selected.update if on else self._selected.difference_update)(there)
        self.show(self._found)

    async def _select_all(self) -> None:
        wanted = self._sought.wanted
        self._selected.update(await to_thread.run_sync(lambda: case_ids(self._workspace, self._dataset, **wanted)))
        self.show(self._found)

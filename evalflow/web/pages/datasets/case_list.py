"""The cases of a dataset a page at a time: found by text and tag, selected, and changed together."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bulk import case_ids
from evalflow.app.workspace.cases import CasePage, count_cases, list_cases
from evalflow.web.pages.datasets.bulk_bar import BulkBar
from evalflow.web.pages.datasets.case_rows import case_table, stored_row
from evalflow.web.pages.forms import About, line, pick
from evalflow.web.pages.parts import button, empty, text

AT_ONCE = 50


class CaseList:
    """The filters, the table, what can be done with the selected cases, and the pager.

    Args:
        workspace: Where.
        dataset: Which; it has cases.
        tags: Its tags, with how many cases have each.
        tag: The one to begin with; "": all.
        words: The text to begin with.
    """

    def __init__(
        self, workspace: Workspace, dataset: str, tags: Sequence[tuple[str, int]], tag: str = "", words: str = ""
    ) -> None:
        self._workspace, self._dataset = workspace, dataset
        self._selected: set[int] = set()
        self._cursors: list[str | None] = [None]
        self._page = CasePage([], None)
        self._total = 0
        self._asked = 0
        with ui.element("div").classes("filters"):
            self._text = line(About("Search", example="in the question or the id"), words)
            self._text.props("debounce=300 clearable type=search")
            self._tag = pick(About("Tag"), _options(tags), tag if tag in dict(tags) else "")
        self._text.on_value_change(self._filtered)
        self._tag.on_value_change(self._filtered)
        self._bar = BulkBar(workspace, dataset, self._selected, self._changed)
        self._rows = ui.element("div")
        self._pager = ui.element("div").classes("pager")

    async def refresh(self) -> None:
        """Read the page that is wanted, and show it."""
        self._asked += 1
        asked, wanted = self._asked, self._filter()
        cursor = self._cursors[-1]

        def read() -> tuple[CasePage, int]:
            found = list_cases(self._workspace, self._dataset, cursor, AT_ONCE, **wanted)
            return found, count_cases(self._workspace, self._dataset, **wanted)

        page, total = await to_thread.run_sync(read)
        if asked == self._asked:  # else somebody has typed on
            self._page, self._total = page, total
            self._show()

    def _filter(self) -> dict[str, str | None]:
        return {"tag": self._tag.value or None, "text": (self._text.value or "").strip() or None}

    async def _filtered(self) -> None:
        self._cursors = [None]
        self._selected.clear()
        await self.refresh()

    async def _changed(self, tags: Sequence[tuple[str, int]]) -> None:
        """After the selected cases were changed."""
        options = _options(tags)
        if self._tag.value not in options:
            self._tag.value = ""
        self._tag.options = options
        self._tag.update()
        self._cursors = [None]
        await self.refresh()

    def _show(self) -> None:
        self._bar.show()
        self._rows.clear()
        with self._rows:
            if not self._page.items:
                with empty("search_off", "No case is like that", "Search for other words, or take another tag."):
                    button("Show all cases", self._all)
            else:
                self._table()
        self._pager.clear()
        with self._pager:
            self._turning()

    def _table(self) -> None:
        there = {case.id for case in self._page.items}
        whole = there <= self._selected
        if whole and self._total > len(there) and len(self._selected) < self._total:
            with ui.element("div").classes("whole"):
                text(f"All {len(there)} on this page are selected.")
                button(f"Select all {self._total:,}", self._select_all, kind="quiet")
        with case_table(selectable=True, on_all=self._select_page, all_on=whole):
            for case in self._page.items:
                stored_row(
                    case,
                    f"/datasets/{self._dataset}/cases/{case.id}",
                    on=case.id in self._selected,
                    on_change=lambda on, case=case.id: self._select(case, on),
                )

    def _turning(self) -> None:
        first = (len(self._cursors) - 1) * AT_ONCE
        last = first + len(self._page.items)
        text(f"{first + 1:,}–{last:,} of {self._total:,}" if last else "", classes="muted small").props("role=status")
        with ui.element("div").classes("actions"):
            if len(self._cursors) > 1:
                button("Previous", self._previous)
            if self._page.next:
                button("Next", self._next)

    async def _next(self) -> None:
        self._cursors.append(self._page.next)
        await self.refresh()

    async def _previous(self) -> None:
        self._cursors.pop()
        await self.refresh()

    async def _all(self) -> None:
        self._text.value, self._tag.value = "", ""
        await self._filtered()

    def _select(self, case: int, on: bool) -> None:
        (self._selected.add if on else self._selected.discard)(case)
        self._bar.show()

    def _select_page(self, on: bool) -> None:
        there = {case.id for case in self._page.items}
        (self._selected.update if on else self._selected.difference_update)(there)
        self._show()

    async def _select_all(self) -> None:
        wanted = self._filter()
        self._selected.update(await to_thread.run_sync(lambda: case_ids(self._workspace, self._dataset, **wanted)))
        self._show()


def _options(tags: Sequence[tuple[str, int]]) -> dict[str, str]:
    return {"": "All tags", **{tag: f"{tag} ({number:,})" for tag, number in tags}}

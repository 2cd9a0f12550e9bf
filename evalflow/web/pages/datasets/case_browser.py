"""Cases a page at a time, found by text and tag; the address says what is shown, so that one can come back to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from anyio import to_thread
from nicegui import ui

from evalflow.web.pages.datasets.sought import AT_ONCE, Sought
from evalflow.web.pages.forms import About, line, pick
from evalflow.web.pages.parts import button, empty, text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A page of cases.

    Attributes:
        items: The cases.
        first: How many that were found stand before them.
        total: How many were found.
        is_whole: Whether that is all there are, and not only as far as was read.
    """

    items: Sequence[T]
    first: int
    total: int
    is_whole: bool = True


class CaseBrowser(Generic[T]):
    """The filters, the table and the pager.

    Args:
        dataset: Which; it has cases.
        tags: Its tags, with how many cases have each.
        sought: What to begin with.
    """

    def __init__(self, dataset: str, tags: Sequence[tuple[str, int]], sought: Sought) -> None:
        self._dataset = dataset
        self._sought = sought if sought.tag in dict(tags) else replace(sought, tag="")
        self._found: Found[T] = Found([], 0, 0)
        self._asked = 0
        with ui.element("div").classes("filters"):
            self._text = line(About("Search", "Words of the question, or an id.", "refund"), sought.text)
            self._text.props("debounce=300 clearable type=search")
            self._tag = pick(About("Tag", "Only cases that have it."), tag_options(tags), self._sought.tag)
        self._text.on_value_change(self._filtered)
        self._tag.on_value_change(self._filtered)
        self._above_rows()
        self._rows = ui.element("div")
        self._pager = ui.element("div").classes("pager")

    async def refresh(self) -> None:
        """Read the page that is wanted, and show it."""
        self._asked += 1
        asked, sought = self._asked, self._sought
        found = await to_thread.run_sync(lambda: self._read(sought, lambda: asked == self._asked))
        if asked == self._asked:  # else somebody has typed on
            self.show(found)

    def show(self, found: Found[T]) -> None:
        """Show a page that was read."""
        self._found = found
        self._sought = replace(self._sought, first=found.first)
        self._rows.clear()
        with self._rows:
            if found.items:
                self._table(found.items)
            else:
                with empty("search_off", "No matching cases", "Search for other words, or take another tag."):
                    button("Show all cases", self._all)
        self._pager.clear()
        with self._pager:
            self._turning()

    def _read(self, sought: Sought, is_wanted: Callable[[], bool]) -> Found[T]:
        """Read a page; blocks. It may give up once it is not wanted any more."""
        raise NotImplementedError

    def _table(self, items: Sequence[T]) -> None:
        """Build the table."""
        raise NotImplementedError

    def _above_rows(self) -> None:
        """Build what stands between the filters and the table."""

    def _turning(self) -> None:
        found = self._found
        last = found.first + len(found.items)
        more = "" if found.is_whole else " or more"
        said = f"{found.first + 1:,}–{last:,} of {found.total:,}{more}" if found.items else ""
        text(said, classes="muted small").props("role=status")
        with ui.element("div").classes("actions"):
            if found.first:
                button("Previous", lambda: self._turn(found.first - AT_ONCE))
            if last < found.total:
                button("Next", lambda: self._turn(last))

    async def _turn(self, first: int) -> None:
        await self._seek(replace(self._sought, first=max(first, 0), row=None))

    async def _filtered(self) -> None:
        await self._seek(Sought(self._tag.value or "", self._text.value or ""))

    async def _all(self) -> None:
        self._text.value, self._tag.value = "", ""
        await self._filtered()

    async def _seek(self, sought: Sought) -> None:
        if sought == self._sought:
            return
        self._sought = sought
        ui.navigate.history.replace(sought.path(self._dataset))
        await self.refresh()


def tag_options(tags: Sequence[tuple[str, int]]) -> dict[str, str]:
    """The tags to choose from."""
    return {"": "All tags", **{tag: f"{tag} ({number:,})" for tag, number in tags}}

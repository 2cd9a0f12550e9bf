"""The test cases of a dataset as a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.case_rows import question_of
from evalflow.app.studio.cases import StoredCase, case_ids, case_tags, cases_at, delete_cases, group_cases, tag_cases
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.datasets import counted
from evalflow.web.ui.parts import About, Field, attempt, badge, button, empty, line, pick, tell, text, written

Changed = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]
_TAG = About("Tag", "Separate sub-tags with >.", "Fees > Refunds", required=True)
_GROUP = About("Group", "Related cases, counted together in statistics. Empty: no group.", "handbook")


class BulkBar:
    """A bar that is there while cases are selected.

    Args:
        workspace: Where.
        dataset: Which.
        selected: The ids in the store of the selected cases; emptied by what deletes them.
        on_change: Is given the dataset's tags after a change.
    """

    def __init__(self, workspace: Workspace, dataset: str, selected: set[int], on_change: Changed) -> None:
        self._workspace, self._dataset, self._selected = workspace, dataset, selected
        self._on_change = on_change
        self._bar = ui.element("div").classes("bulk").props('role=region aria-label="Selected cases"')
        with self._bar:
            self._number = text("").props("role=status")
            with ui.element("div").classes("actions"):
                button("Add tag", self._add_tag)
                button("Remove tag", self._remove_tag)
                button("Set group", self._set_group)
                button("Delete cases", self._delete, kind="danger")
                button("Clear", self._clear, kind="quiet")
        self.show()

    def show(self) -> None:
        """Say how many are selected."""
        self._bar.set_visibility(bool(self._selected))
        self._number.set_text(f"{len(self._selected):,} selected")

    async def _clear(self) -> None:
        self._selected.clear()
        await self._on_change(await self._tags())

    def _add_tag(self) -> None:
        def work(field: Field) -> int:
            return tag_cases(self._workspace, self._dataset, list(self._selected), add=[written(field) or ""])

        self._ask("Add a tag", lambda: line(_TAG), "Add", work)

    async def _remove_tag(self) -> None:
        tags = [tag for tag, _ in await self._tags()]
        if not tags:
            tell("No case has tags.")
            return

        def work(field: Field) -> int:
            return tag_cases(self._workspace, self._dataset, list(self._selected), remove=[str(field.value)])

        about = About("Tag", "Removed from the selected cases, with its sub-tags.", required=True)
        self._ask("Remove a tag", lambda: pick(about, tags, tags[0]), "Remove", work)

    def _set_group(self) -> None:
        def work(field: Field) -> int:
            return group_cases(self._workspace, self._dataset, list(self._selected), written(field))

        self._ask("Set the group", lambda: line(_GROUP), "Set", work, required=False)

    def _delete(self) -> None:
        def work(_: Field | None) -> int:
            number = delete_cases(self._workspace, self._dataset, list(self._selected))
            self._selected.clear()
            return number

        self._ask(f"Delete {counted(len(self._selected))}?", None, "Delete", work)

    def _ask(
        self,
        title: str,
        make: Callable[[], Field] | None,
        action: str,
        work: Callable[[Any], int],
        *,
        required: bool = True,
    ) -> None:
        """Open a dialog with one field, or none; what is confirmed is done and shown."""

        async def confirmed() -> None:
            if field is not None and required and not written(field):
                field.error = "is required"
                return
            number = await attempt(lambda: work(field), by=doing)
            asked.close()
            if number is not None:
                tell(
                    f"{counted(number)} {'were' if number != 1 else 'was'} changed."
                    if make
                    else f"{counted(number)} deleted."
                )
                await self._on_change(await self._tags())

        with self._bar, ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
            text(title, "h2")
            if make is None:
                text("Runs keep their own copies.", "p", "muted")
            field = make() if make else None
            with ui.element("div").classes("actions"):
                doing = button(action, confirmed, kind="primary" if make else "danger")
                button("Cancel", asked.close)
        if isinstance(field, ui.input):
            field.props("autofocus").on("keydown.enter", confirmed)
        asked.props["aria-label"] = title
        asked.on("hide", asked.delete)
        asked.open()

    async def _tags(self) -> list[tuple[str, int]]:
        return await to_thread.run_sync(case_tags, self._workspace, self._dataset)


AT_ONCE = 50
"""Cases of a page."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A filter, and a place among what it finds.

    Attributes:
        tag, text: What is looked for; empty: all.
        first: How many stand before the page.
        row: The case in the store that one comes back from; None: none.
    """

    tag: str = ""
    text: str = ""
    first: int = 0
    row: int | None = None

    @property
    def wanted(self) -> dict[str, str | None]:
        """The filter as the workspace takes it."""
        return {"tag": self.tag or None, "text": self.text.strip() or None}

    def path(self, dataset: str) -> str:
        """The address of the list."""
        return _address(f"/datasets/{dataset}", {**self.wanted, "first": self.first or None, "row": self.row})

    def case(self, dataset: str, case: int) -> str:
        """The address of one of its cases."""
        return _address(f"/datasets/{dataset}/cases/{case}", self.wanted)

    def around(self, before: int, row: int | None) -> Sought:
        """The page on which a case is that has so many before it."""
        return Sought(self.tag, self.text, before // AT_ONCE * AT_ONCE, row)


def number_of(said: str) -> int:
    """A number that stands in an address, or 0."""
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def _address(path: str, query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


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
            self._tag = pick(About("Tag", "Only cases with this tag."), tag_options(tags), self._sought.tag)
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
                with empty("search_off", "No matching cases", "Try other words or another tag."):
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


_CLIPPED = 300
_TAGS = 4


@contextmanager
def case_table(
    *, selectable: bool, on_all: Callable[[bool], object] | None = None, all_on: bool = False
) -> Generator[None]:
    """A table; its rows are built within."""
    with ui.element("table").classes("cases"):
        with ui.element("thead"), ui.element("tr"):
            if selectable:
                with ui.element("th").classes("tick"):
                    tick("Select this page", on=all_on, on_change=on_all or (lambda _: None))
            for name in ("Question", "Expected", "Tags"):
                text(name, "th").props("scope=col")
        with ui.element("tbody"):
            yield


def tick(label: str, *, on: bool, on_change: Callable[[bool], object]) -> None:
    """A box to tick."""
    box = ui.element("input").props("type=checkbox").classes("tick-box")
    box.props["aria-label"] = label
    box.props["checked"] = on
    box.on("change", lambda event: on_change(bool(event.args)), js_handler="(event) => emit(event.target.checked)")


def stored_row(
    case: StoredCase, path: str, *, on: bool, on_change: Callable[[bool], object], here: bool = False
) -> None:
    """A case that can be opened and selected; `here` marks the one that one comes back from."""
    with ui.element("tr").classes("here" if here else ""):
        with ui.element("td").classes("tick"):
            tick(f"Select {clipped(case.question) or case.body['id']}", on=on, on_change=on_change)
        with ui.element("td").classes("question"):
            ui.link(clipped(case.question) or "(no question)", path).classes("clamp")
            _foot(case.body)
        _known(case.body)


def declared_row(row: Mapping[str, Any]) -> None:
    """A case that can only be read."""
    with ui.element("tr"):
        with ui.element("td").classes("question"):
            text(clipped(question_of(row)) or "(no question)", classes="clamp")
            _foot(row)
        _known(row)


def clipped(value: object) -> str:
    """A text that is not longer than a table can bear."""
    said = "" if value is None else str(value)
    return said if len(said) <= _CLIPPED else said[:_CLIPPED] + "…"


def _foot(row: Mapping[str, Any]) -> None:
    """What else there is, in small print."""
    turns = len(row.get("messages") or ())
    pieces = row.get("contexts")
    said = [
        f"conversation of {turns}" if turns > 1 else "",
        "recorded answer" if row.get("answer") is not None else "",
        f"{len(pieces)} pieces of context"
        if pieces is not None and len(pieces) != 1
        else "1 piece of context"
        if pieces
        else "",
        ", ".join(row.get("vars") or ()),
        f"group {clipped(row['group'])}" if row.get("group") else "",
    ]
    if any(said):
        text(" · ".join(part for part in said if part), classes="small muted line")


def _known(row: Mapping[str, Any]) -> None:
    expected = row.get("reference", row.get("expected"))
    with ui.element("td").classes("expected"):
        if expected is not None:
            text(clipped(expected), classes="clamp small")
    tags = cast("list[str]", row.get("tags") or [])
    with ui.element("td").classes("tags"), ui.element("div").classes("badges"):
        for tag in tags[:_TAGS]:
            badge(tag)
        if len(tags) > _TAGS:
            badge(f"+{len(tags) - _TAGS}")


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

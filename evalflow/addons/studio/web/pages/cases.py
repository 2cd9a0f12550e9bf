"""The test cases of a dataset as a table, with search, pages and changes to many at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import carry_out, confirmation, dialog, offer_undo, open_once, question
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.naming import TagCounts, TagField, offer_tags, tag_options
from evalflow.addons.studio.web.ui.parts import (
    Latest,
    address,
    button,
    clipped,
    empty,
    filled,
    link_button,
    markup,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.ticks import packed, tick_box
from evalflow.addons.studio.web.ui.visitor import may, root_path
from evalflow.addons.studio.work import cases
from evalflow.addons.studio.work.check_uses import enable_check
from evalflow.addons.studio.work.checks import list_checks
from evalflow.addons.studio.work.datasets import FoundCases, question_of
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.tags import project_tags
from evalflow.addons.studio.work.titles import case_title
from evalflow.records import numbered, texts_of
from evalflow.report.wording import counted, joined

PAGE_SIZE = 50
FIELD_TITLES = {
    "question": "Question",
    "history": "Earlier turns",
    "messages": "Conversation",
    "reference": "Expected answer",
    "answer": "Recorded answer",
    "contexts": "Context",
    "tags": "Tags",
    "group": "Group",
    "id": "Id",
    "expected": "Expected label",
    "actual": "Recorded label",
    "metadata": "Metadata",
    "checks": "Checks",
    "labels": "Human labels",
    "demo_answer": "Answer example",
    "failure": "Why it has no answer",
    "scenario": "Scenario of a simulated user",
    "persona": "Persona of a simulated user",
    "goal": "Goal of a simulated user",
    "facts": "Facts that a simulated user knows",
    "vars": "Additional inputs",
}
"""What people call the fields of a case."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaseSearch:
    """The filter and position of a case list, as in the query of its URL. `row`: the stored case to scroll to."""

    tag: str = ""
    text: str = ""
    first: int = 0
    row: int | None = None
    state: str = ""

    @property
    def arguments(self) -> dict[str, str | None]:
        """The search as arguments for the workspace, without the filter for drafts and active cases."""
        return {"tag": self.tag or None, "text": self.text.strip() or None}

    @property
    def filter(self) -> dict[str, Any]:
        """The filter as arguments for the workspace."""
        return {**self.arguments, "draft": {"draft": True, "active": False}.get(self.state)}

    def path(self, dataset: str) -> str:
        """The URL of the list."""
        query = {**self.arguments, "state": self.state, "first": self.first or None, "row": self.row}
        return address(f"/datasets/{dataset}", query)

    def case(self, dataset: str, case: int) -> str:
        """The URL of a case of the list."""
        return address(f"/datasets/{dataset}/cases/{case}", {**self.arguments, "state": self.state})

    def around(self, before: int, row: int | None) -> CaseSearch:
        """The page of the case with `before` cases before it."""
        return replace(self, first=before // PAGE_SIZE * PAGE_SIZE, row=row)


def number_of(digits: str) -> int:
    """A number from a URL; 0 if invalid."""
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


class CaseBrowser(Generic[T]):
    """The search fields, the table and the pager."""

    def __init__(self, dataset: str, tags: TagCounts, search: CaseSearch) -> None:
        self._dataset = dataset
        self._search = search if search.tag in dict(tags) else replace(search, tag="")
        self._page: FoundCases[T] = FoundCases([], 0, 0)
        self._latest = Latest()
        with ui.element("div").classes("filters"):
            self._text = forms.line(forms.About("Search", "Words of the question, or an id.", "refund"), search.text)
            self._text.props("debounce=300 clearable type=search")
            self._tag = forms.pick(forms.About("Tag", "Only cases with this tag."), tag_options(tags), self._search.tag)
            self._state = self._state_field()
        self._text.on_value_change(self._filtered)
        self._tag.on_value_change(self._filtered)
        self._above_rows()
        self._rows = ui.element("div")
        self._pager = ui.element("div").classes("pager")

    async def refresh(self) -> None:
        """Read the page and show it."""
        is_latest, search = self._latest.begin(), self._search
        page = await to_thread.run_sync(lambda: self._read(search, is_latest))
        if is_latest():
            self.show(page)

    def show(self, page: FoundCases[T]) -> None:
        """Show a page that was read."""
        self._page = page
        self._search = replace(self._search, first=page.first)
        self._rows.clear()
        with self._rows:
            if page.items:
                self._table(page.items)
            else:
                with empty("search_off", "No matching cases", "Try other words or another tag."):
                    button("Show all cases", self._all)
        self._pager.clear()
        with self._pager:
            self._turning()

    def _state_field(self) -> forms.Field | None:
        """Build the filter of drafts, if the cases can be drafts."""
        return None

    def _read(self, search: CaseSearch, is_wanted: Callable[[], bool]) -> FoundCases[T]:
        """Read a page; may block, and may stop early once `is_wanted` is false."""
        raise NotImplementedError

    def _table(self, items: Sequence[T]) -> None:
        raise NotImplementedError

    def _above_rows(self) -> None:
        """Build the area between the search fields and the table."""

    def _turning(self) -> None:
        page = self._page
        last = page.first + len(page.items)
        more = "" if page.is_whole else " or more"
        where = f"{page.first + 1:,}–{last:,} of {page.total:,}{more}" if page.items else ""
        text(where, classes="muted small").props("role=status")
        with ui.element("div").classes("actions"):
            if page.first:
                button("Previous", lambda: self._turn(page.first - PAGE_SIZE))
            if last < page.total:
                button("Next", lambda: self._turn(last))

    async def _turn(self, first: int) -> None:
        await self._seek(replace(self._search, first=max(first, 0), row=None))

    async def _filtered(self) -> None:
        state = str(self._state.value) if self._state else ""
        await self._seek(CaseSearch(self._tag.value or "", self._text.value or "", state=state))

    async def _all(self) -> None:
        self._text.value, self._tag.value = "", ""
        if self._state:
            self._state.value = ""
        await self._filtered()

    async def _seek(self, search: CaseSearch) -> None:
        if search != self._search:
            self._search = search
            ui.navigate.history.replace(search.path(self._dataset))
            await self.refresh()


class CaseList(CaseBrowser[cases.StoredCase]):
    """The cases of a dataset of the workspace, which can be selected and changed."""

    def __init__(self, workspace: Workspace, dataset: str, tags: TagCounts, search: CaseSearch) -> None:
        self._workspace = workspace
        self._selected: set[int] = set()
        super().__init__(dataset, tags, search)

    def show(self, page: FoundCases[cases.StoredCase]) -> None:
        """Show a page that was read."""
        super().show(page)
        self._bar.show()
        if self._search.row is not None:
            ui.run_javascript('document.querySelector("tr.here a")?.focus()')
            self._search = replace(self._search, row=None)  # only once

    def _state_field(self) -> forms.Field:
        options = {"": "All", "active": "Active", "draft": "Drafts"}
        about = forms.About("State", "Runs leave drafts out.")
        field = forms.pick(about, options, self._search.state if self._search.state in options else "")
        field.on_value_change(self._filtered)
        return field

    def _above_rows(self) -> None:
        self._bar = BulkBar(self._workspace, self._dataset, self._selected, self._changed)

    def _read(self, search: CaseSearch, is_wanted: Callable[[], bool]) -> FoundCases[cases.StoredCase]:
        return cases.cases_at(self._workspace, self._dataset, search.first, PAGE_SIZE, **search.filter)

    async def _filtered(self) -> None:
        self._selected.clear()
        await super()._filtered()

    async def _changed(self) -> None:
        offer_tags(self._tag, await to_thread.run_sync(cases.dataset_tags, self._workspace, self._dataset))
        await self.refresh()

    def _table(self, items: Sequence[cases.StoredCase]) -> None:
        here, total = {case.id for case in items}, self._page.total
        is_whole = here <= self._selected
        if is_whole and len(self._selected) < total:
            with ui.element("div").classes("whole"):
                text(f"All {len(here)} on this page are selected.")
                button(f"Select all {total:,}", self._select_all, kind="quiet")
        tick = (lambda: tick_box("Select this page", is_whole, self._select_page)) if may("edit") else None
        with case_table(tick):
            for case in items:
                self._row(case)

    def _row(self, case: cases.StoredCase) -> None:
        question = clipped(case.question)
        with ui.element("tr").classes("here" if case.id == self._search.row else ""):
            if may("edit"):
                with ui.element("td").classes("tick"):
                    label = f"Select {case_title(case.question, case.body['id'])}"
                    tick_box(label, case.id in self._selected, lambda on: self._select(case.id, on))
            path = f"{root_path()}{self._search.case(self._dataset, case.id)}"
            link = markup("a", question or _NO_QUESTION, cls="nicegui-link clamp", dir="auto", href=path)
            filled("td", link, _foot(case.body, is_draft=case.is_draft), classes="question")
            filled("td", _expected(case.body), classes="expected")
            filled("td", _tags(case.body), classes="tags")

    def _select(self, case: int, on: bool) -> None:
        (self._selected.add if on else self._selected.discard)(case)
        self._bar.show()

    def _select_page(self, on: bool) -> None:
        here = {case.id for case in self._page.items}
        (self._selected.update if on else self._selected.difference_update)(here)
        self.show(self._page)

    async def _select_all(self) -> None:
        read = partial(cases.case_ids, self._workspace, self._dataset, **self._search.filter)
        self._selected.update(await to_thread.run_sync(read))
        self.show(self._page)


class BulkBar:
    """A bar that appears while stored cases are selected, whose ids are in `selected`."""

    def __init__(
        self, workspace: Workspace, dataset: str, selected: set[int], on_change: Callable[[], Awaitable[None]]
    ) -> None:
        self._workspace, self._dataset, self._selected = workspace, dataset, selected
        self._on_change = on_change
        self._bar = ui.element("div").classes("bulk").props('role=region aria-label="Selected cases"')
        with self._bar:
            self._number = text("").props("role=status")
            with ui.element("div").classes("actions"):
                button("Run these", self._run)
                button("Add tag", self._add_tag)
                button("Remove tag", self._remove_tag)
                button("Add a check", self._add_check)
                button("Set group", self._set_group)
                button("Activate", lambda: self._activate(draft=False))
                button("Make drafts", lambda: self._activate(draft=True))
                button("Delete cases", self._delete, kind="danger")
                button("Clear", self._clear, kind="quiet")
        self.show()

    def show(self) -> None:
        """Show the number of selected cases."""
        self._bar.set_visibility(bool(self._selected))
        self._number.set_text(f"{len(self._selected):,} selected")

    async def _clear(self) -> None:
        self._selected.clear()
        await self._on_change()

    def _run(self) -> None:
        selected = packed(self._selected)
        if selected is None:
            tell_fault("These are too many single cases for a new run. Add a tag to them, and run the tag.")
        else:
            ui.navigate.to(address("/runs/new", {"dataset": self._dataset, "cases": selected}))

    async def _add_tag(self) -> None:
        known = [tag for tag, _ in await to_thread.run_sync(project_tags, self._workspace)]
        fields: list[TagField] = []

        def make() -> forms.Field:
            fields.append(TagField([], known))
            return fields[0].field

        def work(_: forms.Field) -> int:
            return cases.tag_cases(self._workspace, self._dataset, list(self._selected), add=fields[0].read())

        self._ask("Add tags", make, "Add", work)

    async def _add_check(self) -> None:
        known = await to_thread.run_sync(list_checks, self._workspace)
        if not known:
            with self._bar, dialog("No reusable checks yet", "Define one; its page enables it on many cases.") as asked:
                link_button("New check", "/checks/new", primary=True)
            open_once(asked)
            return
        options = {check.name: check.title or check.name for check in known}

        def work(field: forms.Field) -> int:
            return enable_check(self._workspace, self._dataset, list(self._selected), str(field.value))

        about = forms.About("Check", "A reusable check; cases that have it keep it.", required=True)
        self._ask("Add a check", lambda: forms.pick(about, options, known[0].name), "Add", work)

    async def _activate(self, *, draft: bool) -> None:
        work = partial(cases.activate_cases, self._workspace, self._dataset, list(self._selected), draft=draft)
        await carry_out(work, self._tell)

    async def _tell(self, number: int) -> None:
        """Say how many cases were changed."""
        tell(f"{counted(number)} {'was' if number == 1 else 'were'} changed.")
        await self._on_change()

    async def _remove_tag(self) -> None:
        tags = [tag for tag, _ in await to_thread.run_sync(cases.dataset_tags, self._workspace, self._dataset)]
        if not tags:
            tell("No case has tags.")
            return

        def work(field: forms.Field) -> int:
            return cases.tag_cases(self._workspace, self._dataset, list(self._selected), remove=[str(field.value)])

        about = forms.About("Tag", "Removed from the selected cases, with its sub-tags.", required=True)
        self._ask("Remove a tag", lambda: forms.pick(about, tags, tags[0]), "Remove", work)

    def _set_group(self) -> None:
        def work(field: forms.Field) -> int:
            return cases.group_cases(self._workspace, self._dataset, list(self._selected), forms.written(field))

        about = forms.About("Group", "Related cases, counted together in statistics. Empty: no group.", "handbook")
        self._ask("Set the group", lambda: forms.line(about), "Set", work, is_required=False)

    def _delete(self) -> None:
        async def deleted(gone: cases.Deleted) -> None:
            self._selected.clear()
            offer_undo(self._workspace, gone.trash, f"{counted(gone.count)} deleted.")
            await self._on_change()

        work = partial(cases.delete_cases, self._workspace, self._dataset, list(self._selected))
        delete = partial(carry_out, work, deleted)
        title = f"Delete {counted(len(self._selected))}?"
        with self._bar:
            open_once(confirmation(title, "Runs keep their own copies.", "Delete", delete, keep="Cancel"))

    def _ask(
        self,
        title: str,
        make: Callable[[], forms.Field],
        action: str,
        work: Callable[[forms.Field], int],
        *,
        is_required: bool = True,
    ) -> None:
        """Open a dialog with one field; `work` gets it and returns how many cases it changed."""

        async def confirmed(doing: ui.button | None = None) -> None:
            if is_required and forms.required(field) is None:
                return
            number = await forms.attempt(lambda: work(field), by=doing)
            asked.close()
            if number is not None:
                await self._tell(number)

        with self._bar, question(title, "", action, confirmed) as asked:
            field = make()
        if isinstance(field, ui.input):
            field.props("autofocus").on("keydown.enter", lambda: confirmed())
        open_once(asked)


_SHOWN_TAGS = 4
_NO_QUESTION = "(no question)"


@contextmanager
def case_table(build_tick: Callable[[], object] | None = None) -> Generator[None]:
    """A context manager for a table: build the rows inside. `build_tick` builds the checkbox in the head."""
    with ui.element("table").classes("cases"):
        with ui.element("thead"), ui.element("tr"):
            if build_tick is not None:
                with ui.element("th").classes("tick"):
                    build_tick()
            for name in ("Question", "Expected", "Tags"):
                text(name, "th").props("scope=col")
        with ui.element("tbody"):
            yield


def declared_row(row: Mapping[str, Any]) -> None:
    """A read-only row for a case of a declared dataset."""
    question = markup("div", clipped(question_of(row)) or _NO_QUESTION, cls="clamp", dir="auto")
    cells = [("question", question + _foot(row)), ("expected", _expected(row)), ("tags", _tags(row))]
    filled("tr", *(markup("td", content, cls=name) for name, content in cells))


def _foot(row: Mapping[str, Any], *, is_draft: bool = False) -> Markup:
    turns, pieces = len(row.get("messages") or ()), row.get("contexts")
    about = joined(
        counted(len(row.get("checks") or ()), "check") if row.get("checks") else "",
        f"conversation of {turns}" if turns > 1 else "",
        "recorded answer" if row.get("answer") is not None else "",
        "" if pieces is None else f"{counted(len(pieces), 'piece')} of context",
        ", ".join(row.get("vars") or ()),
        f"group {clipped(row['group'])}" if row.get("group") else "",
    )
    badge = markup("span", "draft", cls="badge warn") if is_draft else Markup()
    return badge + (markup("div", about, cls="small muted line", dir="auto") if about else Markup())


def _expected(row: Mapping[str, Any]) -> Markup:
    expected = numbered(texts_of(row["reference"])) if "reference" in row else row.get("expected")
    return Markup() if expected is None else markup("div", clipped(expected), cls="clamp small", dir="auto")


def _tags(row: Mapping[str, Any]) -> Markup:
    tags = cast("list[str]", row.get("tags") or [])
    more = [f"+{len(tags) - _SHOWN_TAGS}"] if len(tags) > _SHOWN_TAGS else []
    badges = [markup("span", tag, cls="badge", dir="auto") for tag in [*tags[:_SHOWN_TAGS], *more]]
    return markup("div", *badges, cls="badges")

"""The results of a run: a table with a row for each answer, and a panel that shows one in full."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import parse_qsl

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.pages.results_filter import FilterBar, ResultQuery
from evalflow.addons.studio.web.pages.run_case import case_content
from evalflow.addons.studio.web.pages.runs import ACTIVE, metric_titles, metrics_of
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.forms import attempt
from evalflow.addons.studio.web.ui.headline import metric_title
from evalflow.addons.studio.web.ui.naming import TagCounts
from evalflow.addons.studio.web.ui.parts import Latest, address, button, icon_button, markup, text
from evalflow.addons.studio.web.ui.ticks import packed, tick_markup
from evalflow.addons.studio.web.ui.visitor import may, root_path
from evalflow.addons.studio.work.run_cases import RunCase, get_run_case
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import ResultCell, ResultRow, labels_fault, order_results, read_results
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import EvalflowError
from evalflow.report.wording import counted, number

PAGE_SIZE = 25
_PAGE = "page"
"""The value of the checkbox of the whole page; the other boxes have positions."""
_WORST = "Worst first: most failed scores, then most errors, then the lowest mean of the scores from 0 to 1."

_UNREAD = "People's labels cannot be read, so the scores as the run made them count:"
_BY_PEOPLE = "Outlined scores are people's labels; they count in place of the judge's."


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of a run that match a filter: all their positions in order, and the rows of one page.

    `fault`: why people's labels cannot be read; empty if they can.
    """

    order: Sequence[int]
    page: int
    rows: list[ResultRow]
    fault: str


def find(workspace: Workspace, run: str, query: ResultQuery, thresholds: Mapping[str, float] | None = None) -> Found:
    """Read the results that a page shows."""
    order = order_results(workspace, run, query.filter(), query.order, thresholds)
    shown = read_page(workspace, run, order, query.page_number, thresholds)
    return Found(order, *shown, labels_fault(workspace, run, thresholds))


def read_page(
    workspace: Workspace, run: str, order: Sequence[int], page: int, thresholds: Mapping[str, float] | None
) -> tuple[int, list[ResultRow]]:
    """The rows of a page of an order, or of the nearest existing page."""
    page = min(max(1, page), _last_page(order))
    return page, read_results(workspace, run, order[PAGE_SIZE * (page - 1) : PAGE_SIZE * page], thresholds)


def _last_page(order: Sequence[int]) -> int:
    return max(1, -(-len(order) // PAGE_SIZE))


class ResultTable:
    """A page of results with the fields that filter and order them, and the panel.

    `thresholds` gives those to use for passing.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        query: ResultQuery,
        tags: TagCounts,
        thresholds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._workspace, self._run, self._thresholds = workspace, run, thresholds
        self._page, self._open = query.page_number, query.position
        self._order: Sequence[int] = ()
        self._fault = ""
        self._shown: tuple[list[ResultRow], str] | None = None
        self._ticked: set[int] = set()
        self._latest, self._latest_page, self._latest_case = Latest(), Latest(), Latest()
        with ui.element("div").classes("results") as self._place:
            self.bar = FilterBar(query, metric_titles(run), tags, self._filtered)
            with ui.element("div").classes("above"):
                self._count = text("", "span", "muted small").props("aria-live=polite")
            self._unread = text("", "p", "fault").props("aria-live=polite")
            self._table = ui.element("div").classes("result-rows")
            self._table.on("click", lambda event: self._choose(event.args), js_handler=_OPENS)
            self._table.on("change", lambda event: self._tick_box(*event.args), js_handler=_TICKS)
            with ui.element("div").classes("bulk").props('role=region aria-label="Run again"') as self._bulk:
                self._bulk_count = text("").props("role=status")
                self._again = ui.element("div").classes("actions")
            with ui.element("nav").classes("actions page-nav").props('aria-label="Pages of results"'):
                self._before = button("Previous", lambda: self._turn(-1))
                self._after = button("Next", lambda: self._turn(1))
        self._panel = ResultPanel(workspace, run.run_id, self._step, self._leave)
        self._is_back_to_close = False  # whether the browser's Back leads to the list without the panel
        ui.on("address", lambda event: self._go_to(str(event.args)))

    @property
    def positions(self) -> Sequence[int]:
        """The positions of all answers that match the filter, in order."""
        return self._order

    def follow(self, run: Run, tags: TagCounts) -> None:
        """Update to the run's new state; `load` shows the rows."""
        self._run = run
        self.bar.offer(metric_titles(run), tags)

    def show_first(self, first: asyncio.Task[Found]) -> None:
        """Show the page that is being read, if it is ready by now; otherwise `load` shows it."""
        if first.done() and first.exception() is None:
            self._show(first.result())

    async def load(self, first: Awaitable[Found] | None = None) -> None:
        """Read the order and show the page. If another page was requested meanwhile, only that one is shown."""
        is_latest = self._latest.begin()
        read = partial(find, self._workspace, self._run.run_id, self._query(), dict(self._thresholds()))
        try:
            listing = await (first or to_thread.run_sync(read))
        except EvalflowError as error:
            tell_fault(error)
            return
        if is_latest():
            self._show(listing)

    async def open_case(self) -> None:
        """Open the case named in the address."""
        if self._open is not None:
            await self._show_case(self._open)

    async def _filtered(self) -> None:
        self._page, self._is_back_to_close = 1, False
        self._note(is_new=True)
        await self.load()

    async def _go_to(self, address: str) -> None:
        """Show the state of an earlier address: the browser's Back closes the panel, then undoes the filter."""
        query = ResultQuery.of(dict(parse_qsl(address.removeprefix("?"))))
        listed = self.bar.query
        is_listed = (query.narrowed(), query.sort, query.page_number) == (listed.narrowed(), listed.sort, self._page)
        self._is_back_to_close, self._page = False, query.page_number
        if not is_listed:
            self.bar.show(query)
            await self.load()
        if query.position is None:
            self._close()
        elif query.position != self._open:
            await self._show_case(query.position)

    async def _turn(self, by: int) -> None:
        self._page += by
        self._note()
        await self._show_page()

    def _note(self, *, is_new: bool = False) -> None:
        """Write the state into the address; if `is_new`, the browser's Back returns to the previous state."""
        history = ui.navigate.history
        write = history.push if is_new else history.replace
        write(f"/runs/{self._run.run_id}{self._query()}")

    def _query(self, case: int | None = None) -> ResultQuery:
        opened = self._open if case is None else case
        page = str(self._page) if self._page > 1 else ""
        return replace(self.bar.query, page=page, case="" if opened is None else str(opened))

    async def _show_page(self) -> None:
        order, is_latest = self._order, self._latest_page.begin()
        read = partial(read_page, self._workspace, self._run.run_id, order, self._page, dict(self._thresholds()))
        page, rows = await to_thread.run_sync(read)
        if is_latest() and order is self._order:
            self._show(Found(order, page, rows, self._fault))

    def _show(self, listing: Found) -> None:
        self._order, self._page, rows, self._fault = listing.order, listing.page, listing.rows, listing.fault
        self._unread.set_text(f"{_UNREAD} {listing.fault}" if listing.fault else "")
        last = _last_page(self._order)
        of = f", page {self._page:,} of {last:,}" if last > 1 else ""
        hint = f" {_WORST}" if self.bar.query.order == "worst" and rows else ""
        if any(cell.is_by_people for row in rows for cell in row.cells.values()):
            hint += f" {_BY_PEOPLE}"
        self._count.set_text(f"{counted(len(self._order), 'result')}{of}.{hint}")
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(self._page < last)
        query = str(replace(self._query(), case=""))
        if self._shown != (rows, query):
            self._shown = rows, query
            self._build(rows)
        self._offer()

    def _build(self, rows: Sequence[ResultRow]) -> None:
        if not rows:
            self._table.props["innerHTML"] = str(markup("p", self._nothing(), cls="muted card"))
            return
        names = dict.fromkeys([*metrics_of(self._run), *(name for row in rows for name in row.cells)])
        titles = {name: metric_title(self._run, name) for name in names}
        heads = [
            markup("th", "Question", scope="col"),
            markup("th", "Answer", cls="answer", scope="col"),
            *(markup("th", name, cls="chip-of", scope="col", title=name, dir="auto") for name in titles.values()),
        ]
        if self._can_run_again:
            is_whole = self._ticked.issuperset(self._here)
            heads.insert(0, markup("th", tick_markup(_PAGE, "Tick this page", is_on=is_whole), cls="tick"))
        lines = [self._row(row, titles) for row in rows]
        table = markup("table", markup("thead", markup("tr", *heads)), markup("tbody", *lines))
        self._table.props["innerHTML"] = str(table)

    def _nothing(self) -> str:
        if self._run.state in ACTIVE and self.bar.query.narrowed() == ResultQuery():
            return "Nothing is scored yet. Results appear here as they come in."
        return "No matching results. Clear the filters to see all of them."

    def _row(self, row: ResultRow, titles: Mapping[str, str]) -> Markup:
        cells = [_question(row, f"{root_path()}/runs/{self._run.run_id}{self._query(row.position)}"), _answer(row)]
        for name, title in titles.items():
            shown = chip(row.cells[name]) if name in row.cells else ()
            cells.append(markup("td", *shown, cls="chip-of", **{"data-label": title}))
        position = str(row.position)
        if self._can_run_again:
            label, is_on = f"Tick {case_title(row.question, row.case_id)}", row.position in self._ticked
            cells.insert(0, markup("td", tick_markup(position, label, is_on=is_on), cls="tick"))
        is_open = "true" if row.position == self._open else "false"
        return markup("tr", *cells, **{"data-position": position, "aria-selected": is_open})

    @property
    def _can_run_again(self) -> bool:
        """Whether some of its cases can be run again; before the end, positions may change."""
        return may("edit") and self._run.request is not None and self._run.state not in ACTIVE

    def _tick_box(self, value: str, is_on: bool) -> None:
        """Tick the row, or the page, of a checkbox."""
        self._tick([position for position in self._here if value in (_PAGE, str(position))], is_on)

    def _tick(self, positions: Collection[int], is_on: bool) -> None:
        (self._ticked.update if is_on else self._ticked.difference_update)(positions)
        self._mark()
        self._offer()

    def _mark(self) -> None:
        """Mark ticked and opened rows in place, so that the focus stays."""
        ticked = [position for position in self._here if position in self._ticked]
        marks = json.dumps([ticked, len(ticked) == len(self._here), self._open])
        self._table.client.run_javascript(f"({_MARKS})({marks})")

    @property
    def _here(self) -> Sequence[int]:
        """The positions on the page."""
        return [row.position for row in self._shown[0]] if self._shown else []

    def _offer(self) -> None:
        """Offer to run the ticked cases again, or else those that match the filter."""
        ticked, matching = len(self._ticked), len(self._order)
        is_filtered = self.bar.query.narrowed() != ResultQuery()
        is_offered = self._can_run_again and bool(ticked or (is_filtered and matching))
        self._bulk.set_visibility(is_offered)
        self._bulk_count.set_text(f"{ticked:,} ticked" if ticked else f"{counted(matching, 'result')} found")
        self._again.clear()
        if not is_offered:
            return
        with self._again:
            if ticked and not self._ticked.issuperset(self._order):
                button(f"Tick all {matching:,}", lambda: self._tick(self._order, is_on=True), kind="quiet")
            if ticked:
                button("Untick", lambda: self._tick(list(self._ticked), is_on=False), kind="quiet")
            button(f"Run these {ticked or matching:,} again", lambda: self._run_again(self._ticked or self._order))

    def _run_again(self, positions: Collection[int]) -> None:
        answers = packed(positions)
        if answers is None:
            tell_fault("These are too many single answers for a new run. Filter more, or run a tag or a sample.")
        else:
            ui.navigate.to(address("/runs/new", {"source": self._run.run_id, "answers": answers}))

    async def _choose(self, position: int) -> None:
        if position in self._order:
            is_new, self._open = self._open is None, position
            self._is_back_to_close = is_new or self._is_back_to_close
            self._note(is_new=is_new)
            await self._show_case(position)

    async def _show_case(self, position: int) -> None:
        is_latest = self._latest_case.begin()
        self._open = position
        self._mark()
        read = partial(get_run_case, self._workspace, self._run.run_id, position, dict(self._thresholds()))
        case = await attempt(read)
        if case is not None and is_latest():
            self._place.classes("is-beside")
            place = self._order.index(position) if position in self._order else None
            self._panel.show(case, place, len(self._order), f"/runs/{self._run.run_id}/cases/{position}")

    async def _step(self, by: int) -> None:
        """Open the next or the previous case of the list, on any page."""
        place = 0 if self._open not in self._order else self._order.index(self._open) + by
        if not 0 <= place < len(self._order):
            return
        page = place // PAGE_SIZE + 1
        if page != self._page:
            self._page = page
            await self._show_page()
        self._open = self._order[place]
        self._note()
        await self._show_case(self._open)

    def _leave(self) -> None:
        """Close the panel like the browser's Back, so that the history has no duplicate address."""
        if self._is_back_to_close:
            ui.navigate.back()
        else:
            self._close()
            self._note()

    def _close(self) -> None:
        self._open = None
        self._mark()
        self._place.classes(remove="is-beside")
        self._panel.hide()


_OPENS = """(event) => {
    const row = event.target.closest("tbody tr"), link = event.target.closest("a");
    if (!row || event.target.closest(".tick")) return;
    if (link && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
    if (link) event.preventDefault();
    emit(Number(row.dataset.position));
}"""
"""A click opens the panel beside the table, except on a checkbox; with Ctrl the link opens a separate page."""
_TICKS = "(event) => emit([event.target.value, event.target.checked])"
_MARKS = """([ticked, isWhole, opened]) => {
    for (const box of document.querySelectorAll(".result-rows .tick-box")) {
        box.checked = box.value === "page" ? isWhole : ticked.includes(Number(box.value));
    }
    for (const row of document.querySelectorAll(".result-rows tbody tr")) {
        const isOpened = opened !== null && Number(row.dataset.position) === opened;
        row.setAttribute("aria-selected", isOpened);
        if (isOpened) row.scrollIntoView({block: "nearest"});
    }
}"""


def _question(row: ResultRow, path: str) -> Markup:
    asked = markup("span", row.question or row.case_id, cls="clamp", dir="auto")
    link = markup("a", asked, cls="nicegui-link question", href=path)
    repeat = [markup("span", f"answer {row.target_repeat + 1}", cls="small muted")] if row.target_repeat else []
    return markup("th", link, *repeat, scope="row")


def _answer(row: ResultRow) -> Markup:
    content = row.answer if row.answer_error is None else f"No answer: {row.answer_error}"
    shown = markup("span", content or "No answer", cls="clamp" if row.answer else "clamp muted", dir="auto")
    return markup("td", shown, cls="answer")


_SIGNS = {True: ("✓", "passed", "pass"), False: ("✗", "failed", "fail"), None: ("", "scored", "")}


def chip(cell: ResultCell) -> Sequence[Markup]:
    """A metric's score, marked as passed or failed by sign and colour, or why there is none."""
    if cell.status == "error" or cell.score is None:
        tone, by = "warn " if cell.status == "error" else "", {"title": "by people"} if cell.is_by_people else {}
        classes = f"badge {tone}chip unscored{' by-people' if by else ''}"
        return [markup("span", cell.status, cls=classes, **by)]
    sign, word, tone = _SIGNS[cell.passed]
    shown = number(cell.score, 2)
    of = f", the mean of {cell.n:,}" if cell.n > 1 else ""
    if cell.is_by_people:
        tone, word = f"{tone} by-people", f"{word} by people"
        of = f"; by the judge: {number(cell.judged, 2)}{of}"
    seen = markup("span", f"{sign} {shown}".strip(), cls=f"chip {tone}", title=f"{word}: {shown}{of}")
    return [seen, markup("span", word, cls="unseen")]


class ResultPanel:
    """One answer in full, beside the table; on a narrow screen a sheet over it."""

    def __init__(
        self, workspace: Workspace, run: str, on_step: Callable[[int], object], on_close: Callable[[], object]
    ) -> None:
        self._workspace, self._run = workspace, run
        with ui.element("aside").classes("side-panel").props('aria-label="Case"') as self._panel:
            with ui.element("div").classes("panel-bar"):
                self._place = text("", "span", "muted small").props("aria-live=polite")
                self._whole = ui.link("Open as a page", "").classes("small")
                for label, key, icon, act in (
                    ("Previous case (k)", "k", "keyboard_arrow_up", lambda: on_step(-1)),
                    ("Next case (j)", "j", "keyboard_arrow_down", lambda: on_step(1)),
                    ("Close (Escape)", "Escape", "close", on_close),
                ):
                    icon_button(icon, label, act).props["data-key"] = key
            self._content = ui.element("div").classes("panel-content").props("tabindex=-1")
        self._panel.set_visibility(False)

    def show(self, case: RunCase, place: int | None, of: int, path: str) -> None:
        """Show a case, the `place`-th of the list from 0; None if it does not match the filter."""
        self._place.set_text("Not in this filter" if place is None else f"{place + 1:,} of {of:,}")
        self._whole.props["href"] = path
        self._content.clear()
        with self._content:
            text(heading := case_title(case.question, case.case_id), "h2", "" if heading == case.question else "unseen")
            case_content(self._workspace, self._run, case)
        self._panel.set_visibility(True)
        self._content.run_method("scrollTo", 0, 0)

    def hide(self) -> None:
        """Close the panel."""
        self._panel.set_visibility(False)
        self._content.clear()

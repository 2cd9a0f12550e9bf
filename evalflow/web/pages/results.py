"""The results of a run: a table with a row for each answer, and a panel that shows one in full."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.app.studio.run_cases import RunCase, get_run_case
from evalflow.app.studio.runs import Run
from evalflow.app.studio.scores import ResultCell, ResultRow, order_results, read_results
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.report.wording import number
from evalflow.web.pages.results_filter import FilterBar, ResultQuery, Tags
from evalflow.web.pages.run_case import case_content, case_heading
from evalflow.web.pages.runs import ACTIVE, metrics_of
from evalflow.web.ui.markup import filled, markup
from evalflow.web.ui.parts import Latest, address, button, counted, tell_fault, text
from evalflow.web.ui.ticks import packed, tick_box
from evalflow.web.ui.visitor import may, root_path

PAGE_SIZE = 25
_WORST = "Worst first: most failed scores, then most errors, then the lowest mean of the scores from 0 to 1."


class ResultTable:
    """A page of results with the fields that filter and order them, and the panel.

    `thresholds` gives those to use for passing.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        query: ResultQuery,
        tags: Tags,
        thresholds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._workspace, self._run, self._thresholds = workspace, run, thresholds
        self._page, self._open = query.page_number, query.position
        self._order: Sequence[int] = ()
        self._shown: tuple[list[ResultRow], str] | None = None
        self._rows: dict[int, ui.element] = {}
        self._ticked: set[int] = set()
        self._boxes: dict[int, ui.element] = {}
        self._page_box: ui.element | None = None
        self._latest, self._latest_case = Latest(), Latest()
        with ui.element("div").classes("results") as self._place:
            self.bar = FilterBar(query, metrics_of(run), tags, self._filtered)
            with ui.element("div").classes("above"):
                self._count = text("", "span", "muted small").props("aria-live=polite")
            self._table = ui.element("div").classes("result-rows")
            with ui.element("div").classes("bulk").props('role=region aria-label="Run again"') as self._bulk:
                self._bulk_count = text("").props("role=status")
                self._again = ui.element("div").classes("actions")
            with ui.element("nav").classes("actions page-nav").props('aria-label="Pages of results"'):
                self._before = button("Previous", lambda: self._turn(-1))
                self._after = button("Next", lambda: self._turn(1))
        self._panel = ResultPanel(workspace, run.run_id, self._step, self._close)

    @property
    def positions(self) -> Sequence[int]:
        """The positions of all answers that the filter leaves, in order."""
        return self._order

    def follow(self, run: Run, tags: Tags) -> None:
        """Update to the run's new state; `load` shows the rows."""
        self._run = run
        self.bar.offer(metrics_of(run), tags)

    async def load(self) -> None:
        """Read the order and show the page. If another page was requested meanwhile, only that one is shown."""
        is_latest = self._latest.begin()
        query, thresholds = self.bar.query, dict(self._thresholds())
        read = partial(order_results, self._workspace, self._run.run_id, query.filter(), query.order, thresholds)
        try:
            order = await to_thread.run_sync(read)
        except EvalflowError as error:
            tell_fault(str(error))
            return
        if is_latest():
            self._order = order
            await self._show_page()

    async def open_case(self) -> None:
        """Open the case that the address names."""
        if self._open is not None:
            await self._show_case(self._open)

    async def _filtered(self) -> None:
        self._page = 1
        self._note()
        await self.load()

    async def _turn(self, by: int) -> None:
        self._page += by
        self._note()
        await self._show_page()

    def _note(self) -> None:
        """Write what is shown into the address."""
        ui.navigate.history.replace(f"/runs/{self._run.run_id}{self._query()}")

    def _query(self, case: int | None = None) -> ResultQuery:
        opened = self._open if case is None else case
        page = str(self._page) if self._page > 1 else ""
        return replace(self.bar.query, page=page, case="" if opened is None else str(opened))

    async def _show_page(self) -> None:
        last = max(1, -(-len(self._order) // PAGE_SIZE))
        self._page = min(max(1, self._page), last)
        start = PAGE_SIZE * (self._page - 1)
        here = self._order[start : start + PAGE_SIZE]
        read = partial(read_results, self._workspace, self._run.run_id, here, dict(self._thresholds()))
        rows = await to_thread.run_sync(read)
        of = f", page {self._page:,} of {last:,}" if last > 1 else ""
        hint = f" {_WORST}" if self.bar.query.order == "worst" and rows else ""
        self._count.set_text(f"{counted(len(self._order), 'result')}{of}.{hint}")
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(self._page < last)
        query = str(replace(self._query(), case=""))
        if self._shown != (rows, query):
            self._shown = rows, query
            self._build(rows)
        self._offer()

    def _build(self, rows: Sequence[ResultRow]) -> None:
        self._table.clear()
        self._rows, self._boxes, self._page_box = {}, {}, None
        with self._table:
            if not rows:
                text(self._nothing(), "p", "muted card")
                return
            names = list(dict.fromkeys([*metrics_of(self._run), *(name for row in rows for name in row.cells)]))
            with ui.element("table"):
                with ui.element("thead"), ui.element("tr"):
                    if self._can_run_again:
                        with ui.element("th").classes("tick"):
                            here = [row.position for row in rows]
                            is_whole = self._ticked.issuperset(here)
                            self._page_box = tick_box("Tick this page", is_whole, partial(self._tick, here))
                    text("Question", "th").props("scope=col")
                    text("Answer", "th", "answer").props("scope=col")
                    for name in names:
                        text(name, "th", "chip-of").props("scope=col").props["title"] = name
                with ui.element("tbody"):
                    for row in rows:
                        self._rows[row.position] = self._row(row, names)

    def _nothing(self) -> str:
        if self._run.state in ACTIVE and self.bar.query.narrowed() == ResultQuery():
            return "Nothing is scored yet. Results appear here as they come in."
        return "No matching results. Clear the filters to see all of them."

    def _row(self, row: ResultRow, names: Sequence[str]) -> ui.element:
        opened = partial(self._choose, row.position)
        with ui.element("tr").on("click", opened, args=[], js_handler=_OPENS) as made:
            if row.position == self._open:
                made.props('aria-selected="true"')
            if self._can_run_again:
                with ui.element("td").classes("tick"):
                    label = f"Tick {row.question or row.case_id}"
                    is_on, ticked = row.position in self._ticked, partial(self._tick, [row.position])
                    self._boxes[row.position] = tick_box(label, is_on, ticked)
            _question(row, f"{root_path()}/runs/{self._run.run_id}{self._query(row.position)}")
            _answer(row)
            for name in names:
                shown = chip(row.cells[name]) if name in row.cells else ()
                filled("td", *shown, classes="chip-of").props["data-label"] = name
        return made

    @property
    def _can_run_again(self) -> bool:
        """Whether some of its cases can be run again; before the end, positions may change."""
        return may("edit") and self._run.request is not None and self._run.state not in ACTIVE

    def _tick(self, positions: Collection[int], is_on: bool) -> None:
        (self._ticked.update if is_on else self._ticked.difference_update)(positions)
        for position, box in self._boxes.items():
            box.props["checked"] = position in self._ticked
        if self._page_box is not None:
            self._page_box.props["checked"] = self._ticked.issuperset(self._boxes)
        self._offer()

    def _offer(self) -> None:
        """Offer to run again what is ticked, or else what the filter leaves."""
        ticked, found = len(self._ticked), len(self._order)
        is_filtered = self.bar.query.narrowed() != ResultQuery()
        is_offered = self._can_run_again and bool(ticked or (is_filtered and found))
        self._bulk.set_visibility(is_offered)
        self._bulk_count.set_text(f"{ticked:,} ticked" if ticked else f"{counted(found, 'result')} found")
        self._again.clear()
        if not is_offered:
            return
        with self._again:
            if ticked and not self._ticked.issuperset(self._order):
                button(f"Tick all {found:,}", lambda: self._tick(self._order, is_on=True), kind="quiet")
            if ticked:
                button("Untick", lambda: self._tick(list(self._ticked), is_on=False), kind="quiet")
            button(f"Run these {ticked or found:,} again", lambda: self._run_again(self._ticked or self._order))

    def _run_again(self, positions: Collection[int]) -> None:
        answers = packed(positions)
        if answers is None:
            tell_fault("These are too many single answers for a new run. Filter more, or run a tag or a sample.")
        else:
            ui.navigate.to(address("/runs/new", {"source": self._run.run_id, "answers": answers}))

    async def _choose(self, position: int) -> None:
        await self._show_case(position)

    async def _show_case(self, position: int) -> None:
        is_latest = self._latest_case.begin()
        before, self._open = self._open, position
        self._note()
        for place, selected in ((before, "false"), (position, "true")):
            if place in self._rows:
                self._rows[place].props(f'aria-selected="{selected}"')
        read = partial(get_run_case, self._workspace, self._run.run_id, position, dict(self._thresholds()))
        try:
            case = await to_thread.run_sync(read)
        except EvalflowError as error:
            tell_fault(str(error))
            return
        if is_latest():
            self._place.classes("is-beside")
            place = self._order.index(position) if position in self._order else None
            self._panel.show(case, place, len(self._order), f"/runs/{self._run.run_id}/cases/{position}")

    async def _step(self, by: int) -> None:
        """Open the next or the previous case of the list, on whatever page it is."""
        place = 0 if self._open not in self._order else self._order.index(self._open) + by
        if not 0 <= place < len(self._order):
            return
        page = place // PAGE_SIZE + 1
        if page != self._page:
            self._page = page
            await self._show_page()
        await self._show_case(self._order[place])

    def _close(self) -> None:
        before, self._open = self._open, None
        if before in self._rows:
            self._rows[before].props('aria-selected="false"')
        self._place.classes(remove="is-beside")
        self._panel.hide()
        self._note()


_OPENS = """(event) => {
    if (event.target.closest(".tick")) return;
    const link = event.target.closest("a");
    if (link && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
    if (link) event.preventDefault();
    emit();
}"""
"""A click opens the panel beside the table, but not at the tick; with Ctrl the link opens a page of its own."""


def _question(row: ResultRow, path: str) -> None:
    asked = markup("span", row.question or row.case_id, cls="clamp", dir="auto")
    link = markup("a", asked, cls="nicegui-link question", href=path)
    repeat = [markup("span", f"answer {row.target_repeat + 1}", cls="small muted")] if row.target_repeat else []
    filled("th", link, *repeat).props("scope=row")


def _answer(row: ResultRow) -> None:
    said = row.answer if row.answer_error is None else f"No answer: {row.answer_error}"
    shown = markup("span", said or "No answer", cls="clamp" if row.answer else "clamp muted", dir="auto")
    filled("td", shown, classes="answer")


_SIGNS = {True: ("✓", "passed", "pass"), False: ("✗", "failed", "fail"), None: ("", "scored", "")}


def chip(cell: ResultCell) -> Sequence[Markup]:
    """A metric's score with whether it passed, by sign and colour, or why there is none."""
    if cell.status == "error" or cell.score is None:
        return [markup("span", cell.status, cls=f"badge {'warn ' if cell.status == 'error' else ''}chip unscored")]
    sign, word, tone = _SIGNS[cell.passed]
    shown = number(cell.score, 2)
    of = f", the mean of {cell.n:,}" if cell.n > 1 else ""
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
                    made = button("", act, kind="quiet", icon=icon)
                    made.props["aria-label"] = made.props["title"] = label
                    made.props["data-key"] = key
            self._content = ui.element("div").classes("panel-content").props("tabindex=-1")
        self._panel.set_visibility(False)

    def show(self, case: RunCase, place: int | None, of: int, path: str) -> None:
        """Show a case: the `place`-th of the list, from 0; None if the filter leaves it out."""
        self._place.set_text("Not in this filter" if place is None else f"{place + 1:,} of {of:,}")
        self._whole.props["href"] = path
        self._content.clear()
        with self._content:
            text(case_heading(case), "h2").props("dir=auto")
            case_content(self._workspace, self._run, case)
        self._panel.set_visibility(True)
        self._content.run_method("scrollTo", 0, 0)

    def hide(self) -> None:
        """Close the panel."""
        self._panel.set_visibility(False)
        self._content.clear()

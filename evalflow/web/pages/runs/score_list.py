"""The scores of a run, some at a time: filtered, in order, and with the judge's steps where they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Score, ScorePage
from evalflow.app.workspace.scores import count_scores, get_score, list_scores
from evalflow.errors import EvalflowError
from evalflow.web.pages.faults import tell_fault
from evalflow.web.pages.parts import badge, button, text
from evalflow.web.pages.runs.prompts import Prompts
from evalflow.web.pages.runs.score_filter import FilterBar, Wanted
from evalflow.web.pages.runs.score_parts import details, steps, verdict, why
from evalflow.web.pages.runs.words import ACTIVE, metrics_of

AT_ONCE = 25


class ScoreList:
    """A page of scores with the fields that choose them.

    Args:
        workspace: The door to what is stored.
        run: Whose scores.
        wanted: What the fields say at first.
        tags: What there is to choose from.
        thresholds: Gives those that passing is told by, where they are others than the run's.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        wanted: Wanted,
        tags: Sequence[tuple[str, int]],
        thresholds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._workspace, self._run, self._thresholds = workspace, run, thresholds
        self._cursors: list[str | None] = [None]
        """Where each page begins, as far as that is known."""
        self._page = wanted.number
        self._asked = 0
        self._rows_of: dict[str, tuple[Score, str, ui.element]] = {}
        self.bar = FilterBar(wanted, metrics_of(run), tags, self._choose)
        with ui.element("div").classes("above"):
            self._count = text("", "span", "muted small").props("aria-live=polite")
            self._verbose = ui.switch("Show the judge's steps and prompts", on_change=self._again).props("dense")
        self._rows = ui.element("ul").classes("scores")
        with ui.element("nav").classes("actions page-nav").props('aria-label="Pages of scores"'):
            self._before = button("Previous", self._back)
            self._after = button("Next", self._on)
        self._next: str | None = None

    def follow(self, run: Run, tags: Sequence[tuple[str, int]]) -> None:
        """Go on with the run as it is now; the rows follow with `load`."""
        self._run = run
        self.bar.offer(metrics_of(run), tags)

    async def load(self) -> None:
        """Show what is asked for, and then how many there are; what was asked for in the meantime wins.

        Rows that are there already stay as they are. While the run goes on, their number is not told.
        """
        self._asked += 1
        asked, wanted = self._asked, self.bar.wanted
        try:
            found = await to_thread.run_sync(self._read, wanted)
        except EvalflowError as error:
            tell_fault(str(error))
            return
        if asked != self._asked:
            return
        self._show(found)
        if self._page == 1 or not self._count.text:
            self._count.set_text("")
            if self._run.state in ACTIVE:
                return
            number = await to_thread.run_sync(self._number, wanted)
            if asked == self._asked:
                self._count.set_text(f"{number:,} score{'' if number == 1 else 's'}")

    async def rejudge(self) -> None:
        """Show them anew after a threshold has moved."""
        if self.bar.wanted.status in ("passed", "failed"):
            self._restart()
        await self.load()

    @property
    def _query(self) -> str:
        """The address of what is shown, after the run's."""
        return replace(self.bar.wanted, page=str(self._page) if self._page > 1 else "").query

    def _read(self, wanted: Wanted) -> ScorePage:
        others, cursors = self._thresholds(), self._cursors

        def read(cursor: str | None) -> ScorePage:
            of, order = wanted.filter(), wanted.sort or "input"
            return list_scores(self._workspace, self._run.run_id, of, cursor, AT_ONCE, sort=order, thresholds=others)

        page = read(cursors[min(self._page, len(cursors)) - 1])
        while len(cursors) < self._page and page.next is not None:
            cursors.append(page.next)
            page = read(page.next)
        self._page = min(self._page, len(cursors))
        if not self._verbose.value:
            return page
        whole = [get_score(self._workspace, self._run.run_id, one.id, others) for one in page.items]
        return ScorePage(whole, page.next)

    def _number(self, wanted: Wanted) -> int:
        return count_scores(self._workspace, self._run.run_id, wanted.filter(), self._thresholds())

    async def _choose(self, wanted: Wanted) -> None:
        self._restart()
        await self._turn(1)

    def _restart(self) -> None:
        """Begin with the first page of another list."""
        self._cursors = [None]
        self._page = 1
        self._count.set_text("")

    async def _again(self) -> None:
        await self.load()

    async def _on(self) -> None:
        if self._next is not None:
            await self._turn(self._page + 1)

    async def _back(self) -> None:
        if self._page > 1:
            await self._turn(self._page - 1)

    async def _turn(self, page: int) -> None:
        self._page = page
        ui.navigate.history.replace(f"/runs/{self._run.run_id}{self._query}")
        await self.load()

    def _show(self, found: ScorePage) -> None:
        self._next = found.next
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(found.next is not None)
        before, self._rows_of, query = self._rows_of, {}, self._query
        for score in found.items:
            known = before.get(score.id)
            if known is not None and known[:2] == (score, query):
                self._rows_of[score.id] = before.pop(score.id)
            else:
                with self._rows:
                    row = _row(self._workspace, self._run.run_id, score, query)
                    self._rows_of[score.id] = (score, query, row)
        self._order([row for *_, row in self._rows_of.values()])

    def _order(self, rows: list[ui.element]) -> None:
        """Have these rows and no others in the list, or else a word on why there is none."""
        if not rows:
            with self._rows:
                rows = [text(self._nothing(), "li", "muted none")]
        for other in [one for one in self._rows if one not in rows]:
            other.delete()
        for place, row in enumerate(rows):
            if self._rows.default_slot.children[place] is not row:
                row.move(target_index=place)

    def _nothing(self) -> str:
        if self._run.state in ACTIVE and not self.bar.wanted.query:
            return "Nothing is scored yet. Each score comes here as soon as it is there."
        return "No matching scores. Clear the fields above to see all of them."


def _row(workspace: Workspace, run: str, score: Score, query: str) -> ui.element:
    with ui.element("li") as row:
        verdict(score)
        with ui.element("div").classes("about"):
            with ui.element("div").classes("of"), ui.link(target=f"/runs/{run}/cases/{score.position}{query}"):
                text(score.question or score.case_id, "span", "clamp question")
            with ui.element("div").classes("actions small muted"):
                text(score.metric, "span")
                text(score.case_id, "span", "line")
                for tag in score.tags:
                    badge(tag)
            if said := why(score):
                text(said, "p", "text reason" if score.steps is not None else "text reason clamp")
            if score.steps is not None:
                details(score)
                steps(score.steps)
                if score.judge:
                    Prompts(workspace, run, score)
    return row

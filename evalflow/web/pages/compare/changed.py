"""The cases that differ between two runs: chosen by how they changed, the worst first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.app.comparison.changes import SORTS, Change, Changes, Sort
from evalflow.app.workspace import Workspace
from evalflow.app.workspace.comparing import changed_cases
from evalflow.app.workspace.run_types import Run
from evalflow.errors import EvalflowError
from evalflow.report.comparison import Comparison
from evalflow.report.wording import number, signed
from evalflow.web.pages.compare.both import Both
from evalflow.web.pages.parts import Tone, button, message, section, text

AT_ONCE = 20
_ABOUT = "A line for each case, by the metric in which it changed most; open it to read both answers and both reasons."
_NAMES: dict[Sort, str] = {
    "all": "All that differ",
    "flipped": "Flipped",
    "worse": "Worse",
    "better": "Better",
    "lost": "Scored by one alone",
    "answer": "Other answer",
}
_NONE: dict[Sort, str] = {
    "all": "No case differs",
    "flipped": "No case flipped between pass and fail",
    "worse": "No case scored worse",
    "better": "No case scored better",
    "lost": "No case was scored by one run alone",
    "answer": "No answer differs",
}


def changed(workspace: Workspace, found: Comparison, runs: tuple[Run, Run]) -> None:
    """How many cases changed, and which; they are looked up after the rest is there."""
    [told] = found.flips
    with section("Cases that changed", _ABOUT):
        said = f"{told.worsened:,} went from pass to fail, {told.improved:,} from fail to pass."
        text(said, "p", "verdict-in-words")
        place = ui.element("div").props("aria-busy=true")
        with place:
            text("Looking at each case …", "p", "muted waiting-for-cases")

    async def fill() -> None:
        try:
            changes = await to_thread.run_sync(changed_cases, workspace, runs[0].run_id, runs[1].run_id)
            page = await to_thread.run_sync(changes.page, "all", 0, AT_ONCE)
        except EvalflowError as error:
            place.clear()
            with place:
                message("The cases cannot be told apart.", str(error), "fail")
            return
        place.clear()
        place.props(remove="aria-busy")
        with place:
            _Changed(workspace, changes, page, runs)

    ui.timer(0, fill, once=True)


class _Changed:
    """The choice of how they changed, and a page of those."""

    def __init__(self, workspace: Workspace, changes: Changes, page: Sequence[Change], runs: tuple[Run, Run]) -> None:
        self._workspace, self._changes, self._runs = workspace, changes, runs
        self._sort: Sort = "all"
        self._offset = 0
        self._choices: dict[Sort, ui.element] = {}
        with ui.element("div").classes("choose").props("role=group aria-label='How they changed'"):
            for sort in SORTS:
                self._choice(sort)
        self._place = ui.element("div").props("aria-live=polite")
        with ui.element("nav").classes("pager").props('aria-label="Pages of cases"') as self._pager:
            self._where = text("", "span", "small muted")
            with ui.element("div").classes("actions"):
                self._before = button("Previous", partial(self._turn, -AT_ONCE))
                self._after = button("Next", partial(self._turn, AT_ONCE))
        self._show(page)

    def _choice(self, sort: Sort) -> None:
        n = self._changes.counts[sort]
        made = ui.element("button").props("type=button").classes("count" if n else "count nothing")
        with made:
            text(f"{_NAMES[sort]} {n:,}", "span")
        made.on("click", partial(self._choose, sort), args=[])
        self._choices[sort] = made

    async def _choose(self, sort: Sort) -> None:
        self._sort, self._offset = sort, 0
        await self._load()

    async def _turn(self, by: int) -> None:
        self._offset += by
        await self._load()

    async def _load(self) -> None:
        asked = self._sort, self._offset
        page = await to_thread.run_sync(self._changes.page, *asked, AT_ONCE)
        if asked == (self._sort, self._offset):
            self._show(page)

    def _show(self, page: Sequence[Change]) -> None:
        total = self._changes.counts[self._sort]
        for sort, made in self._choices.items():
            made.props["aria-pressed"] = "true" if sort == self._sort else "false"
        self._place.clear()
        with self._place:
            if not page:
                message(f"{_NONE[self._sort]}{_instead(self._changes)}")
            else:
                with ui.element("ul").classes("flips"):
                    for change in page:
                        with ui.element("li"):
                            Both(self._workspace, change, self._runs, _became(change))
        self._where.set_text(f"{self._offset + 1:,} to {self._offset + len(page):,} of {total:,}")
        self._pager.set_visibility(total > AT_ONCE)
        self._before.set_enabled(self._offset > 0)
        self._after.set_enabled(self._offset + AT_ONCE < total)


def _instead(changes: Changes) -> str:
    """What the other choices would show."""
    counts = changes.counts
    if not counts["all"]:
        return f": the {changes.common:,} cases of both runs have the same answers and scores."
    scored, said = counts["worse"] + counts["better"], counts["answer"]
    parts = [f"{scored:,} scored differently"] if scored else []
    parts += [f"{counts['lost']:,} scored by one run alone"] if counts["lost"] else []
    parts += [f"{said:,} answered differently"] if said else []
    return f"; {', '.join(parts)}."


def _became(change: Change) -> tuple[str, Tone, str]:
    """What became of it in a word or two, and in numbers."""
    scores = f"{number(change.score_a, 2)} → {number(change.score_b, 2)}"
    before, after = change.passed_a, change.passed_b
    if change.change is None:
        if change.score_a is None and change.score_b is None:
            return "other answer", "", "not scored"
        one = "A" if change.score_b is None else "B"
        return f"only {one} scored", "warn", scores
    if before is not None and after is not None and before != after:
        return ("pass → fail", "fail", scores) if before else ("fail → pass", "pass", scores)
    if not change.change:
        return "other answer", "", f"{number(change.score_b, 2)} in both"
    return signed(change.change), "fail" if change.change < 0 else "pass", scores

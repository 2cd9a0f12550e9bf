"""The cases that differ between two runs: a list with filter and pages in the address, and one open case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.run_case import contexts_of
from evalflow.addons.studio.web.pages.runs import name_of
from evalflow.addons.studio.web.ui.parts import (
    AddressQuery,
    Latest,
    Tone,
    after_paint,
    badge,
    button,
    fill,
    in_sentences,
    message,
    plain_button,
    section,
    text,
)
from evalflow.addons.studio.web.ui.reading import AnswerShown, ContextsShown, Reading, show_reading
from evalflow.addons.studio.web.ui.score_lines import show_both
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work import comparing
from evalflow.addons.studio.work.run_cases import RunCase, get_run_cases
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import Score
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import EvalflowError
from evalflow.report.comparison import became, by_labels_in_words
from evalflow.report.wording import number
from evalflow.summary.case_changes import SORTS, CaseChange, CaseChanges, MetricChange, Sort

PAGE_SIZE = 20
_ABOUT = "The worst first, each by its worst drop, else its largest rise. Press j and k to read one after the other."
_NAMES: dict[Sort, str] = {
    "all": "All that differ",
    "flipped": "Flipped",
    "worse": "Worse",
    "better": "Better",
    "lost": "Scored in one run only",
    "answer": "Answer changed",
}
_NONE: dict[Sort, str] = {
    "all": "No case differs",
    "flipped": "No case flipped between pass and fail",
    "worse": "No case scored worse",
    "better": "No case scored better",
    "lost": "No case was scored in one run only",
    "answer": "No answer differs",
}


@dataclass(frozen=True, slots=True)
class ChangeQuery(AddressQuery):
    """The state of the list, as in the address's query: the filter, the page (from 1), and the open case."""

    show: str = ""
    dataset: str = ""
    case: str = ""

    @property
    def sort(self) -> Sort:
        """The filter; "all" if it is unknown."""
        return self.show if self.show in SORTS else "all"

    @property
    def first(self) -> int:
        """The place of the page's first case, from 0."""
        return PAGE_SIZE * (self.page_number - 1)


def changed_cases(
    workspace: Workspace, runs: tuple[Run, Run], query: ChangeQuery, path_of: Callable[[ChangeQuery], str]
) -> None:
    """The cases that changed; loaded after the rest of the page. `path_of` gives the address of what is shown."""
    with section("Cases that changed", _ABOUT):
        place = ui.element("div")

    def read_first() -> CaseChanges:
        return comparing.changed_cases(workspace, runs[0].run_id, runs[1].run_id)

    async def read() -> CaseChanges:
        return await to_thread.run_sync(read_first)

    async def load() -> None:
        change_lists: list[ChangeList] = []
        title = "The changed cases cannot be shown."
        await fill(
            place,
            "Loading the cases …",
            read,
            lambda changes: change_lists.append(ChangeList(workspace, changes, runs, path_of)),
            title,
        )
        for cases in change_lists:
            await cases.begin(query)

    after_paint(load)


class ChangeList:
    """The list: one case is open at a time."""

    def __init__(
        self, workspace: Workspace, changes: CaseChanges, runs: tuple[Run, Run], path_of: Callable[[ChangeQuery], str]
    ) -> None:
        self._workspace, self._changes, self._runs, self._path_of = workspace, changes, runs, path_of
        self._sort: Sort = "all"
        self._first = 0
        self._page: Sequence[CaseChange] = ()
        self._open: int | None = None
        self._latest, self._latest_case = Latest(), Latest()
        self._choices: dict[Sort, ui.element] = {}
        self._rows: list[tuple[ui.element, ui.element]] = []
        with ui.element("div").classes("choose").props("role=group aria-label='How they changed'"):
            for sort in SORTS:
                n = changes.counts[sort]
                label, classes = f"{_NAMES[sort]} {n:,}", "count" if n else "count nothing"
                self._choices[sort] = plain_button(label, partial(self._load, sort, 0), classes)
        self._place = ui.element("div").props("aria-live=polite")
        with ui.element("nav").classes("pager").props('aria-label="Pages of cases"') as self._pager:
            self._where = text("", "span", "small muted")
            with ui.element("div").classes("actions"):
                self._before = button("Previous", lambda: self._load(self._sort, self._first - PAGE_SIZE))
                self._after = button("Next", lambda: self._load(self._sort, self._first + PAGE_SIZE))
        with ui.element("div").classes("unseen"):
            for label, key, by in (("Next case", "j", 1), ("Previous case", "k", -1)):
                plain_button(label, partial(self._step, by)).props(f"data-key={key} tabindex=-1")

    async def begin(self, query: ChangeQuery) -> None:
        """Show the list as in the address."""
        last = max(0, self._changes.counts[query.sort] - 1) // PAGE_SIZE * PAGE_SIZE
        await self._read(query.sort, min(query.first, last))
        for i, change in enumerate(self._page):
            if (change.dataset, change.case_id) == (query.dataset, query.case):
                await self._show_case(i)

    async def _load(self, sort: Sort, first: int) -> None:
        await self._read(sort, first)
        self._note()

    async def _read(self, sort: Sort, first: int) -> None:
        self._sort, self._first = sort, first
        is_latest = self._latest.begin()
        page = await to_thread.run_sync(self._changes.page, sort, first, PAGE_SIZE)
        if is_latest():
            self._show(page)

    def _note(self) -> None:
        """Write the list's state into the address."""
        change = None if self._open is None else self._page[self._open]
        page = self._first // PAGE_SIZE + 1
        shown = ChangeQuery(
            page=str(page) if page > 1 else "",
            show="" if self._sort == "all" else self._sort,
            dataset=change.dataset if change else "",
            case=change.case_id if change else "",
        )
        ui.navigate.history.replace(self._path_of(shown))

    def _show(self, page: Sequence[CaseChange]) -> None:
        total = self._changes.counts[self._sort]
        self._page, self._open, self._rows = page, None, []
        for sort, choice in self._choices.items():
            choice.props["aria-pressed"] = "true" if sort == self._sort else "false"
        self._place.clear()
        with self._place:
            if not page:
                message(f"{_NONE[self._sort]}{_instead(self._changes)}")
            else:
                with ui.element("ul").classes("flips"):
                    for i, change in enumerate(page):
                        self._rows.append(self._row(i, change))
        self._where.set_text(f"{self._first + 1:,} to {self._first + len(page):,} of {total:,}")
        self._pager.set_visibility(total > PAGE_SIZE)
        self._before.set_enabled(self._first > 0)
        self._after.set_enabled(self._first + PAGE_SIZE < total)

    def _row(self, i: int, change: CaseChange) -> tuple[ui.element, ui.element]:
        label, tone, figures = _became(change)
        with ui.element("li").classes("flip"):
            head = ui.element("button").props("type=button aria-expanded=false")
            head.on("click", partial(self._pick, i), args=[])
            with head:
                badge(label, tone)
                text(case_title(change.question, change.case_id), "span", "line question")
                text(title_of("metric", change.metric, self._runs[1].bot), "span", "small muted line")
                text(figures, "span", "num")
                if change.others:
                    with ui.element("span").classes("chips"):
                        for other in change.others:
                            other_label, other_tone, _ = _became(other)
                            badge(f"{title_of('metric', other.metric, self._runs[1].bot)} {other_label}", other_tone)
            return head, ui.element("div").classes("stack")

    async def _pick(self, i: int) -> None:
        if self._open == i:
            self._close()
            self._note()
        else:
            await self._show_case(i)

    def _close(self) -> None:
        if self._open is not None:
            head, place = self._rows[self._open]
            head.props["aria-expanded"] = "false"
            place.clear()
        self._open = None

    async def _step(self, by: int) -> None:
        """Open the next or the previous case of the filter, on any page."""
        at = self._first if self._open is None else self._first + self._open + by
        if not 0 <= at < self._changes.counts[self._sort]:
            return
        first = at // PAGE_SIZE * PAGE_SIZE
        if first != self._first:
            await self._read(self._sort, first)
        await self._show_case(at - first)

    async def _show_case(self, i: int) -> None:
        is_latest = self._latest_case.begin()
        self._close()
        self._open = i
        self._note()
        head, place = self._rows[i]
        head.props["aria-expanded"] = "true"
        change, runs = self._page[i], self._runs
        try:
            sides = await to_thread.run_sync(_sides_of, self._workspace, change, runs)
        except EvalflowError as error:
            with place:
                message("The answers cannot be shown.", in_sentences(error), "fail")
            return
        if is_latest():
            place.clear()
            with place:
                _side_by_side(change, runs, sides)
            find = f"const row = getHtmlElement({head.id})"
            ui.run_javascript(f"{find}; row.focus({{preventScroll: true}}); row.scrollIntoView({{block: 'start'}})")


@dataclass(frozen=True, slots=True)
class _Side:
    """A run's scores of a case, and the case with each answer, by repeat."""

    scores: Sequence[Score]
    answered: Mapping[int, RunCase]


def _sides_of(workspace: Workspace, change: CaseChange, runs: tuple[Run, Run]) -> Sequence[_Side]:
    """Both runs' scores and answers of a case."""
    return [_side_of(workspace, change, run) for run in runs]


def _side_of(workspace: Workspace, change: CaseChange, run: Run) -> _Side:
    repeats = get_run_cases(workspace, run.run_id, change.dataset, change.case_id)
    return _Side([score for one in repeats for score in one.scores], {one.target_repeat: one for one in repeats})


def _instead(changes: CaseChanges) -> str:
    counts = changes.counts
    if not counts["all"]:
        return f": the {changes.common:,} cases of both runs have the same answers and scores."
    scored, answered = counts["worse"] + counts["better"], counts["answer"]
    parts = [f"{scored:,} scored differently"] if scored else []
    parts += [f"{counts['lost']:,} scored in one run only"] if counts["lost"] else []
    parts += [f"{answered:,} answered differently"] if answered else []
    return f"; {', '.join(parts)}."


def _became(change: MetricChange) -> tuple[str, Tone, str]:
    """The change in one or two words, its colour, and both scores."""
    scores = f"{number(change.score_a, 2)} → {number(change.score_b, 2)}{by_labels_in_words(change)}"
    if change.change is None and change.score_a is change.score_b:
        return "answer changed", "", "not scored"
    if change.change is None:
        return became(change), "warn", scores
    if change.passed_a is not None and change.passed_b is not None and change.passed_a != change.passed_b:
        return became(change), "fail" if change.passed_a else "pass", scores
    if not change.change:
        return "answer changed", "", f"{number(change.score_b, 2)} in both"
    return became(change), "fail" if change.change < 0 else "pass", scores


def _side_by_side(change: CaseChange, runs: tuple[Run, Run], sides: Sequence[_Side]) -> None:
    first = next((score for side in sides for score in side.scores), None)
    if first is None:
        message("The scores of this case are not in the database.", "The runs may be only partly imported.")
        return
    with ui.element("div").classes("case-view"):
        with ui.element("div").classes("case-facts"):
            text(f"Test cases: {title_of('dataset', change.dataset)}", "span", "small muted")
            for name, run, side in zip("AB", runs, sides, strict=True):
                with ui.element("span").classes("side"):
                    badge(name, "accent")
                    case = f"/cases/{side.scores[0].position}" if side.scores else ""
                    ui.link(name_of(run), f"/runs/{run.run_id}{case}").classes("small")
        if not change.is_answered_otherwise:
            message("Both runs have the same answer; only the scores differ.")
        for repeat in sorted({score.target_repeat for side in sides for score in side.scores}):
            answers = [_answer_shown(name, repeat, side.scores) for name, side in zip("AB", sides, strict=True)]
            turns, contexts = [("user", first.question)], _contexts_of(repeat, sides)
            show_reading(Reading(turns=turns, answers=answers, reference=first.reference, contexts=contexts))
        show_both(*(side.scores for side in sides))


def _contexts_of(repeat: int, sides: Sequence[_Side]) -> Sequence[ContextsShown]:
    """The passages of both answers; once, with what metrics of both runs quote, if they are the same."""
    contexts = [contexts_of(case) if (case := side.answered.get(repeat)) else None for side in sides]
    known = [replace(one, of=name) for name, one in zip("AB", contexts, strict=True) if one is not None]
    if len(known) < len(sides) or known[0].passages != known[1].passages:
        return known
    a, b = (one.quotes for one in known)
    quotes = {metric: [*a.get(metric, ()), *b.get(metric, ())] for metric in dict.fromkeys([*a, *b])}
    return [ContextsShown(known[0].passages, quotes)]


def _answer_shown(side: str, repeat: int, scores: Sequence[Score]) -> AnswerShown:
    """A run's `repeat`-th answer."""
    title = f"Answer{f' {repeat + 1}' if repeat else ''} of {side}"
    score = next((one for one in scores if one.target_repeat == repeat), None)
    if score is None:
        return AnswerShown(title=title)
    return AnswerShown(title=title, text=score.answer, error=score.answer_error or "")

"""The cases on which two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from anyio import to_thread
from nicegui import ui

from evalflow.app.compare import SORTS, Change, Changes, Sort
from evalflow.app.studio.comparing import changed_cases
from evalflow.app.studio.run_types import Run
from evalflow.app.studio.scores import Score, case_scores
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.report.comparison import Comparison
from evalflow.report.wording import number, signed
from evalflow.web.pages.runs import name_of
from evalflow.web.pages.scores import why
from evalflow.web.ui.parts import Tone, badge, button, message, section, tell_fault, text


class Both:
    """A fold; nothing is looked up before it is opened.

    Args:
        workspace: The door to what is stored.
        change: The case.
        runs: A and B.
        became: A word or two on it, how that is coloured, and its scores.
    """

    def __init__(
        self, workspace: Workspace, change: Change, runs: tuple[Run, Run], became: tuple[str, Tone, str]
    ) -> None:
        self._workspace, self._change, self._runs = workspace, change, runs
        word, tone, scores = became
        with ui.element("details").classes("flip") as details:
            with ui.element("summary"):
                badge(word, tone)
                text(change.question or change.case_id, "span", "line question").props("dir=auto")
                more = f" and {change.others:,} more" if change.others else ""
                text(f"{change.metric}{more}", "span", "small muted line")
                text(scores, "span", "num")
            self._place = ui.element("div").classes("opened")
        details.on("toggle", self._open, args=[])
        self._is_open = False

    async def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        dataset, case = self._change.dataset, self._change.case_id
        try:
            found = [
                await to_thread.run_sync(case_scores, self._workspace, run.run_id, dataset, case) for run in self._runs
            ]
        except EvalflowError as error:
            self._is_open = False
            tell_fault(str(error))
            return
        with self._place:
            _side_by_side(self._change, self._runs, found)


def _side_by_side(change: Change, runs: tuple[Run, Run], found: Sequence[Sequence[Score]]) -> None:
    first = next((score for scores in found for score in scores), None)
    if first is None:
        message("The scores of this case are not in the database.", "The runs may be only partly imported.")
        return
    text(f"Case {change.case_id} of {change.dataset}", "p", "small muted")
    text(first.question, "p", "text asked").props("dir=auto")
    if first.reference:
        text("Expected", "h3")
        text(first.reference, "p", "text muted").props("dir=auto")
    if not change.is_answered_otherwise:
        message("Both runs have the same answer; only the scores differ.")
    with ui.element("div").classes("split"):
        for side, run, scores in zip("AB", runs, found, strict=True):
            with ui.element("div").classes("half"):
                with ui.element("div").classes("side"):
                    badge(side, "accent")
                    ui.link(name_of(run), _address(run, scores))
                for _, own in groupby(scores, lambda score: score.position):
                    _answer(next(own))
    for metric in _metrics(found):
        with ui.element("div").classes("judged"):
            text(metric, "h3")
            with ui.element("div").classes("split"):
                for side, scores in zip("AB", found, strict=True):
                    with ui.element("div").classes("half"):
                        for score in (one for one in scores if one.metric == metric):
                            _score(side, score)


def _metrics(found: Sequence[Sequence[Score]]) -> list[str]:
    """Those that scored differently first, else in the order of the run."""
    said = [
        {name: [(one.status, one.score) for one in scores if one.metric == name] for name in _names(scores)}
        for scores in found
    ]
    return sorted({**said[0], **said[1]}, key=lambda name: said[0].get(name) == said[1].get(name))


def _names(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(score.metric for score in scores))


def _address(run: Run, scores: Sequence[Score]) -> str:
    return f"/runs/{run.run_id}/cases/{scores[0].position}" if scores else f"/runs/{run.run_id}"


def _answer(said: Score) -> None:
    if said.answer_error:
        message("The bot gave no answer", said.answer_error, "fail")
    else:
        text(said.answer or "(nothing)", classes="text said").props("dir=auto tabindex=0 role=region aria-label=Answer")


def _score(side: str, score: Score) -> None:
    with ui.element("div"):
        with ui.element("div").classes("actions"):
            text(side, "span", "small muted which")
            text(number(score.score, 2) if score.status == "scored" else score.status, "span", "num reading")
            if score.passed is not None:
                badge("pass" if score.passed else "fail", "pass" if score.passed else "fail")
            if score.repeat:
                text(f"repeat {score.repeat + 1}", "span", "small muted")
        text(why(score) or "no reason given", "p", "text small muted").props("dir=auto")


AT_ONCE = 20
_ABOUT = "One line per case, with the metric that changed most. Open it to read both answers and reasons."
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


def changed(workspace: Workspace, found: Comparison, runs: tuple[Run, Run]) -> None:
    """How many cases changed, and which; they are looked up after the rest is there."""
    [told] = found.flips
    with section("Cases that changed", _ABOUT):
        said = f"{told.worsened:,} went from pass to fail, {told.improved:,} from fail to pass."
        text(said, "p", "verdict-in-words")
        place = ui.element("div").props("aria-busy=true")
        with place:
            text("Loading the cases …", "p", "muted waiting-for-cases")

    async def fill() -> None:
        try:
            changes = await to_thread.run_sync(changed_cases, workspace, runs[0].run_id, runs[1].run_id)
            page = await to_thread.run_sync(changes.page, "all", 0, AT_ONCE)
        except EvalflowError as error:
            place.clear()
            with place:
                message("The changed cases cannot be shown.", str(error), "fail")
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
    parts += [f"{counts['lost']:,} scored in one run only"] if counts["lost"] else []
    parts += [f"{said:,} answered differently"] if said else []
    return f"; {', '.join(parts)}."


def _became(change: Change) -> tuple[str, Tone, str]:
    """What became of it in a word or two, and in numbers."""
    scores = f"{number(change.score_a, 2)} → {number(change.score_b, 2)}"
    before, after = change.passed_a, change.passed_b
    if change.change is None:
        if change.score_a is None and change.score_b is None:
            return "answer changed", "", "not scored"
        one = "A" if change.score_b is None else "B"
        return f"only {one} scored", "warn", scores
    if before is not None and after is not None and before != after:
        return ("pass → fail", "fail", scores) if before else ("fail → pass", "pass", scores)
    if not change.change:
        return "answer changed", "", f"{number(change.score_b, 2)} in both"
    return signed(change.change), "fail" if change.change < 0 else "pass", scores

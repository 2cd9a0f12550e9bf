"""The cases on which two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from anyio import to_thread
from nicegui import ui

from evalflow.app.compare import SORTS, Change, Changes, Sort
from evalflow.app.studio.comparing import changed_cases
from evalflow.app.studio.runs import Run
from evalflow.app.studio.scores import Score, case_scores
from evalflow.app.studio.space import Workspace
from evalflow.report.comparison import Comparison
from evalflow.report.wording import number, signed
from evalflow.web.pages.runs import name_of
from evalflow.web.ui.parts import Latest, Tone, badge, button, fill, lazy_fold, message, plain_button, section, text
from evalflow.web.ui.score import why

PAGE_SIZE = 20
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
    """How many cases changed, and which; loaded after the rest of the page."""
    [flips] = found.flips
    with section("Cases that changed", _ABOUT):
        about = f"{flips.worsened:,} went from pass to fail, {flips.improved:,} from fail to pass."
        text(about, "p", "verdict-in-words")
        place = ui.element("div")

    def read_first() -> tuple[Changes, Sequence[Change]]:
        changes = changed_cases(workspace, runs[0].run_id, runs[1].run_id)
        return changes, changes.page("all", 0, PAGE_SIZE)

    async def read() -> tuple[Changes, Sequence[Change]]:
        return await to_thread.run_sync(read_first)

    def show(first: tuple[Changes, Sequence[Change]]) -> None:
        _ChangedCases(workspace, *first, runs)

    title = "The changed cases cannot be shown."
    ui.timer(0, lambda: fill(place, "Loading the cases …", read, show, title), once=True)


class _ChangedCases:
    """A choice of the kind of change, and a page of the cases."""

    def __init__(self, workspace: Workspace, changes: Changes, page: Sequence[Change], runs: tuple[Run, Run]) -> None:
        self._workspace, self._changes, self._runs = workspace, changes, runs
        self._sort: Sort = "all"
        self._first = 0
        self._latest = Latest()
        self._choices: dict[Sort, ui.element] = {}
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
        self._show(page)

    async def _load(self, sort: Sort, first: int) -> None:
        self._sort, self._first = sort, first
        is_latest = self._latest.begin()
        page = await to_thread.run_sync(self._changes.page, sort, first, PAGE_SIZE)
        if is_latest():
            self._show(page)

    def _show(self, page: Sequence[Change]) -> None:
        total = self._changes.counts[self._sort]
        for sort, choice in self._choices.items():
            choice.props["aria-pressed"] = "true" if sort == self._sort else "false"
        self._place.clear()
        with self._place:
            if not page:
                message(f"{_NONE[self._sort]}{_instead(self._changes)}")
            else:
                with ui.element("ul").classes("flips"):
                    for change in page:
                        with ui.element("li"):
                            _fold(self._workspace, change, self._runs)
        self._where.set_text(f"{self._first + 1:,} to {self._first + len(page):,} of {total:,}")
        self._pager.set_visibility(total > PAGE_SIZE)
        self._before.set_enabled(self._first > 0)
        self._after.set_enabled(self._first + PAGE_SIZE < total)


def _instead(changes: Changes) -> str:
    """Counts of the other kinds of change, for an empty list."""
    counts = changes.counts
    if not counts["all"]:
        return f": the {changes.common:,} cases of both runs have the same answers and scores."
    scored, answered = counts["worse"] + counts["better"], counts["answer"]
    parts = [f"{scored:,} scored differently"] if scored else []
    parts += [f"{counts['lost']:,} scored in one run only"] if counts["lost"] else []
    parts += [f"{answered:,} answered differently"] if answered else []
    return f"; {', '.join(parts)}."


def _became(change: Change) -> tuple[str, Tone, str]:
    """The change in one or two words, its colour, and both scores."""
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


def _fold(workspace: Workspace, change: Change, runs: tuple[Run, Run]) -> None:
    """A case on one line, which expands to both answers."""

    def scores() -> list[Sequence[Score]]:
        return [case_scores(workspace, run.run_id, change.dataset, change.case_id) for run in runs]

    async def read() -> list[Sequence[Score]]:
        return await to_thread.run_sync(scores)

    async def open_fold(place: ui.element) -> None:
        build = partial(_side_by_side, change, runs)
        await fill(place, "Loading …", read, build, "The answers cannot be shown.")

    label, tone, figures = _became(change)
    with lazy_fold("flip", open_fold):
        badge(label, tone)
        text(change.question or change.case_id, "span", "line question").props("dir=auto")
        more = f" and {change.others:,} more" if change.others else ""
        text(f"{change.metric}{more}", "span", "small muted line")
        text(figures, "span", "num")


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
                    ui.link(name_of(run), f"/runs/{run.run_id}" + (f"/cases/{scores[0].position}" if scores else ""))
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
    """The metrics, those with different scores first, then in the order of the run."""
    by_metric: list[dict[str, list[object]]] = []
    for scores in found:
        by_metric.append({})
        for score in scores:
            by_metric[-1].setdefault(score.metric, []).append((score.status, score.score))
    a, b = by_metric
    return sorted({**a, **b}, key=lambda name: a.get(name) == b.get(name))


def _answer(score: Score) -> None:
    if score.answer_error:
        message("The bot gave no answer", score.answer_error, "fail")
    else:
        text(score.answer or "(nothing)", classes="text said").props(
            "dir=auto tabindex=0 role=region aria-label=Answer"
        )


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

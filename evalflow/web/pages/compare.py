"""Two runs compared, and the cases on which they differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.compare import SORTS, Change, Changes, Sort
from evalflow.app.core.comparison import KINDS, ComparisonOptions, Obstacle
from evalflow.app.studio import comparing
from evalflow.app.studio.runs import Run, get_run
from evalflow.app.studio.scores import Score, case_scores
from evalflow.app.studio.space import Workspace
from evalflow.report.comparison import VERDICTS, Comparison, in_words
from evalflow.report.wording import method, number, p_value, signed
from evalflow.web.pages.runs import name_of, when
from evalflow.web.ui import forms
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    Latest,
    Tone,
    across,
    address,
    badge,
    button,
    cell,
    empty,
    fill,
    lazy_fold,
    link_button,
    message,
    picture,
    plain_button,
    section,
    shape,
    table,
    text,
)
from evalflow.web.ui.score import why
from evalflow.web.ui.visitor import may

if TYPE_CHECKING:
    from evalflow.summary.compare import ComparisonRow


_ABOUT = "What changed between two runs, case by case, and whether it could be chance."
_BEFORE = forms.About("Run A", "The earlier run; comparable runs come first.", required=True)
_AFTER = forms.About("Run B", "The run to judge, e.g. the latest.", required=True)
_MARGIN = forms.About(
    "Acceptable loss", "Also tests that B is not worse than A by more than this. Empty: no test.", "0.02"
)


@dataclass(frozen=True, slots=True)
class _Pair:
    a: str
    b: str
    allow: tuple[str, ...] = ()
    margin: float | None = None

    @property
    def path(self) -> str:
        margin = "" if self.margin is None else f"{self.margin:g}"
        return address("/compare", {"a": self.a, "b": self.b, "allow": ",".join(self.allow), "margin": margin})


def add() -> None:
    """Register the page."""

    @guarded_page("/compare")
    async def compare(workspace: Workspace, a: str = "", b: str = "", allow: str = "", margin: str = "") -> None:
        runs = await to_thread.run_sync(comparing.scored_runs, workspace)
        if len(runs) < 2 and not (a and b):
            title = "One run so far" if runs else "No run has ended yet"
            about = "Run the same test cases and metrics twice with a change in between; then compare here."
            with frame("Compare", place="Compare", about=_ABOUT), empty("compare_arrows", title, about):
                link_button("To the runs", "/runs", primary=True)
            return
        after = await to_thread.run_sync(get_run, workspace, b) if b else runs[0]
        others = await to_thread.run_sync(comparing.candidates, workspace, after.run_id)
        before = await to_thread.run_sync(get_run, workspace, a) if a else None
        with frame("Compare", place="Compare", about=_ABOUT):
            accepted = _margin(margin)
            _picks(runs, after, before, others, accepted)
            if before is not None:
                allowed = tuple(kind for kind in KINDS if kind in allow.split(","))
                _result(workspace, (before, after), _Pair(before.run_id, after.run_id, allowed, accepted))


def _margin(content: str) -> float | None:
    """The acceptable loss; None if it is missing, or not a positive number."""
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _picks(
    runs: Sequence[Run],
    after: Run,
    before: Run | None,
    others: Sequence[comparing.ComparableRun],
    accepted: float | None,
) -> None:
    """The fields for the two runs; choosing another run B reloads the page with the runs comparable to it."""
    newer = {run.run_id: _option(run) for run in (*runs, after)}
    older: dict[str, str] = {}
    for one in others:
        kinds = dict.fromkeys(obstacle.kind for obstacle in one.obstacles)
        older[one.run.run_id] = _option(one.run) + (f" (other {', '.join(kinds)})" if kinds else "")
    if before is not None:
        older.setdefault(before.run_id, _option(before))
    first = before.run_id if before is not None else next(iter(older), None)

    def chosen() -> str:
        return _Pair(str(a.value), after.run_id, margin=_margin(str(margin.value or ""))).path

    with ui.element("div").classes("card stack"):
        with ui.element("div").classes("form wide"), ui.element("div").classes("pair top"):
            a = forms.pick(_BEFORE, older, first or "")
            b = forms.pick(_AFTER, newer, after.run_id)
            margin = forms.number_field(_MARGIN, accepted)
        if first is None:
            message("No other run has a dataset and a metric in common with run B.", "Choose another run B.")
        with ui.element("div").classes("actions"):
            if first is not None:
                button("Compare", lambda: ui.navigate.to(chosen()), kind="primary")
            if before is not None:
                link_button("Swap A and B", _Pair(after.run_id, before.run_id, margin=accepted).path)
    b.on_value_change(lambda: ui.navigate.to(f"/compare?{urlencode({'b': str(b.value)})}"))


def _option(run: Run) -> str:
    return f"{name_of(run)} · {when(run.created_at)}"


def _result(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    def compare() -> Comparison | list[Obstacle]:
        obstacles = comparing.obstacles_between(workspace, pair.a, pair.b)
        if any(obstacle.kind not in pair.allow for obstacle in obstacles):
            return obstacles
        return comparing.compare_runs(workspace, pair.a, pair.b, ComparisonOptions(pair.allow, margin=pair.margin))

    def show(found: Comparison | list[Obstacle]) -> None:
        if isinstance(found, list):
            _show_obstacles(found, pair)
        else:
            differences(found, runs)
            changed(workspace, found, runs)

    async def read() -> Comparison | list[Obstacle]:
        return await to_thread.run_sync(compare)

    place = ui.element("div")
    ui.timer(0, lambda: fill(place, "Comparing …", read, show, "These runs cannot be compared"), once=True)


def _show_obstacles(obstacles: Sequence[Obstacle], pair: _Pair) -> None:
    kinds = tuple(dict.fromkeys(obstacle.kind for obstacle in obstacles))
    with section("These runs cannot be compared as they are", "Their scores may not mean the same:"):
        with ui.element("ul").classes("obstacles"):
            for obstacle in obstacles:
                text(obstacle.what, "li", "text")
        with ui.element("div").classes("actions"):
            link_button("Compare anyway", replace(pair, allow=kinds).path)
            if may("edit"):
                link_button("Run A again, as B was", f"/runs/new?{urlencode({'source': pair.b})}")
            link_button("Choose another run A", f"/compare?{urlencode({'b': pair.b})}")


_TONES: dict[str, Tone] = {"better": "pass", "worse": "fail", "cannot_tell": ""}
_HEADS = ("Metric", "A", "B", "B minus A, with its 95 % interval", "Verdict")
_MARGIN_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("not worse", "pass"),
    False: ("worse", "fail"),
    None: ("cannot tell whether worse", "warn"),
}
_MIDDLE = 13
"""Distance in pixels from the top to the line of an interval."""
_LEGEND = (
    "A difference is clear if its adjusted p-value is below 0.05 and its interval excludes 0. “Could detect” is the "
    "true difference that this many cases would find four times in five."
)


def differences(found: Comparison, runs: tuple[Run, Run]) -> None:
    """The verdict in a sentence, then each difference."""
    with section("Verdict"):
        text(in_words(found.rows), "p", "verdict-in-words")
        with ui.element("div").classes("sides"):
            for side, run in zip("AB", runs, strict=True):
                _side(side, run)
        for note in found.notes:
            message(note)
    with section("Differences", "B minus A, over the cases scored in both runs."):
        _table(found.rows, found.p_name)
        if found.margin is not None:
            _against(found.rows, found.margin)
        with ui.element("div").classes("legend small muted"):
            for note in (*found.judges, f"A {found.family}.", _LEGEND):
                text(note, "p")


def _side(side: str, run: Run) -> None:
    with ui.element("div").classes("side"):
        badge(side, "accent")
        ui.link(name_of(run), f"/runs/{run.run_id}")
        text(f"{run.bot} · {when(run.created_at)}", "span", "small muted")


def _table(rows: Sequence[ComparisonRow], p_name: str) -> None:
    span = _span([row for row in rows if _is_small(row)])
    several = len({row.dataset for row in rows}) > 1
    with table((*_HEADS, p_name, "Could detect", "Cases"), "table stacked"):
        for row in rows:
            _row(row, span if _is_small(row) else _span([row]), several, p_name)


def _row(row: ComparisonRow, span: float, several: bool, p_name: str) -> None:
    found = row.found
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            text(row.metric, classes="name")
            text(_about(row, several), classes="small muted")
        cell("A", number(found.value_a))
        cell("B", number(found.value_b))
        with cell(_HEADS[3], classes="drawn"):
            _interval(row, span)
            ends = "no interval" if found.low is None else f"{signed(found.low)} to {signed(found.high)}"
            with ui.element("div").classes("said"):
                text(signed(found.difference), "strong")
                text(f"{ends}, {method(found.method)}", "span", "small muted")
        with cell("Verdict", classes=""):
            badge(VERDICTS[row.verdict], _TONES[row.verdict])
        cell(p_name, p_value(row.p_adjusted))
        cell("Could detect", number(row.detectable))
        cases = f"{found.n:,}" + (f" in {found.clusters:,} clusters" if found.clusters != found.n else "")
        cell("Cases", cases)


def _against(rows: Sequence[ComparisonRow], margin: float) -> None:
    """Whether B is not worse by more than the margin, metric by metric."""
    with ui.element("ul").classes("card margins"):
        for row in rows:
            found = row.document(margin)
            words, tone = _MARGIN_VERDICTS[found["not_worse"]]
            needed = found["cases_needed"]
            more = f"About {needed:,} cases would decide, if the difference stays the same." if needed else ""
            with ui.element("li"):
                badge(words, tone)
                text(f"{row.metric}, {_about(row, several=True)}", "span")
                text(f"by more than {margin:g}. {more}", "span", "small muted")


def _about(row: ComparisonRow, several: bool) -> str:
    lower = "" if row.higher_is_better else "lower is better"
    return ", ".join(part for part in (row.called or "mean", row.dataset if several else "", row.judge, lower) if part)


def _interval(row: ComparisonRow, span: float) -> None:
    found = row.found
    with picture(f"difference {signed(found.difference)}, interval {signed(found.low)} to {signed(found.high)}", "bar"):
        shape("line", "zero", x1="50%", x2="50%", y1=0, y2=2 * _MIDDLE)
        if found.low is not None and found.high is not None:
            ends = {"x1": across(_across(found.low, span)), "x2": across(_across(found.high, span))}
            shape("line", f"line {row.verdict}", y1=_MIDDLE, y2=_MIDDLE, **ends)
        if found.difference is not None:
            shape("circle", f"dot {row.verdict}", cx=across(_across(found.difference, span)), cy=_MIDDLE, r=5)


def _across(value: float, span: float) -> float:
    return 0.5 + 0.48 * value / span


def _span(rows: Sequence[ComparisonRow]) -> float:
    ends = [abs(end) for row in rows for end in (row.found.low, row.found.high, row.found.difference) if end]
    return max(ends, default=1.0)


def _is_small(row: ComparisonRow) -> bool:
    """Whether the row fits the common scale; rows in other units get a separate scale."""
    found = row.found
    return all(end is None or abs(end) <= 1 for end in (found.low, found.high, found.difference))


PAGE_SIZE = 20
_ABOUT_CASES = "One line per case, with the metric that changed most. Open it to read both answers and reasons."
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
    with section("Cases that changed", _ABOUT_CASES):
        about = f"{flips.worsened:,} went from pass to fail, {flips.improved:,} from fail to pass."
        text(about, "p", "verdict-in-words")
        place = ui.element("div")

    def read_first() -> tuple[Changes, Sequence[Change]]:
        changes = comparing.changed_cases(workspace, runs[0].run_id, runs[1].run_id)
        return changes, changes.page("all", 0, PAGE_SIZE)

    async def read() -> tuple[Changes, Sequence[Change]]:
        return await to_thread.run_sync(read_first)

    def show(first: tuple[Changes, Sequence[Change]]) -> None:
        _ChangedCases(workspace, *first, runs)

    title = "The changed cases cannot be shown."
    ui.timer(0, lambda: fill(place, "Loading the cases …", read, show, title), once=True)


class _ChangedCases:
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

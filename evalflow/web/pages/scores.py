"""The scores of a run: a list with filter, order and pages, all kept in the URL, and one case with each score."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement

from evalflow.app.studio.run_cases import RunCase, get_run_case
from evalflow.app.studio.runs import Run, get_run
from evalflow.app.studio.scores import Score, ScoreFilter, count_scores, get_score, list_scores, neighbours
from evalflow.app.studio.space import NotFoundError, Page, Workspace
from evalflow.errors import EvalflowError, Problem
from evalflow.records import Context
from evalflow.web.pages.runs import ACTIVE, metrics_of, name_of
from evalflow.web.ui import forms
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    Latest,
    address,
    badge,
    button,
    counted,
    fold,
    joined,
    link_button,
    message,
    section,
    tell_fault,
    text,
)
from evalflow.web.ui.score import details, prompts_fold, steps, verdict, why
from evalflow.web.ui.verdict import verdict_bar

PAGE_SIZE = 25
MOST_PAGES = 2000
"""Largest page number in a URL; a page is only reached by reading all pages before it."""
TYPING_MS = 300
"""Milliseconds without a key press after which the search starts."""
_STATUSES = {
    "": "Every state",
    "failed": "Failed",
    "passed": "Passed",
    "scored": "Scored",
    "undefined": "Undefined",
    "error": "Error",
    "skipped": "Skipped",
}
_ORDERS = {"": "As in the data", "score": "Lowest first", "-score": "Highest first"}
Tags = Sequence[tuple[str, int]]
"""Tags, with how many answers have each."""


@dataclass(frozen=True, slots=True)
class ScoreQuery:
    """Filter, order and page of the list, as in the query of a URL; an empty value is not set."""

    metric: str = ""
    status: str = ""
    tag: str = ""
    search: str = ""
    low: str = ""
    high: str = ""
    sort: str = ""
    page: str = ""

    @classmethod
    def of_address(cls) -> ScoreQuery:
        """The query of the page that is being built."""
        given = ui.context.client.request.query_params
        return cls(**{field.name: given.get(field.name, "") for field in fields(cls)})

    def __str__(self) -> str:
        """The query part of a URL, with its question mark; empty if nothing is set."""
        return address("", asdict(self))

    @property
    def page_number(self) -> int:
        """The page number, from 1."""
        number = int(self.page) if self.page.isdecimal() and len(self.page) < 9 else 1
        return max(1, min(number, MOST_PAGES))

    def filter(self) -> ScoreFilter:
        """The filter for the workspace."""
        passed = {"passed": True, "failed": False}.get(self.status)
        return ScoreFilter(
            metric=self.metric or None,
            status=self.status or None if passed is None else None,
            tag=self.tag or None,
            text=self.search or None,
            low=_bound(self.low),
            high=_bound(self.high),
            passed=passed,
        )


def _bound(content: str) -> float | None:
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class ScoreList:
    """A page of scores, with the fields that filter and order them. `thresholds` gives those to use for passing."""

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        query: ScoreQuery,
        tags: Tags,
        thresholds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._workspace, self._run, self._thresholds = workspace, run, thresholds
        self._cursors: list[str | None] = [None]
        """The cursor of each page known so far."""
        self._page = query.page_number
        self._latest = Latest()
        self._rows_of: dict[str, tuple[Score, str, ui.element]] = {}
        self.bar = FilterBar(query, metrics_of(run), tags, self._filtered)
        with ui.element("div").classes("above"):
            self._count = text("", "span", "muted small").props("aria-live=polite")
            self._verbose = ui.switch("Show the judge's steps and prompts", on_change=lambda: self.load())
            self._verbose.props("dense")
        self._rows = ui.element("ul").classes("scores")
        with ui.element("nav").classes("actions page-nav").props('aria-label="Pages of scores"'):
            self._before = button("Previous", lambda: self._turn(-1))
            self._after = button("Next", lambda: self._turn(1))

    def follow(self, run: Run, tags: Tags) -> None:
        """Update to the run's new state; `load` shows the rows."""
        self._run = run
        self.bar.offer(metrics_of(run), tags)

    async def load(self) -> None:
        """Show the page, and then the number of scores unless the run is in progress.

        Rows that are already shown stay. If another page was requested meanwhile, only that one is shown.
        """
        is_latest, query = self._latest.begin(), self.bar.query
        try:
            found = await to_thread.run_sync(self._read, query)
        except EvalflowError as error:
            tell_fault(str(error))
            return
        if not is_latest():
            return
        self._show(found)
        if self._page == 1 or not self._count.text:
            self._count.set_text("")
            if self._run.state in ACTIVE:
                return
            count = lambda: count_scores(self._workspace, self._run.run_id, query.filter(), self._thresholds())  # noqa: E731
            number = await to_thread.run_sync(count)
            if is_latest():
                self._count.set_text(counted(number, "score"))

    async def rejudge(self) -> None:
        """Show the scores again, with changed thresholds."""
        if self.bar.query.status in ("passed", "failed"):
            self._restart()
        await self.load()

    @property
    def _query(self) -> str:
        return str(replace(self.bar.query, page=str(self._page) if self._page > 1 else ""))

    def _read(self, query: ScoreQuery) -> Page[Score]:
        thresholds, cursors = self._thresholds(), self._cursors
        wanted, order = query.filter(), query.sort or "input"

        def read(cursor: str | None) -> Page[Score]:
            return list_scores(
                self._workspace, self._run.run_id, wanted, cursor, PAGE_SIZE, sort=order, thresholds=thresholds
            )

        page = read(cursors[min(self._page, len(cursors)) - 1])
        while len(cursors) < self._page and page.next is not None:
            cursors.append(page.next)
            page = read(page.next)
        self._page = min(self._page, len(cursors))
        if page.next is not None and len(cursors) == self._page:
            cursors.append(page.next)
        if not self._verbose.value:
            return page
        whole = [get_score(self._workspace, self._run.run_id, one.id, thresholds) for one in page.items]
        return replace(page, items=whole)

    async def _filtered(self) -> None:
        self._restart()
        await self._turn(0)

    def _restart(self) -> None:
        self._cursors = [None]
        self._page = 1
        self._count.set_text("")

    async def _turn(self, by: int) -> None:
        self._page = max(1, self._page + by)
        ui.navigate.history.replace(f"/runs/{self._run.run_id}{self._query}")
        await self.load()

    def _show(self, found: Page[Score]) -> None:
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(found.next is not None)
        before, self._rows_of, query = self._rows_of, {}, self._query
        for score in found.items:
            known = before.get(score.id)
            if known is not None and known[:2] == (score, query):
                self._rows_of[score.id] = known
            else:
                with self._rows:
                    self._rows_of[score.id] = (score, query, self._row(score, query))
        self._arrange([row for *_, row in self._rows_of.values()])

    def _arrange(self, rows: list[ui.element]) -> None:
        if not rows:
            with self._rows:
                rows = [text(self._nothing(), "li", "muted none")]
        for other in [one for one in self._rows if one not in rows]:
            other.delete()
        for place, row in enumerate(rows):
            if self._rows.default_slot.children[place] is not row:
                row.move(target_index=place)

    def _nothing(self) -> str:
        if self._run.state in ACTIVE and self.bar.query == ScoreQuery():
            return "Nothing is scored yet. Scores appear here as they come in."
        return "No matching scores. Clear the filters to see all scores."

    def _row(self, score: Score, query: str) -> ui.element:
        run, reason = self._run.run_id, why(score)
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
                if reason:
                    text(reason, "p", "text reason" if score.steps is not None else "text reason clamp")
                if score.steps is not None:
                    details(score)
                    steps(score.steps)
                    if score.judge:
                        prompts_fold(self._workspace, run, score)
        return row


class FilterBar:
    """The fields above a list of scores."""

    def __init__(
        self, query: ScoreQuery, metrics: Sequence[str], tags: Tags, on_change: Callable[[], Awaitable[None]]
    ) -> None:
        self._on_change = on_change
        self._fields: dict[str, ValueElement[Any]] = {}
        with ui.element("div").classes("filter").props('role=search aria-label="Which scores"'):
            self._select("Metric", "metric", _metric_options(metrics), query)
            self._select("State", "status", _STATUSES, query)
            self._select("Tag", "tag", _tag_options(tags), query)
            self._line("Search", "search", "question, answer or id", query)
            self._line("Score from", "low", "0", query)
            self._line("to", "high", "1", query)
            self._select("Order", "sort", _ORDERS, query)
            button("Clear", lambda: self.set(**dict.fromkeys(self._fields, "")), kind="quiet")
        self.query = self._read()

    def offer(self, metrics: Sequence[str], tags: Tags) -> None:
        """Change the options; what is chosen stays."""
        for name, options in (("metric", _metric_options(metrics)), ("tag", _tag_options(tags))):
            field = cast("ui.select", self._fields[name])
            chosen = str(field.value or "")
            field.set_options({**options, chosen: options.get(chosen, chosen)})  # pyright: ignore - untyped in NiceGUI

    async def set(self, **values: str) -> None:
        """Change some of the fields."""
        for name, value in values.items():
            self._fields[name].set_value(value)
        await self._changed()

    def focus(self) -> None:
        """Move the focus here."""
        self._fields["metric"].run_method("focus")

    async def _changed(self) -> None:
        """Report a change once, even if several fields have changed."""
        query = self._read()
        if query != self.query:
            self.query = query
            await self._on_change()

    def _read(self) -> ScoreQuery:
        has_metric = bool(self._fields["metric"].value)  # scores of several metrics have no common order
        self._fields["sort"].props["disable"] = not has_metric
        query = ScoreQuery(**{name: str(field.value or "").strip() for name, field in self._fields.items()})
        return query if has_metric else replace(query, sort="")

    def _select(self, label: str, name: str, options: Mapping[str, str], query: ScoreQuery) -> None:
        value, known = getattr(query, name), dict(options)
        self._add(label, name, "", lambda: ui.select(known, value=value if value in known else ""))

    def _line(self, label: str, name: str, example: str, query: ScoreQuery) -> None:
        def make() -> ui.input:
            return ui.input(value=getattr(query, name), placeholder=example).props(f"debounce={TYPING_MS}")

        self._add(label, name, name, make)

    def _add(self, label: str, name: str, classes: str, make: Callable[[], ValueElement[Any]]) -> None:
        with ui.element("div").classes(f"one {classes}"):
            around = text(label, "label", "small muted")
            field = make().props("outlined dense")
        forms.tie(around, field)
        field.on_value_change(self._changed)
        self._fields[name] = field


def _metric_options(names: Sequence[str]) -> dict[str, str]:
    return {"": "Every metric", **{name: name for name in names}}


def _tag_options(tags: Tags) -> dict[str, str]:
    return {"": "Every tag", **{name: f"{name} ({n:,})" for name, n in tags}}


LONGEST_HEADING = 90


def add() -> None:
    """Register the page."""

    @guarded_page("/runs/{run}/cases/{position}")
    async def one(workspace: Workspace, run: str, position: str) -> None:
        query = ScoreQuery.of_address()
        if not position.isdecimal() or len(position) > 9:
            raise NotFoundError(Problem(f"there is no case {position!r}", "case", "cases are counted from 0"))
        found = await to_thread.run_sync(get_run, workspace, run)
        case = await to_thread.run_sync(get_run_case, workspace, run, int(position))
        before, after = await to_thread.run_sync(_neighbours, workspace, found.run_id, case, query)
        back = f"/runs/{found.run_id}"
        with frame(_heading(case), place="Runs", trail=[(name_of(found), f"{back}{query}")]) as actions:
            with actions:
                for label, neighbour in (("Previous case", before), ("Next case", after)):
                    if neighbour is not None:
                        link_button(label, f"{back}/cases/{neighbour}{query}")
            _about(case)
            _conversation(case)
            _expected(case)
            about = (
                "Each metric with its reason; open the steps and prompts to see what the judge was asked and replied."
            )
            with section("Scores", about):
                for score in case.scores:
                    _score(workspace, found.run_id, score)


def _neighbours(workspace: Workspace, run: str, case: RunCase, query: ScoreQuery) -> tuple[int | None, int | None]:
    if replace(query, page="") == ScoreQuery():
        return case.position - 1 if case.position else None, case.position + 1 if case.position < case.last else None
    return neighbours(workspace, run, case.position, query.filter(), query.sort or "input")


def _heading(case: RunCase) -> str:
    question = " ".join((case.question or case.case_id).split())
    return question if len(question) <= LONGEST_HEADING else f"{question[:LONGEST_HEADING].rstrip()} …"


def _about(case: RunCase) -> None:
    with ui.element("div").classes("actions"):
        text(joined(case.dataset, case.case_id, case.target), "span", "muted small")
        if case.target_repeat:
            badge(f"answer {case.target_repeat + 1}")
        for tag in case.tags:
            badge(tag)


def _conversation(case: RunCase) -> None:
    turns = [("user", case.question)]
    if case.case is not None:
        turns = [(turn.role, turn.content) for turn in case.case.messages]
    with section("Conversation"), ui.element("div").classes("card talk"):
        for role, content in turns:
            _turn(role.capitalize(), content, is_bots=role == "assistant")
        if case.answer_error:
            message("The bot gave no answer.", case.answer_error, "fail")
        elif case.answer is not None:
            _turn("The bot's answer", case.answer, is_bots=True)
        else:
            text("No answer.", "p", "muted")
    if case.case is None and case.gone:
        message("Only the scored parts of this case can be shown.", case.gone, "warn")


def _turn(who: str, content: str, *, is_bots: bool) -> None:
    with ui.element("div").classes("spoken said" if is_bots else "spoken"):
        text(who, classes="small muted")
        text(content, classes="text")


def _expected(case: RunCase) -> None:
    whole = case.case
    shown = {"Expected answer": whole.reference if whole else case.reference}
    if whole is not None:
        shown["Expected"] = _plain(whole.expected)
        shown["Additional inputs"] = _plain(dict(whole.vars) or None)
        shown["Metadata of the answer"] = _plain(dict(whole.metadata) if whole.metadata else None)
    contexts = whole.contexts if whole else None
    if not any(shown.values()) and contexts is None:
        return
    with section("Compared with"), ui.element("div").classes("card stack"):
        for name, content in shown.items():
            if content:
                with ui.element("div"):
                    text(name, "h3")
                    text(content, classes="text")
        if contexts is not None:
            _contexts(contexts)


def _contexts(contexts: Sequence[Context]) -> None:
    with ui.element("div"):
        text("Contexts", "h3")
        if not contexts:
            text("No passages were found.", "p", "muted")
        for place, context in enumerate(contexts, 1):
            with fold(context.title or f"Context {place}", is_open=len(contexts) <= 3):
                text(context.text, classes="text")


def _score(workspace: Workspace, run: str, score: Score) -> None:
    with ui.element("article").classes("card score stack"):
        with ui.element("div").classes("actions"):
            text(score.metric, "h3")
            verdict(score)
        if reason := why(score):
            text(reason, classes="text")
        verdict_bar(workspace, run, score)
        details(score)
        if score.steps:
            with fold("The judge's steps"):
                steps(score.steps)
        if score.judge:
            prompts_fold(workspace, run, score)


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(one) or 'none'}" for key, one in value.items())  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)

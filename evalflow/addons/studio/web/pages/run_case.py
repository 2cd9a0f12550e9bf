"""One case of a run: the conversation, what it was compared with, and each score with reason, steps and prompts."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.results_filter import ResultQuery
from evalflow.addons.studio.web.pages.runs import name_of
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import address, badge, filled, fold, lazy_fold, link_button, message, text
from evalflow.addons.studio.web.ui.score import prompts_fold, score_markup
from evalflow.addons.studio.web.ui.verdict import AnswerSaid, verdict_bar
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work.run_cases import RunCase, get_run_case
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.scores import Score, note_view, order_results
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.records import CUT_OFF, FILTERED, Answer, Context
from evalflow.report.wording import counted, joined, number

LONGEST_HEADING = 90


def add() -> None:
    """Register the page."""

    @guarded_page("/runs/{run}/cases/{position}")
    async def one(workspace: Workspace, run: str, position: str) -> None:
        query = ResultQuery.of_address()
        if not position.isdecimal() or len(position) > 9:
            raise NotFoundError(Problem(f"there is no case {position!r}", "case", "cases are counted from 0"))
        found = await to_thread.run_sync(get_run, workspace, run)
        case = await to_thread.run_sync(get_run_case, workspace, run, int(position))
        await to_thread.run_sync(note_view, workspace, run)
        before, after = await to_thread.run_sync(_neighbours, workspace, run, int(position), query)
        back = f"/runs/{found.run_id}"
        with frame(case_heading(case), place="Runs", trail=[(name_of(found), f"{back}{query}")]) as actions:
            with actions:
                for label, key, neighbour in (("Previous case", "k", before), ("Next case", "j", after)):
                    if neighbour is not None:
                        link = link_button(label, f"{back}/cases/{neighbour}{query}")
                        link.props["data-key"] = key
            with ui.element("div").classes("whole-case"):
                text("Case", "h2", "unseen")
                case_content(workspace, found.run_id, case)


def _neighbours(workspace: Workspace, run: str, position: int, query: ResultQuery) -> tuple[int | None, int | None]:
    order = order_results(workspace, run, query.filter(), query.order)
    if position not in order:
        return None, None
    place = order.index(position)
    return order[place - 1] if place else None, order[place + 1] if place + 1 < len(order) else None


def case_heading(case: RunCase) -> str:
    """The question, shortened."""
    question = " ".join((case.question or case.case_id).split())
    return question if len(question) <= LONGEST_HEADING else f"{question[:LONGEST_HEADING].rstrip()} …"


def case_content(workspace: Workspace, run: str, case: RunCase) -> None:
    """All of a case: for the panel beside the results, and for its own page."""
    _about(case)
    _conversation(case)
    said = AnswerSaid(workspace, run, case.position)
    with _part("Scores"):
        for score, *repeats in _by_metric(case.scores):
            with ui.element("article").classes("score"):
                filled("div", *score_markup(score), classes="told")
                verdict_bar(workspace, run, score, said)
                if repeats:
                    _repeats(workspace, run, repeats)
    _expected(case)


def _by_metric(scores: Sequence[Score]) -> Iterable[Sequence[Score]]:
    found: dict[str, list[Score]] = {}
    for score in scores:
        found.setdefault(score.metric, []).append(score)
    return found.values()


def _repeats(workspace: Workspace, run: str, repeats: Sequence[Score]) -> None:
    """Further scores of a metric. People judge the answer once, beside the first of them."""

    async def show(place: ui.element) -> None:
        with place:
            for score in repeats:
                with ui.element("div").classes("score"):
                    filled("div", *score_markup(score), classes="told")
                    if score.judge:
                        prompts_fold(workspace, run, score)

    scored = [score.score for score in repeats if score.score is not None]
    between = f": {number(min(scored), 2)} to {number(max(scored), 2)}" if scored else ""
    with lazy_fold("repeats", show):
        text(f"{counted(len(repeats), 'more repeat')} of the judge{between}", "span")


@contextmanager
def _part(title: str) -> Generator[None]:
    with ui.element("section").classes("part"):
        text(title, "h3")
        yield


def _case_path(case: RunCase) -> str:
    """The test cases of the dataset, with this one found."""
    return address(f"/datasets/{quote(case.dataset, safe='')}", {"text": case.case_id})


def _about(case: RunCase) -> None:
    with ui.element("div").classes("actions"):
        ui.link(joined(title_of("dataset", case.dataset), case.case_id), _case_path(case)).classes("small")
        text(title_of("bot", case.target), "span", "muted small")
        if case.target_repeat:
            badge(f"answer {case.target_repeat + 1}")
        if case.known is not None:
            for words in _flaws(case.known):
                badge(words, "warn")
        for tag in case.tags:
            badge(tag)


def _flaws(answer: Answer) -> Iterator[str]:
    """What is wrong with an answer as a whole."""
    if answer.finish_reason == CUT_OFF:
        yield "cut off"
    if answer.finish_reason == FILTERED:
        yield "filtered"
    if answer.extracted is False:
        yield "nothing extracted"


def _conversation(case: RunCase) -> None:
    turns = [("user", case.question)]
    if case.case is not None:
        turns = [(turn.role, turn.text) for turn in case.case.messages]
    with _part("Conversation"), ui.element("div").classes("talk"):
        for role, content in turns:
            _turn(role.capitalize(), content, is_bots=role == "assistant")
        if case.answer_error:
            message("The bot gave no answer.", case.answer_error, "fail")
        elif case.answer is not None:
            _turn("The bot's answer", case.answer, is_bots=True)
        else:
            text("No answer.", "p", "muted")
        if case.known is not None and case.known.full_answer is not None:
            _turn("The whole answer", case.known.full_answer, is_bots=True)
        if case.known is not None and case.known.thoughts:
            _turn("Its thoughts, which are not scored", case.known.thoughts, is_bots=True)
    if case.case is None and case.gone:
        message("Only the scored parts of this case can be shown.", case.gone, "warn")


def _turn(who: str, content: str, *, is_bots: bool) -> None:
    with ui.element("div").classes("spoken said" if is_bots else "spoken"):
        text(who, classes="small muted")
        text(content, classes="text")


def _expected(case: RunCase) -> None:
    whole = case.case
    shown = {"Expected answer": whole.reference_text if whole else case.reference}
    if whole is not None:
        shown["Expected"] = _plain(whole.expected)
        shown["Additional inputs"] = _plain(dict(whole.vars) or None)
        shown["Metadata of the answer"] = _plain(dict(whole.metadata) if whole.metadata else None)
    contexts = whole.contexts if whole else None
    if not any(shown.values()) and contexts is None:
        return
    with _part("Compared with"), ui.element("div").classes("stack"):
        for name, content in shown.items():
            if content:
                with ui.element("div"):
                    text(name, "h4")
                    text(content, classes="text")
        if contexts is not None:
            _contexts(contexts)


def _contexts(contexts: Sequence[Context]) -> None:
    with ui.element("div"):
        text("Contexts", "h4")
        if not contexts:
            text("No passages were found.", "p", "muted")
        for place, context in enumerate(contexts, 1):
            with fold(context.title or f"Context {place}", is_open=len(contexts) <= 3):
                text(context.text, classes="text")


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(one) or 'none'}" for key, one in value.items())  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)

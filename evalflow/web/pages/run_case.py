"""One case of a run: question, answer, and each score with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.run_cases import RunCase, get_run_case
from evalflow.app.studio.runs import get_run
from evalflow.app.studio.scores import Score, neighbours
from evalflow.app.studio.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.records import Context
from evalflow.web.pages.runs import name_of
from evalflow.web.pages.scores import ScoreQuery
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, fold, joined, link_button, message, section, text
from evalflow.web.ui.score import details, prompts_fold, steps, verdict, why

LONGEST_HEADING = 90


def add(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/runs/{run}/cases/{position}")
    async def one(run: str, position: str) -> None:
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
    """The cases before and after this one in the list of scores."""
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

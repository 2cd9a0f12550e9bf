"""One case of a run: question, answer, and why it scored as it did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.run_cases import RunCase, get_run_case
from evalflow.app.studio.runs import get_run
from evalflow.app.studio.scores import Score, neighbours
from evalflow.app.studio.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.web.pages.runs import name_of
from evalflow.web.pages.score_filter import Wanted
from evalflow.web.pages.scores import PromptFold, details, steps, verdict, why
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, link_button, message, section, text

SHORT = 90
"""Characters of a heading."""


def add(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/runs/{run}/cases/{position}")
    async def one(
        run: str,
        position: str,
        metric: str = "",
        status: str = "",
        tag: str = "",
        search: str = "",
        low: str = "",
        high: str = "",
        sort: str = "",
        page: str = "",
    ) -> None:
        wanted = Wanted(metric, status, tag, search, low, high, sort, page)
        if not position.isdecimal() or len(position) > 9:
            raise NotFoundError(Problem(f"there is no case {position!r}", "case", "cases are counted from 0"))
        of = await to_thread.run_sync(get_run, workspace, run)
        case = await to_thread.run_sync(get_run_case, workspace, run, int(position))
        back = f"/runs/{of.run_id}"
        before, after = await to_thread.run_sync(_beside, workspace, of.run_id, case, wanted)
        with frame(_heading(case), place="Runs", trail=[(name_of(of), f"{back}{wanted.query}")]) as actions:
            with actions:
                if before is not None:
                    link_button("Previous case", f"{back}/cases/{before}{wanted.query}")
                if after is not None:
                    link_button("Next case", f"{back}/cases/{after}{wanted.query}")
            _marks(case)
            _conversation(case)
            _expected(case)
            with section(
                "Scores",
                "Each metric with its reason; open the steps and prompts to see what the judge was asked and replied.",
            ):
                for score in case.scores:
                    _score(workspace, of.run_id, score)


def _beside(workspace: Workspace, run: str, case: RunCase, wanted: Wanted) -> tuple[int | None, int | None]:
    """The cases before and after, of those that the list of scores shows."""
    if replace(wanted, page="") == Wanted():
        return case.position - 1 if case.position else None, case.position + 1 if case.position < case.last else None
    return neighbours(workspace, run, case.position, wanted.filter(), wanted.sort or "input")


def _heading(case: RunCase) -> str:
    words = " ".join((case.question or case.case_id).split())
    return words if len(words) <= SHORT else f"{words[:SHORT].rstrip()} …"


def _marks(case: RunCase) -> None:
    with ui.element("div").classes("actions"):
        text(f"{case.dataset} · {case.case_id} · {case.target}", "span", "muted small")
        if case.target_repeat:
            badge(f"answer {case.target_repeat + 1}")
        for tag in case.tags:
            badge(tag)


def _conversation(case: RunCase) -> None:
    whole = case.case
    with section("Conversation"), ui.element("div").classes("card talk"):
        if whole is None:
            _turn("user", case.question)
        else:
            for turn in whole.messages:
                _turn(turn.role, turn.content)
        if case.answer_error:
            message("The bot gave no answer.", case.answer_error, "fail")
        elif case.answer is not None:
            _turn("answer", case.answer)
        else:
            text("No answer.", "p", "muted")
    if whole is None and case.gone:
        message("Only the scored parts of this case can be shown.", case.gone, "warn")


def _turn(role: str, content: str) -> None:
    with ui.element("div").classes(f"spoken {'said' if role in ('answer', 'assistant') else ''}"):
        text({"answer": "The bot's answer"}.get(role, role.capitalize()), classes="small muted")
        text(content, classes="text")


def _expected(case: RunCase) -> None:
    whole = case.case
    reference = whole.reference if whole else case.reference
    shown = {"Expected answer": reference}
    if whole is not None:
        shown["Expected"] = _plain(whole.expected)
        shown["Additional inputs"] = _plain(dict(whole.vars) or None)
        shown["Metadata of the answer"] = _plain(dict(whole.metadata) if whole.metadata else None)
    if any(shown.values()) or (whole and whole.contexts is not None):
        with section("Compared with"), ui.element("div").classes("card stack"):
            for name, said in shown.items():
                if said:
                    with ui.element("div"):
                        text(name, "h3")
                        text(said, classes="text")
            if whole is not None and whole.contexts is not None:
                _contexts(whole.contexts)


def _contexts(contexts: Any) -> None:
    with ui.element("div"):
        text("Contexts", "h3")
        if not contexts:
            text("No passages were found.", "p", "muted")
        for place, context in enumerate(contexts, 1):
            with ui.element("details").props("open" if len(contexts) <= 3 else ""):
                text(context.title or f"Context {place}", "summary")
                text(context.text, classes="text")


def _score(workspace: Workspace, run: str, score: Score) -> None:
    with ui.element("article").classes("card score stack"):
        with ui.element("div").classes("actions"):
            text(score.metric, "h3")
            verdict(score)
        if said := why(score):
            text(said, classes="text")
        details(score)
        if score.steps:
            with ui.element("details"):
                text("The judge's steps", "summary")
                steps(score.steps)
        if score.judge:
            PromptFold(workspace, run, score)


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(one) or 'none'}" for key, one in value.items())  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)

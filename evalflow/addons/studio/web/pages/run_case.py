"""One case of a run: the conversation, the reference and contexts, and each score with reason, steps and prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.results_filter import ResultQuery
from evalflow.addons.studio.web.pages.runs import name_of
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import address, badge, fold, link_button, message, text
from evalflow.addons.studio.web.ui.reading import AnswerShown, ContextsShown, Reading, show_reading
from evalflow.addons.studio.web.ui.score import prompts_fold, quotes_of
from evalflow.addons.studio.web.ui.score_lines import show_scores
from evalflow.addons.studio.web.ui.verdict import judging
from evalflow.addons.studio.web.ui.visitor import know_titles, may, title_of
from evalflow.addons.studio.work.cases import write_reference
from evalflow.addons.studio.work.run_cases import RunCase, get_run_case
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.scores import note_view, order_results
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import Problem
from evalflow.records import CUT_OFF, FILTERED, Answer


@guarded_page("/runs/{run}/cases/{position}")
async def _one_page(workspace: Workspace, run: str, position: str) -> None:
    query = ResultQuery.of_address()
    if not position.isdecimal() or len(position) > 9:
        raise NotFoundError(Problem(f"there is no case {position!r}", "case", "cases are counted from 0"))
    shown_run = await to_thread.run_sync(get_run, workspace, run)
    case = await to_thread.run_sync(get_run_case, workspace, run, int(position))
    await to_thread.run_sync(note_view, workspace, run)
    before, after = await to_thread.run_sync(_neighbours, workspace, run, int(position), query)
    back = f"/runs/{shown_run.run_id}"
    know_titles(shown_run)
    trail = [(name_of(shown_run), f"{back}{query}")]
    with frame(case_title(case.question, case.case_id), place="Runs", trail=trail) as actions:
        with actions:
            for label, key, neighbour in (("Previous case", "k", before), ("Next case", "j", after)):
                if neighbour is not None:
                    link = link_button(label, f"{back}/cases/{neighbour}{query}")
                    link.props["data-key"] = key
        text("Case", "h2", "unseen")
        case_content(workspace, shown_run.run_id, case)


def _neighbours(workspace: Workspace, run: str, position: int, query: ResultQuery) -> tuple[int | None, int | None]:
    order = order_results(workspace, run, query.filter(), query.order)
    if position not in order:
        return None, None
    place = order.index(position)
    return order[place - 1] if place else None, order[place + 1] if place + 1 < len(order) else None


def case_content(workspace: Workspace, run: str, case: RunCase) -> None:
    """The content of a case, for the panel beside the results and for its own page."""
    with ui.element("div").classes("case-view"):
        _about(run, case)
        show_reading(_reading(case))
        if not _reference(case) and may("edit"):
            _missing_reference(workspace, case)
        if case.case is None and case.gone:
            message("Only the scored parts of this case can be shown.", case.gone, "warn")
        show_scores(case.scores, judging(workspace, run, case.position), partial(prompts_fold, workspace, run))


def _reading(case: RunCase) -> Reading:
    whole = case.case
    turns = [(turn.role, turn.text) for turn in whole.messages] if whole else [("user", case.question)]
    return Reading(
        turns=turns,
        answers=[_answer_shown(case)],
        heading=case_title(case.question, case.case_id),
        reference=_reference(case),
        contexts=[own] if (own := contexts_of(case)) else (),
        more=[(name, content) for name, content in _more(case) if content],
    )


def contexts_of(case: RunCase) -> ContextsShown | None:
    """The passages that the bot was given, with what metrics quote of them; None if they are unknown."""
    contexts = case.case.contexts if case.case else None
    if contexts is None:
        return None
    quotes = {
        title_of("metric", score.metric, score.target): excerpts
        for score in case.scores
        if (excerpts := quotes_of(score))
    }
    return ContextsShown([(one.title or "", one.text) for one in contexts], quotes)


def _answer_shown(case: RunCase) -> AnswerShown:
    known = case.known
    asides = (
        [("The whole answer", known.full_answer), ("Its thoughts, which are not scored", known.thoughts)]
        if known
        else []
    )
    return AnswerShown(
        text=case.answer,
        error=case.answer_error or "",
        flaws=list(_flaws(known)) if known else (),
        asides=[(title, content) for title, content in asides if content],
    )


def _more(case: RunCase) -> Iterator[tuple[str, str | None]]:
    if case.case is not None:
        yield "Expected value", _plain(case.case.expected)
        yield "Additional inputs", _plain(dict(case.case.vars) or None)
        yield "Metadata of the answer", _plain(dict(case.case.metadata) if case.case.metadata else None)
    yield "Id of the case", case.case_id


def _case_path(case: RunCase) -> str:
    """The address of the dataset's test cases, with this case searched for."""
    return address(f"/datasets/{quote(case.dataset, safe='')}", {"text": case.case_id})


def _reference(case: RunCase) -> str | None:
    return case.case.reference_text if case.case else case.reference


def _about(run: str, case: RunCase) -> None:
    with ui.element("div").classes("case-facts"):
        ui.link(title_of("dataset", case.dataset), _case_path(case)).classes("small")
        text(title_of("bot", case.target), "span", "muted small")
        if case.target_repeat:
            badge(f"answer {case.target_repeat + 1}")
        for tag in case.tags:
            badge(tag)
        if may("edit"):
            place = address("/bad-answer", {"run": run, "position": str(case.position)})
            ui.link("Make a test of it", place).classes("small")


_EXPECTED = forms.About("Expected answer", "Later runs compare with it; this run stays as it is.", required=True)


def _missing_reference(workspace: Workspace, case: RunCase) -> None:
    """A field for a missing expected answer; a case declared in files is copied first."""

    def save() -> None:
        write_reference(workspace, case.dataset, case.case_id, str(field.value or ""))

    def tell_saved(_: None) -> None:
        place.clear()
        with place:
            text("The expected answer is saved in the case. Run it again to compare with it.", "p", "small muted")

    with ui.element("div") as place:
        if not case.is_here:
            ui.link("Copy the test cases to write an expected answer", _case_path(case)).classes("small")
        else:
            with fold("Write the expected answer"), ui.element("div").classes("form"):
                field = forms.area(_EXPECTED)
                with ui.element("div").classes("actions"):
                    work_button("Save the expected answer", save, tell_saved, {"reference": field})


def _flaws(answer: Answer) -> Iterator[str]:
    """The faults of the whole answer."""
    if answer.finish_reason == CUT_OFF:
        yield "cut off"
    if answer.finish_reason == FILTERED:
        yield "filtered"
    if answer.extracted is False:
        yield "nothing extracted"


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(one) or 'none'}" for key, one in value.items())  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)

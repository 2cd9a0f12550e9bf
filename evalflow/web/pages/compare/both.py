"""A case in a line; opened, what both runs said to it, how that scored, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from anyio import to_thread
from nicegui import ui

from evalflow.app.comparison.changes import Change
from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Score
from evalflow.app.workspace.scores import case_scores
from evalflow.errors import EvalflowError
from evalflow.report.wording import number
from evalflow.web.pages.faults import tell_fault
from evalflow.web.pages.parts import Tone, badge, message, text
from evalflow.web.pages.runs.score_parts import why
from evalflow.web.pages.runs.words import name_of


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
        message("The scores of this case are not in the database.", "Its runs may have been taken in only in part.")
        return
    text(f"Case {change.case_id} of {change.dataset}", "p", "small muted")
    text(first.question, "p", "text asked").props("dir=auto")
    if first.reference:
        text("Expected", "h3")
        text(first.reference, "p", "text muted").props("dir=auto")
    if not change.is_answered_otherwise:
        message("Both runs have the same answer here; what differs is how it was judged.")
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
        message("It gave no answer", said.answer_error, "fail")
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

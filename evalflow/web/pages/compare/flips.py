"""The cases that changed between two runs, the worst first, each with both answers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.score_types import Score
from evalflow.app.workspace.scores import case_scores
from evalflow.errors import EvalflowError
from evalflow.report.comparison import Comparison
from evalflow.report.wording import number, signed
from evalflow.web.pages.faults import tell_fault
from evalflow.web.pages.parts import badge, button, message, section, text
from evalflow.web.pages.runs.words import name_of

AT_ONCE = 20
_ABOUT = "The worst first; of metrics without pass or fail, every case whose score changed."


def flips(workspace: Workspace, found: Comparison, runs: tuple[Run, Run]) -> None:
    """How many cases changed, and which."""
    [changed] = found.flips
    with section("Cases that changed", _ABOUT if changed.rows else ""):
        told = f"{changed.worsened:,} went from pass to fail, {changed.improved:,} from fail to pass."
        text(told, "p", "verdict-in-words")
        if not changed.rows:
            message("Every case that both runs have scored came out the same.")
            return
        _Flips(workspace, changed.rows, found.questions, runs)


class _Flips:
    """Some of the cases, and more when they are wanted."""

    def __init__(
        self,
        workspace: Workspace,
        rows: Sequence[Mapping[str, Any]],
        questions: Mapping[tuple[str, str], str],
        runs: tuple[Run, Run],
    ) -> None:
        self._workspace, self._rows, self._questions, self._runs = workspace, rows, questions, runs
        self._shown = 0
        self._list = ui.element("ul").classes("flips")
        with ui.element("div").classes("actions paging"):
            self._more = button("Show more", self._show)
        self._show()

    def _show(self) -> None:
        with self._list:
            for row in self._rows[self._shown : self._shown + AT_ONCE]:
                with ui.element("li"):
                    _Flip(self._workspace, row, self._questions.get((row["dataset"], row["case_id"]), ""), self._runs)
        self._shown += AT_ONCE
        self._more.set_visibility(self._shown < len(self._rows))


class _Flip:
    """A case in a line; opened, what both runs said to it."""

    def __init__(self, workspace: Workspace, row: Mapping[str, Any], question: str, runs: tuple[Run, Run]) -> None:
        self._workspace, self._row, self._runs = workspace, row, runs
        with ui.element("details").classes("flip") as details:
            with ui.element("summary"):
                badge(*_became(row))
                text(question or row["case_id"], "span", "line question")
                text(row["metric"], "span", "small muted line")
                scores = f"{number(row['score_a'], 2)} → {number(row['score_b'], 2)}"
                text(scores, "span", "num")
            self._place = ui.element("div").classes("opened")
        details.on("toggle", self._open, args=[])
        self._is_open = False

    async def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        dataset, case = self._row["dataset"], self._row["case_id"]
        try:
            found = [
                await to_thread.run_sync(case_scores, self._workspace, run.run_id, dataset, case) for run in self._runs
            ]
        except EvalflowError as error:
            self._is_open = False
            tell_fault(str(error))
            return
        with self._place:
            _side_by_side(case, self._runs, found)


def _side_by_side(case: str, runs: tuple[Run, Run], found: Sequence[Sequence[Score]]) -> None:
    first = next((score for scores in found for score in scores), None)
    if first is None:
        message("The scores of this case are not in the database.", "Its runs may have been taken in only in part.")
        return
    text(f"Case {case}", "p", "small muted")
    text(first.question, "p", "text asked")
    if first.reference:
        text("Expected", "h3")
        text(first.reference, "p", "text muted")
    with ui.element("div").classes("split"):
        for side, run, scores in zip("AB", runs, found, strict=True):
            with ui.element("div").classes("half"):
                with ui.element("div").classes("side"):
                    badge(side, "accent")
                    ui.link(name_of(run), f"/runs/{run.run_id}")
                for _, own in groupby(scores, lambda score: score.position):
                    _answer(list(own))


def _answer(scores: Sequence[Score]) -> None:
    said = scores[0]
    if said.answer_error:
        message("It gave no answer", said.answer_error, "fail")
    else:
        text(said.answer or "(nothing)", classes="text said")
    for score in scores:
        with ui.element("div").classes("judged"):
            text(score.metric, "span", "name")
            text(number(score.score, 2) if score.status == "scored" else score.status, "span", "num")
            if score.passed is not None:
                badge("pass" if score.passed else "fail", "pass" if score.passed else "fail")
            text(score.reason or score.error or "no reason given", "p", "text small muted")


def _became(row: Mapping[str, Any]) -> tuple[str, Any]:
    before, after = row["passed_a"], row["passed_b"]
    if before is None or after is None or before == after:
        return f"{signed(row['change'])}", "fail" if row["change"] < 0 else "pass"
    return ("pass → fail", "fail") if before else ("fail → pass", "pass")

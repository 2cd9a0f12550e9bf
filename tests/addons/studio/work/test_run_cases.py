"""A case of a run is looked up in as many queries for many scores, or answers, as for one."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.store import scores as score_rows
from evalflow.addons.studio.work import run_cases
from evalflow.addons.studio.work.run_cases import get_run_case, get_run_cases
from evalflow.addons.studio.work.scores import case_scores
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.saved import SavedRun
from evalflow.engine.folder import RunFolder


def scored(space: Workspace, name: str, answers: int, scores: int) -> None:
    """A run of one case, with so many answers and scores of each."""
    values = {
        "project_id": 1,
        "run_id": name,
        "title": "",
        "bot": "b",
        "state": "done",
        "origin": "workspace",
        "folder": "/nowhere",
    }
    said = {"dataset": "d", "case_id": "c", "target": "t", "tags": [], "question": "q", "answer": "a"}
    score: dict[str, Any] = {"judge": "j", "repeat": 0, "member_of": None, "status": "scored", "score": 1.0}
    score |= dict.fromkeys(("value", "reason", "error_type", "error", "path", "cost_usd", "latency_s"))
    with space.database.writing() as connection:
        run = runs.create(connection, {**values, "composition": {}, "arguments": []})
        places = [{"run": run, "position": i} for i in range(answers)]
        cells = [{**place, "n": n} for place in places for n in range(scores)]
        answered = [{**said, **at, "target_repeat": at["position"], "reference": None, "error": None} for at in places]
        steps = [{**cell, "steps": f'[{{"id": "s{cell["n"]}"}}]'} for cell in cells]
        score_rows.put(
            connection, answered, [], [{**score, **cell, "metric": f"m{cell['n']}"} for cell in cells], steps
        )


@pytest.fixture(name="queries")
def _queries(space: Workspace) -> list[str]:
    """What is sent to the database."""
    found: list[str] = []

    def sent(_: Any, __: Any, statement: str, *___: Any) -> None:
        found.append(statement)

    event.listen(space.database.engine, "before_cursor_execute", sent)
    return found


def test_a_case_takes_as_many_queries_for_many_scores_as_for_one(space: Workspace, queries: list[str]) -> None:
    counts: list[int] = []
    for number in (1, 40):
        scored(space, f"r{number}", 1, number)
        queries.clear()
        found = get_run_case(space, f"r{number}", 0)
        assert [[step["id"] for step in score.steps or ()] for score in found.scores] == [
            [f"s{n}"] for n in range(number)
        ]
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_all_answers_of_a_case_are_read_with_the_run_opened_once(
    space: Workspace, queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[RunFolder] = []

    def unreadable(folder: RunFolder) -> SavedRun:
        opened.append(folder)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(run_cases, "open_run", unreadable)
    counts: list[int] = []
    for number in (1, 40):
        scored(space, f"r{number}", number, 2)
        queries.clear()
        opened.clear()
        found = get_run_cases(space, f"r{number}", "d", "c")
        assert [(one.target_repeat, len(one.scores)) for one in found] == [(i, 2) for i in range(number)]
        assert all(score.steps and score.position == one.position for one in found for score in one.scores)
        assert {one.gone for one in found} == {"/nowhere: No such file or directory"}
        assert len(opened) == 1
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert get_run_cases(space, "r1", "d", "other") == []


def test_its_scores_take_as_many_queries_for_many_answers_as_for_one(space: Workspace, queries: list[str]) -> None:
    counts: list[int] = []
    for number in (1, 40):
        scored(space, f"r{number}", number, 2)
        queries.clear()
        assert len(case_scores(space, f"r{number}", "d", "c")) == 2 * number
        counts.append(len(queries))
    assert counts[0] == counts[1]

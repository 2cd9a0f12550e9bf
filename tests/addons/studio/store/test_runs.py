"""Runs are claimed once, and scores are found by the page, in order and by any filter."""

# ruff: noqa: ARG005 - a filter may ask for nothing of a place
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from evalflow.addons.studio.store import Database, open_database, runs, scores
from evalflow.addons.studio.store.results import ResultOrder, positions_in_order, rank_answers, result_rows
from evalflow.addons.studio.store.scores import Limit, PeopleScore, RunScores, ScoreFilter
from evalflow.errors import InfrastructureError

LIMITS = [Limit("a", "j", 0.5), Limit("b", None, 0.5, higher=False)]


def queued(database: Database, name: str, created_by: str = "") -> int:
    values = {
        "project_id": 1,
        "run_id": name,
        "title": "",
        "bot": "b",
        "state": "queued",
        "origin": "workspace",
        "folder": "/x",
        "created_by": created_by,
    }
    with database.writing() as connection:
        return runs.create(connection, {**values, "composition": {}, "arguments": []})


def test_a_run_is_claimed_by_one_of_many(database: Database) -> None:
    names = [f"r{i}" for i in range(12)]
    for name in names:
        queued(database, name)
    claimed: list[str] = []

    def work(worker: str) -> None:
        for _ in range(len(names)):
            with database.writing() as connection:
                waiting = runs.queued(connection)
                row = runs.claim(connection, waiting[0].id, worker, 1.0) if waiting else None
            if row is not None:
                claimed.append(row.run_id)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(names)


def test_nobody_waits_for_all_the_runs_of_somebody_else(database: Database) -> None:
    for name, person in [("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "ben"), ("c1", "cem"), ("b2", "ben")]:
        queued(database, name, created_by=person)

    def order() -> list[str]:
        with database.reading() as connection:
            return [run.run_id for run in runs.queued(connection)]

    def begin(name: str) -> None:
        with database.writing() as connection:
            (waiting,) = (run for run in runs.queued(connection) if run.run_id == name)
            assert runs.claim(connection, waiting.id, "w", 1.0)
            now_at = f"2026-01-01T00:00:0{len(begun)}"
            connection.execute(
                text("UPDATE runs SET started_at = :at WHERE run_id = :name"), {"at": now_at, "name": name}
            )
        begun.append(name)

    begun: list[str] = []
    assert order() == ["a1", "a2", "a3", "b1", "c1", "b2"]
    begin("a1")
    assert order() == ["b1", "c1", "b2", "a2", "a3"], "ann has a run in progress"
    with database.writing() as connection:
        connection.execute(text("UPDATE runs SET state = 'done' WHERE run_id = 'a1'"))
    assert order() == ["b1", "c1", "b2", "a2", "a3"], "ann had the last turn"
    begin("b1")
    begin("c1")
    assert order() == ["a2", "a3", "b2"]


def test_a_run_is_taken_over_by_one_and_then_not_noted_by_the_other(database: Database) -> None:
    queued(database, "r")
    with database.writing() as connection:
        row = runs.claim(connection, runs.queued(connection)[0].id, "old", 1.0)
        assert row is not None
        assert runs.take_over(connection, row, "new", 2.0)
        assert not runs.take_over(connection, row, "third", 2.0)
        assert not runs.note(connection, "r", "old", pid=1)
        assert runs.note(connection, "r", "new", pid=1)


@pytest.fixture
def run(database: Database) -> int:
    """30 answers with two scores each; every third of metric a is an error."""
    number = queued(database, "r")
    keys = {
        "run": number,
        "value": None,
        "reason": "so",
        "error_type": None,
        "error": None,
        "path": None,
    }
    keys |= {"repeat": 0, "member_of": None, "cost_usd": None, "latency_s": None}
    answered: list[dict[str, Any]] = []
    scored: list[dict[str, Any]] = []
    for i in range(30):
        said = {"question": f"Question {i}?", "answer": "100% of it", "reference": None, "error": None}
        place = {"run": number, "position": i, "dataset": "d", "case_id": f"c{i}"}
        answered.append({**place, "target": "t", "target_repeat": 0, "tags": [], **said})
        state, value = ("error", None) if i % 3 == 0 else ("scored", i / 30)
        scored.append({**keys, "position": i, "n": 0, "metric": "a", "judge": "j", "status": state, "score": value})
        scored.append(
            {**keys, "position": i, "n": 1, "metric": "b", "judge": None, "status": "scored", "score": i / 30}
        )
    tagged = [{"run": number, "tag": "even", "position": i} for i in range(0, 30, 2)]
    steps = [{"run": number, "position": 3, "n": 0, "steps": "[1]"}]
    with database.writing() as connection:
        scores.put(connection, answered, tagged, scored, steps)
    return number


@pytest.mark.parametrize("max_rare", [5000, 3], ids=["rare", "many"])
@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        (ScoreFilter(), lambda i, n: True),
        (ScoreFilter(metric="a"), lambda i, n: n == 0),
        (ScoreFilter(status="error"), lambda i, n: n == 0 and i % 3 == 0),
        (ScoreFilter(metric="b", low=0.5), lambda i, n: n == 1 and i >= 15),
        (ScoreFilter(high=0.2), lambda i, n: i <= 6 and not (n == 0 and i % 3 == 0)),
        (ScoreFilter(tag="even"), lambda i, n: i % 2 == 0),
        (ScoreFilter(text="QUESTION 7?"), lambda i, n: i == 7),
        (ScoreFilter(text="100%"), lambda i, n: True),
        (ScoreFilter(text="1_0"), lambda i, n: False),
        (ScoreFilter(passed=True), lambda i, n: i <= 15 if n else i >= 15 and i % 3 != 0),
        (ScoreFilter(passed=False), lambda i, n: i > 15 if n else i < 15 and i % 3 != 0),
        (
            ScoreFilter(passed=True, tag="even", text="question 1"),
            lambda i, n: (i, n) in {(10, 1), (12, 1), (14, 1), (16, 0)},
        ),
        (ScoreFilter(positions=[4], metric="b", tag="even"), lambda i, n: (i, n) == (4, 1)),
    ],
)
def test_pages_are_in_order_and_hold_what_is_wanted(
    database: Database,
    run: int,
    wanted: ScoreFilter,
    holds: Callable[[int, int], bool],
    max_rare: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evalflow.addons.studio.store.scores.MAX_RARE", max_rare)
    seen: list[tuple[int, int]] = []
    with database.reading() as connection:
        found = RunScores(connection, run, LIMITS)
        while page := found.page(wanted, seen[-1] if seen else None, 7):
            seen += [score.place for score in page]
        ranking = rank_answers(found, {"a": True, "b": False})
        for order in (ResultOrder("input"), ResultOrder("worst"), ResultOrder("low", "b")):
            assert sorted(positions_in_order(found, wanted, order, lambda: ranking)) == sorted({i for i, _ in seen})
    assert seen == [(i, n) for i in range(30) for n in range(2) if holds(i, n)]


def test_the_table_and_its_filters_agree_on_a_labelled_answer_with_an_error(database: Database, run: int) -> None:
    """The error stays one, as in `cases --failed`."""
    people = {(0, "a"): PeopleScore(1.0, passed=True), (1, "a"): PeopleScore(None, None)}
    with database.reading() as connection:
        labelled = RunScores(connection, run, LIMITS, people)
        for state in ("scored", "error", "undefined"):
            wanted = ScoreFilter(metric="a", status=state)
            found = positions_in_order(labelled, wanted, ResultOrder("input"), lambda: rank_answers(labelled, {}))
            shown = {row.position for row in result_rows(labelled, range(30)) if row.cells["a"].status == state}
            assert set(found) == shown
            assert (0 in shown, 1 in shown) == (state == "error", state == "undefined")


def test_shared_cases_differ_if_any_answer_to_them_does(database: Database) -> None:
    one, other = queued(database, "one"), queued(database, "other")
    own = {"dataset": "d", "target": "t", "tags": [], "question": "q", "reference": None, "error": None}
    said = {one: ["a", "a", None, "a"], other: ["b", "a", None, "a"]}  # answers 0 and 1 are of the same case
    rows = [
        {**own, "run": run, "position": i, "case_id": f"c{max(i, 1)}", "target_repeat": int(i == 0), "answer": answer}
        for run, given in said.items()
        for i, answer in enumerate(given)
    ]
    rows[-1] |= {"error": "late"}
    rows.append({**own, "run": other, "position": 4, "case_id": "c4", "target_repeat": 0, "answer": "a"})
    with database.writing() as connection:
        scores.put(connection, rows, [], [], [])
        found = scores.common_cases(connection, one, other)
    assert found == [("d", "c1", "q", True), ("d", "c2", "q", False), ("d", "c3", "q", True)]


def test_nothing_passes_or_fails_without_a_threshold(database: Database, run: int) -> None:
    with database.reading() as connection:
        assert RunScores(connection, run).page(ScoreFilter(passed=False), None, 7) == []


@pytest.mark.parametrize("is_descending", [False, True])
def test_scores_are_paged_by_their_number(database: Database, run: int, is_descending: bool) -> None:
    seen: list[tuple[float, int, int]] = []
    with database.reading() as connection:
        after = None
        found = RunScores(connection, run)
        while page := found.page_by_score(ScoreFilter(metric="a"), after, 3, is_descending=is_descending):
            seen += [(score.score or 0.0, *score.place) for score in page]
            after = seen[-1]
    assert [position for _, position, _ in seen] == sorted((i for i in range(30) if i % 3), reverse=is_descending)


def test_pass_rates_and_distributions_count_what_is_scored(database: Database, run: int) -> None:
    with database.reading() as connection:
        found = RunScores(connection, run)
        assert [found.passing(limit) for limit in LIMITS] == [(10, 20), (16, 30)]
        assert found.histogram("b", [0, 0.5, 1], None, higher=True) == [(15, 0), (15, 0)]
        assert found.histogram("b", [0, 0.5, 1], 0.8, higher=True) == [(15, 0), (15, 6)]
        assert found.histogram("b", [0, 0.5, 1], 0.8, higher=False) == [(15, 15), (15, 10)]
        assert found.span("b") == (0, 29 / 30)
        assert found.tags() == [("even", 15)]
        score = found.get((3, 0))
        assert score is not None
        assert score.steps == [1]


def test_a_row_that_is_written_again_is_replaced_or_stays(database: Database, run: int) -> None:
    with database.writing() as connection:
        answer = RunScores(connection, run).answer(4)
        assert answer is not None
        row = asdict(answer) | {"run": run, "answer": "Later.", "error": None}
        del row["answer_error"]
        scores.put(connection, [row], [], [], [], is_replaced=False)
        assert RunScores(connection, run).answer(4) == answer
        tag = {"run": run, "tag": "even", "position": 4}
        scores.put(connection, [row], [tag], [], [])
        assert RunScores(connection, run).answer(4) == replace(answer, answer="Later.")
        assert scores.statuses(connection, run, [(3, 0), (4, 0), (99, 0)]) == {(3, 0): "error", (4, 0): "scored"}


def test_a_run_that_is_deleted_takes_its_scores_along(database: Database, run: int) -> None:
    with database.writing() as connection:
        assert not runs.delete_run(connection, "r")
        runs.cancel(connection, "r")
        assert runs.delete_run(connection, "r")
        assert RunScores(connection, run).page(ScoreFilter(), None, 1) == []


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_file_that_is_not_the_one_that_was_opened_is_neither_read_nor_written(tmp_path: Path, how: str) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'a.db'}")) as database:
        queued(database, "r")
        (tmp_path / "a.db").rename(tmp_path / "away.db")
        if how == "replaced":
            open_database(f"sqlite:///{tmp_path / 'a.db'}").close()
        for using in (database.reading, database.writing):
            with pytest.raises(InfrastructureError, match=f"^the database was {how}.* while it was open"), using():
                raise AssertionError("it was used")
        assert (tmp_path / "a.db").exists() == (how == "replaced")
        if how == "deleted":
            (tmp_path / "away.db").replace(tmp_path / "a.db")
            with database.reading() as connection:
                assert runs.get(connection, "r") is not None


def test_a_file_that_is_no_database_any_more_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Which one it is, and why, is only in the log: strangers see the error too."""
    with closing(open_database(f"sqlite:///{tmp_path / 'a.db'}")) as database:
        database.close()
        (tmp_path / "a.db").write_bytes(b"no database" * 1000)
        with pytest.raises(InfrastructureError, match=r"^the database does not answer\n"), database.reading():
            raise AssertionError("it was used")
    assert "a.db does not answer: file is not a database" in caplog.text


def test_a_fault_that_lasts_is_logged_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with closing(open_database(f"sqlite:///{tmp_path / 'a.db'}")) as database:
        database.close()

        def asked(times: int) -> list[str]:
            caplog.clear()
            for _ in range(times):
                with pytest.raises(InfrastructureError):
                    database.check()
            return [record.getMessage().partition("a.db ")[2] for record in caplog.records]

        (tmp_path / "a.db").write_bytes(b"no database" * 1000)
        assert asked(20) == ["does not answer: file is not a database"]
        (tmp_path / "a.db").unlink()
        assert asked(20) == ["was deleted while it was open"], "another fault"
        now += 59
        assert asked(20) == []
        now += 2
        assert asked(20) == ["was deleted while it was open"]

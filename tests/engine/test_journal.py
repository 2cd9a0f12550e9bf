"""Answers on disk: a line holds all of one, a book finds it again, and nobody is asked twice."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import AnswerBook, JournalSink, RememberingTarget, parse_answer
from evalflow.records import Answer, Context, Message, Usage

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=2))
MAP = st.dictionaries(TEXT, JSON, max_size=2)
ANSWERS = st.builds(
    Answer,
    dataset=TEXT,
    index=st.integers(min_value=0),
    case_id=TEXT,
    target=TEXT,
    target_repeat=st.integers(0, 3),
    status=st.sampled_from(["answered", "absent", "error"]),
    messages=st.lists(st.builds(Message, TEXT, TEXT, st.none() | MAP), max_size=2).map(tuple),
    answer=st.none() | TEXT,
    actual=JSON,
    contexts=st.none() | st.lists(st.builds(Context, TEXT, st.none() | TEXT), max_size=2).map(tuple),
    metadata=st.none() | MAP,
    requests=st.integers(0, 9),
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    cost_usd=st.none() | NUMBER,
    saved_usd=st.none() | NUMBER,
    latency_s=st.none() | NUMBER,
    cached=st.booleans(),
    error_type=st.none() | TEXT,
    error=st.none() | TEXT,
)


@given(ANSWERS)
def test_a_line_holds_all_of_an_answer(tmp_path_factory: pytest.TempPathFactory, answer: Answer) -> None:
    answer = replace(answer, requests=answer.requests or 1)  # recorded answers are not written
    folder = tmp_path_factory.mktemp("r")
    written(folder, answer)
    assert parse_answer(RunFolder(folder).answers.read_bytes()) == answer


def test_a_line_of_before_answers_said_their_requests_is_read_too(kit, tmp_path):
    written(tmp_path / "r", kit.answer(kit.cases(1)[0]))
    row = json.loads(RunFolder(tmp_path / "r").answers.read_bytes())
    del row["requests"]
    answer = parse_answer(json.dumps(row).encode())
    assert answer is not None
    assert answer.requests == 0


def written(folder, *answers: Answer) -> Tally:
    tally = Tally()
    folder.mkdir(exist_ok=True)
    with closing(JournalSink(RunFolder(folder), tally)) as journal:
        for answer in answers:
            journal.write(answer)
    return tally


def book(folder, *datasets: str) -> AnswerBook:
    found = AnswerBook()
    found.add(RunFolder(folder).answers, datasets or ("d",))
    return found


def test_the_journal_keeps_generated_answers_and_counts_what_they_took(kit, tmp_path):
    made, recorded, failed = kit.cases(3)
    answers = [
        kit.answer(made, usage=Usage(10, 3), cost_usd=0.5),
        kit.answer(recorded, latency_s=None, requests=0),
        kit.answer(failed, status="error", error_type="prompt", latency_s=None, requests=0, answer=None),
    ]
    tally = written(tmp_path / "r", *answers)
    assert (tally.requests, tally.input_tokens, tally.cost) == (1, 10, 0.5)
    assert tally.answers == {"answered": 1, "error": 1}
    with book(tmp_path / "r") as found:
        assert len(found) == 2
        assert found.get("d", "c0", "fake", 0) == answers[0]
        assert found.get("d", "c1", "fake", 0) is None
        assert found.get("d", "c2", "fake", 0) == answers[2]


def test_for_one_case_no_line_of_another_is_parsed(kit, tmp_path):
    cases = kit.cases(2)
    written(tmp_path / "r", *(kit.answer(case) for case in cases))
    with RunFolder(tmp_path / "r").answers.open("ab") as file:
        file.write(b'{"case_id": "c7", and this is not JSON\n')
    with AnswerBook() as found:
        found.add(RunFolder(tmp_path / "r").answers, ("d",), case_ids=["c1"])
        assert len(found) == 1
        assert found.get("d", "c1", "fake", 0) == kit.answer(cases[1])


def test_of_several_lines_for_one_answer_the_last_counts(kit, tmp_path):
    (case,) = kit.cases(1)
    written(tmp_path / "r", kit.answer(case, answer="old"), kit.answer(case, answer="new"))
    with book(tmp_path / "r") as found:
        answer = found.get("d", "c0", "fake", 0)
    assert answer is not None
    assert answer.answer == "new"


@pytest.mark.parametrize("other", [("e", "c0", "fake", 0), ("d", "c1", "fake", 0), ("d", "c0", "x", 0)])
def test_another_answer_is_not_taken_for_it(kit, tmp_path, other: Any):
    written(tmp_path / "r", kit.answer(kit.cases(1)[0]))
    with book(tmp_path / "r") as found:
        assert found.get(*other) is None
        assert found.get("d", "c0", "fake", 1) is None


def test_a_torn_line_and_a_missing_file_hold_nothing(kit, tmp_path):
    written(tmp_path / "r", kit.answer(kit.cases(1)[0]))
    with RunFolder(tmp_path / "r").answers.open("ab") as file:
        file.write(b'{"dataset":"d","case_id":"c1"')
    with book(tmp_path / "r") as found, book(tmp_path / "none") as nothing:
        assert (len(found), len(nothing)) == (1, 0)


def test_answers_to_other_datasets_are_left_out(kit, tmp_path):
    (case,) = kit.cases(1)
    written(tmp_path / "r", kit.answer(case), kit.answer(replace(case, dataset="e")))
    with book(tmp_path / "r", "e") as found:
        assert found.get("d", "c0", "fake", 0) is None
        assert found.get("e", "c0", "fake", 0) is not None


@pytest.mark.anyio
async def test_what_stands_in_the_book_is_not_asked_for_again_and_counts_no_request(kit, tmp_path):
    known, failed, new = kit.cases(3)
    lost = kit.answer(failed, status="error", error_type="timeout", answer=None)
    written(tmp_path / "r", kit.answer(known, usage=Usage(10, 3), cost_usd=0.5), lost)
    target = kit.target()
    with book(tmp_path / "r") as found:
        remembering = RememberingTarget(target, found)
        moved = replace(known, index=7)
        answers = [await remembering.answer(case, 0) for case in (moved, failed, new)]
    assert target.asked == [("c1", 0), ("c2", 0)]
    assert [answer.cached for answer in answers] == [True, False, False]
    assert (answers[0].answer, answers[0].index, answers[0].requests) == ("about c0", 7, 0)
    again = written(tmp_path / "s", *answers)
    assert (again.requests, again.cached, again.input_tokens) == (2, 1, 0)

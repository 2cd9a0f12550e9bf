from dataclasses import replace

import pytest

from evalflow.errors import UserError
from evalflow.records import Answer, Context, Message
from evalflow.report.results_csv import as_answered, rows


def test_every_case_meets_its_own_scores_in_input_order(make_case, make_scores):
    cases = [make_case(0), make_case(1), make_case(2)]
    scores = make_scores(
        [
            {"case_id": "case-0", "metric": "a", "score": 0.1},
            {"case_id": "case-0", "metric": "b", "score": 0.2},
            {"case_id": "case-2", "metric": "a", "score": 0.3},
        ]
    )
    joined = list(rows(cases, lambda *_: None, scores))
    assert [(row.case.id, [score["score"] for score in row.scores]) for row in joined] == [
        ("case-0", [0.1, 0.2]),
        ("case-1", []),
        ("case-2", [0.3]),
    ]


def test_targets_and_repeats_are_rows_of_their_own(make_case, make_scores):
    scores = make_scores(
        [
            {"case_id": "case-0", "target": "new", "target_repeat": 0, "score": 0.1},
            {"case_id": "case-0", "target": "new", "target_repeat": 1, "score": 0.2},
            {"case_id": "case-0", "target": "old", "target_repeat": 0, "score": 0.3},
        ]
    )
    asked = []
    joined = list(rows([make_case(0)], lambda _, target, repeat: asked.append((target, repeat)), scores))
    assert [(row.target, row.target_repeat, row.scores[0]["score"]) for row in joined] == [
        ("new", 0, 0.1),
        ("new", 1, 0.2),
        ("old", 0, 0.3),
    ]
    assert asked == [("new", 0), ("new", 1), ("old", 0)]


def test_the_same_id_in_two_datasets_is_two_cases(make_case, make_scores):
    scores = make_scores(
        [{"case_id": "x", "dataset": "first", "score": 0.1}, {"case_id": "x", "dataset": "second", "score": 0.2}]
    )
    cases = [make_case(0, id="x", dataset="first"), make_case(0, id="x", dataset="second")]
    assert [row.scores[0]["score"] for row in rows(cases, lambda *_: None, scores)] == [0.1, 0.2]


def test_scores_are_handed_out_across_batches(make_case, make_scores, monkeypatch):
    monkeypatch.setattr("evalflow.report.results_csv._BATCH", 3)
    cells = [{"case_id": f"case-{i}", "metric": m, "score": i / 100} for i in range(40) for m in ("a", "b")]
    joined = list(rows([make_case(i) for i in range(40)], lambda *_: None, make_scores(cells)))
    assert [[score["score"] for score in row.scores] for row in joined] == [[i / 100] * 2 for i in range(40)]


def test_scores_of_a_case_that_is_gone_are_an_error(make_case, make_scores):
    scores = make_scores([{"case_id": "case-0", "score": 0.1}, {"case_id": "gone", "score": 0.2}])
    with pytest.raises(UserError, match="'gone' was scored, but is no longer at its place in the data"):
        list(rows([make_case(0)], lambda *_: None, scores))


def test_as_answered_takes_the_answer_and_keeps_what_it_does_not_bring(make_case):
    case = make_case(0, contexts=(Context("recorded"),), metadata={"a": 1})
    answer = Answer(dataset="rag", index=0, case_id="case-0", target="t", answer="new", metadata={"b": 2})
    merged = as_answered(case, answer)
    assert merged.answer == "new"
    assert merged.contexts == (Context("recorded"),)
    assert merged.metadata == {"b": 2}


def test_a_case_without_an_answer_keeps_no_recorded_one(make_case):
    case = make_case(0, actual=True, metadata={"a": 1})
    bare = as_answered(case, None)
    assert (case.answer, bare.answer, bare.actual, bare.metadata) == ("Rule 0 says so.", None, None, {"a": 1})


def test_a_conversation_is_shown_as_it_was_played(make_case):
    case = make_case(0)
    played = (*case.messages, Message("assistant", "Hi"), Message("user", "Go on"))
    answer = Answer(dataset="d", index=0, case_id=case.id, target="t", answer="So.", messages=played)
    assert as_answered(case, answer).messages == played
    broken = replace(answer, status="error", answer=None, messages=played[:2])
    assert as_answered(case, broken).messages == case.messages

"""Labels bound to answers: which count, which are left out, which are wrong."""

import pytest

from evalflow.labels.read import Elsewhere, LabelledAnswer, LeftOut, answer_hash, bind, parse
from evalflow.records import Answer


def read(value):
    if value not in ("0", "1", "0.5"):
        raise ValueError(f"{value!r} is not in 0..1")
    return float(value), value


def rows(*labels):
    return parse([(f"f:{line}", {"value": "1", "metric": "m", **row}) for line, row in enumerate(labels, 1)], "f").given


def said(case_id="a", repeat=0, digest="aa", dataset="d", target="bot", recorded=False):
    return LabelledAnswer(dataset, case_id, target, repeat, digest, recorded)


def bound(labels, answers, **more):
    return bind(rows(*labels), answers, {"m": read}, **more)


def answer(**said):
    return Answer(**{"dataset": "d", "index": 0, "case_id": "a", "target": "t", **said})


def test_the_hash_is_of_the_text_or_of_what_stands_for_it():
    assert answer_hash(answer(answer="Yes.")) == answer_hash(answer(answer="Yes.", case_id="b", actual=True))
    assert answer_hash(answer(answer="Yes.")) != answer_hash(answer(answer="yes."))
    assert answer_hash(answer(actual={"a": 1, "b": 2})) == answer_hash(answer(actual={"b": 2, "a": 1}))
    assert len(answer_hash(answer(answer="\ud800"))) == 16


def test_a_hash_binds_to_every_answer_that_says_so_and_to_no_other():
    answers = [said(repeat=0), said(repeat=1, digest="bb"), said(repeat=2)]
    found, left, problems = bound([{"case_id": "a", "answer_hash": "aa"}], answers)
    assert [one.answer.target_repeat for one in found] == [0, 2]
    assert (found[0].score, left, problems) == (1.0, LeftOut(), [])


def test_stale_labels_are_counted_and_left_out():
    labels = [{"case_id": "a", "answer_hash": "old"}, {"case_id": "a", "answer_hash": "aa", "target": "other"}]
    found, left, problems = bound(labels, [said()])
    assert (found, problems, left.stale, left.first_stale) == ([], [], 2, "f:1")


def test_without_a_hash_a_label_is_of_the_recorded_answer_only():
    found, left, _ = bound([{"case_id": "a"}, {"case_id": "b"}], [said(recorded=True), said("b")])
    assert [one.answer.case_id for one in found] == ["a"]
    assert (left.unbound, left.stale) == (1, 0)


def test_several_people_may_label_one_answer_and_nobody_twice():
    labels = [{"case_id": "a", "by": "ana"}, {"case_id": "a", "by": "ben"}, {"case_id": "a", "by": "ana"}]
    found, _, [problem] = bound(labels, [said(recorded=True)])
    assert len(found) == 3
    assert (problem.what, problem.where) == ("two labels by ana for one answer to case 'a' on m", "f:3")
    assert "f:1" in problem.hint


def test_two_answers_to_a_case_may_be_labelled_by_one_person():
    labels = [{"case_id": "a", "answer_hash": "aa"}, {"case_id": "a", "answer_hash": "bb"}]
    found, _, problems = bound(labels, [said(), said(repeat=1, digest="bb")])
    assert (len(found), problems) == (2, [])


def test_every_problem_is_told_with_its_line():
    labels = [
        {"case_id": "z"},
        {"case_id": "a", "value": "7"},
        {"case_id": "a", "metric": "n"},
        {"case_id": "b"},
        {"case_id": "a", "dataset": "e"},
    ]
    answers = [said(recorded=True), said("b", recorded=True), said("b", dataset="e", recorded=True)]
    _, _, problems = bound(labels, answers)
    assert [(problem.where, problem.what) for problem in problems] == [
        ("f:1", "the run has no case 'z'"),
        ("f:2", "the value of m: '7' is not in 0..1"),
        ("f:3", "the run has no metric 'n'"),
        ("f:4", "case 'b' is in d and in e"),
        ("f:5", "dataset 'e' has no case 'a'"),
    ]


def test_a_whole_number_is_one_id_as_a_float_and_a_text_with_a_point_is_asked_about():
    [found], _, problems = bound([{"case_id": 7.0, "value": "1"}, {"case_id": "7.0"}], [said("7", recorded=True)])
    assert found.answer.case_id == "7"
    assert [(problem.what, problem.hint.rpartition("; ")[2]) for problem in problems] == [
        ("the run has no case '7.0'", "is it 7? pandas writes it so after astype('Int64')")
    ]


def test_what_this_run_did_not_score_is_left_out_and_counted():
    labels = [{"case_id": "z"}, {"case_id": "a", "metric": "other"}]
    found, left, problems = bound(labels, [said(recorded=True)], elsewhere=Elsewhere(metrics={"other"}, partial=True))
    assert (found, problems, left.absent, left.other_metrics) == ([], [], 1, {"other": 1})


@pytest.mark.parametrize("value", ["0", "0.5", "1"])
def test_values_keep_their_own_scale(value):
    [one], _, _ = bound([{"case_id": "a", "value": value}], [said(recorded=True)])
    assert (one.score, one.value) == (float(value), value)


def test_nothing_to_score_is_a_label_without_a_score():
    def judged(value):
        return (None, value) if value == "undefined" else read(value)

    found, left, problems = bind(rows({"case_id": "a", "value": "undefined"}), [said(recorded=True)], {"m": judged})
    assert (problems, left) == ([], LeftOut())
    assert [(one.row["human"], one.row["value"], one.row["use"]) for one in found] == [(None, "undefined", "label")]


def test_what_other_runs_of_the_sweep_have_is_left_out_and_counted():
    others = Elsewhere(metrics={"other"}, cases={"z": {"d2"}})
    labels = [{"case_id": "z"}, {"case_id": "z", "dataset": "d2"}, {"case_id": "z", "dataset": "d3"}, {"case_id": "y"}]
    found, left, problems = bound(labels, [said(recorded=True)], elsewhere=others)
    assert (found, left.absent, len(problems)) == ([], 2, 2)


def test_what_enters_no_mean_is_counted():
    labels = [
        {"case_id": "a", "by": "ana", "review": "r", "rubric": 1},
        {"case_id": "a", "by": "ana", "review": "r", "rubric": 2},
        {"case_id": "a", "by": "ana", "blind": False},
        {"case_id": "a", "by": "ben", "draw": "hand"},
        {"case_id": "a", "by": "cem", "value": None, "missing": "declined"},
        {"case_id": "a", "by": "eva", "kind": "resolution", "rubric": 1},
    ]
    found, left, problems = bound(labels, [said(recorded=True)])
    assert ([one.label.use for one in found], problems) == (["label", "apart", "apart", "missing", "resolution"], [])
    assert (left.older_rubric, left.unblinded, left.by_hand, left.missing) == (1, 1, 1, {"declined": 1})
    assert found[3].row["human"] is None


def test_an_answer_has_one_resolution():
    labels = [{"case_id": "a", "by": by, "kind": "resolution"} for by in ("ana", "ben")]
    _, _, [problem] = bound(labels, [said(recorded=True)])
    assert problem.what == "two resolutions for one answer to case 'a' on m"

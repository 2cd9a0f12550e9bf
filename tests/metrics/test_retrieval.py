"""The kinds retrieval and set_match, and labels that hold together: golden numbers, and what leaves them undefined."""

import json
import math

import pytest

from evalflow.errors import UserError
from evalflow.metrics.kinds.retrieval import RankedIds, ids_of, measures

RESULTS = [{"chunk_uid": "b", "exact_path": "/x"}, {"chunk_uid": "a", "exact_path": "/x"}, {"chunk_uid": "d"}]


def test_measures_by_hand():
    found = measures(RankedIds(("a", "c"), ("b", "a", "d")), [1, 2, 10])
    assert found["precision"] == pytest.approx(1 / 3)
    assert found["recall"] == 0.5
    assert found["f1"] == pytest.approx(2 / 5)
    assert found["f2"] == pytest.approx(5 / 11)
    assert found["mrr"] == 0.5
    assert found["ndcg"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert (found["hit"], found["hit@1"], found["hit@2"]) == (1.0, 0.0, 1.0)
    assert (found["precision@1"], found["precision@2"], found["precision@10"]) == (0.0, 0.5, 0.1)
    assert (found["recall@1"], found["recall@2"]) == (0.0, 0.5)
    assert found["ndcg@1"] == 0.0


def test_a_perfect_ranking_is_1_throughout():
    found = measures(RankedIds(("a", "b"), ("a", "b")), [1, 2])
    assert {name: value for name, value in found.items() if value != 1.0} == {"recall@1": 0.5}


def test_what_is_undefined():
    nothing_retrieved = measures(RankedIds(("a",), ()), [1])
    assert {name for name, value in nothing_retrieved.items() if value is None} == {"precision", "precision@1"}
    assert {value for value in nothing_retrieved.values() if value is not None} == {0.0}
    nothing_expected = measures(RankedIds((), ("a",)), [1])
    undefined = {"recall", "mrr", "ndcg", "hit", "recall@1", "hit@1", "ndcg@1"}
    assert {name for name, value in nothing_expected.items() if value is None} == undefined
    assert set(measures(RankedIds((), ()), [1]).values()) == {None}


def test_ids_are_found_in_objects_and_count_once():
    assert ids_of([*RESULTS, {"chunk_uid": "a"}], "chunk_uid") == ("b", "a", "d")
    assert ids_of(RESULTS[0], "exact_path") == ("/x",)
    assert ids_of([1, "2"], None) == ("1", "2")
    with pytest.raises(ValueError, match="item 2 has no exact_path"):
        ids_of(RESULTS, "exact_path")
    assert ids_of([3.0, 3, "3", 0.5], None) == ("3", "0.5")
    with pytest.raises(ValueError, match="expected an id, got an object; name the key of its id"):
        ids_of(RESULTS, None)
    with pytest.raises(ValueError, match="item 0: expected an id, got a boolean"):
        ids_of([True], None)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("['b', 'a']", ("b", "a")),
        ('["b", "a"]', ("b", "a")),
        ("b|a", ("b", "a")),
        ("b; a ;", ("b", "a")),
        ("b\na", ("b", "a")),
        ("[]", ()),
        ("", ()),
        ("page 3 of the guide", ("page 3 of the guide",)),
        ("[3, 4]", ("3", "4")),
    ],
)
def test_ids_are_read_from_the_text_of_a_cell(text, ids):
    assert ids_of(text, None) == ids


def test_ids_of_objects_are_read_from_the_text_of_a_cell():
    assert ids_of(str(RESULTS), "chunk_uid") == ids_of(json.dumps(RESULTS), "chunk_uid") == ("b", "a", "d")
    assert ids_of(str(RESULTS[0]), "chunk_uid") == ("b",)


def test_a_text_that_may_be_one_id_or_several_is_refused():
    with pytest.raises(ValueError, match=r"'a, b' may be one id or several; separate ids by \|, or write JSON"):
        ids_of("a, b", None)
    with pytest.raises(ValueError, match="there is no comma before"):
        ids_of("['a' 'b']", None)
    assert ids_of(["a, b"], None) == ("a, b",)


def scored(bench, expected, actual, **more):
    values = {"kind": "retrieval", "needs": ["expected", "actual"], "id": "chunk_uid", "at": [2], **more}
    return bench.score(
        bench.build("mine", values), case=bench.case(expected=expected), answer=bench.answer(actual=actual)
    )


def test_a_case_says_what_was_found_and_missed(bench):
    outcome = scored(bench, ["a", "c"], RESULTS)
    assert (outcome.status, outcome.score) == ("scored", pytest.approx(0.4))
    assert outcome.reason == "found 1 of 2 expected in 3 retrieved; missed: c; not expected: b, d"
    assert outcome.value["recall@2"] == 0.5


def test_a_case_without_its_score_is_undefined_and_says_why(bench):
    outcome = scored(bench, [], [], score="recall")
    assert (outcome.status, outcome.reason) == ("undefined", "no recall: nothing is expected and nothing retrieved")
    assert scored(bench, [], RESULTS, score="precision").score == 0.0
    half = scored(bench, ["a"], [])
    assert half.reason == "found 0 of 1 expected in 0 retrieved; missed: a; no precision: nothing is retrieved"


def test_what_cannot_be_ids_is_an_error(bench):
    outcome = scored(bench, ["a"], [{"uid": "a"}])
    assert (outcome.status, outcome.error) == ("error", "actual: item 0 has no chunk_uid")


def test_bad_declarations_are_told_before_the_run(bench):
    with pytest.raises(UserError, match=r"there is no measure 'recal'"):
        scored(bench, [], [], score="recal")
    with pytest.raises(UserError, match=r"`relevant` is 'expected.ids', which `needs` does not declare"):
        scored(bench, [], [], relevant="expected.ids")


def topics(bench, match, truth=("a", "b"), predicted=("b", "a"), only_primary=False):
    fields = ["primary"] if only_primary else ["primary", "secondary"]
    values = {
        "kind": "set_match",
        "needs": ["expected", "actual"],
        "match": match,
        "truth": [f"expected.{name}" for name in fields],
        "prediction": ["actual.primary", "actual.secondary"],
    }
    sides = [dict(zip(("primary", "secondary"), labels, strict=False)) for labels in (truth, predicted)]
    metric = bench.build("mine", values)
    return bench.score(metric, case=bench.case(expected=sides[0]), answer=bench.answer(actual=sides[1]))


@pytest.mark.parametrize(
    ("match", "truth", "predicted", "score"),
    [
        ("in_order", ("a", "b"), ("a", "b"), 1),
        ("in_order", ("a", "b"), ("b", "a"), 0),
        ("in_order", ("a",), ("a",), 1),
        ("in_order", ("a",), ("a", "b"), 0),
        ("same", ("a", "b"), ("b", "a"), 1),
        ("same", ("a",), ("a", "b"), 0),
        ("any", ("a", "b"), ("c", "b"), 1),
        ("any", ("a", "b"), ("c",), 0),
        ("any", ("a",), (), 0),
    ],
)
def test_when_sets_match(bench, match, truth, predicted, score):
    assert topics(bench, match, truth, predicted or ("c",)).score == score


@pytest.mark.parametrize("match", ["in_order", "same", "any"])
def test_where_no_label_is_expected_none_is_right(bench, match):
    assert topics(bench, match, truth=(None, None), predicted=(None, "")).score == 1
    outcome = topics(bench, match, truth=(None,), predicted=("a", None))
    assert (outcome.score, outcome.reason) == (0, "predicted a, expected nothing")
    assert topics(bench, match, truth=(), predicted=("a",)).reason == "no field says what is expected"


def test_a_predicted_value_that_is_no_label_is_wrong_and_a_true_one_an_error(bench):
    assert topics(bench, "any", predicted=(3, None)).reason == "predicted 3, expected a and b"
    outcome = topics(bench, "any", truth=({"a": 1}, None))
    assert outcome.error == "expected.primary: expected a label, got an object"
    assert topics(bench, "any").reason == "predicted b and a, expected a and b"
    with pytest.raises(UserError, match=r"`prediction\[0\]` is 'actual', which"):
        bench.build(
            "m",
            {
                "kind": "set_match",
                "match": "any",
                "needs": ["expected"],
                "truth": ["expected"],
                "prediction": ["actual"],
            },
        )


def per_label(bench, expected, actual):
    metric = bench.build("m", {"kind": "classification", "needs": ["expected", "actual"], "per_label": True})
    return bench.score(metric, case=bench.case(expected=expected), answer=bench.answer(actual=actual))


def test_labels_that_hold_together(bench):
    outcome = per_label(bench, {"pii": True, "rude": False}, {"pii": False, "rude": False})
    assert (outcome.score, outcome.reason) == (0.0, "pii: predicted false, but it is true")
    outcome = per_label(bench, {"pii": True}, {"pii": True, "odd": True})
    assert outcome.reason == "odd: predicted true, but it is false; expected leaves out odd, taken as false"
    assert per_label(bench, {"pii": True}, {"pii": True}).score == 1.0
    assert per_label(bench, "{'pii': True}", '{"pii": true}').score == 1.0
    assert per_label(bench, {"pii": "TRUE", "rude": "no"}, {"pii": True}).score == 1.0


def test_a_label_that_is_not_true_or_false_is_an_error(bench):
    assert per_label(bench, {"pii": "maybe"}, {"pii": True}).error == "expected.pii is text, not true or false"
    assert per_label(bench, True, {"pii": True}).error.startswith("expected is a boolean (true), not an object")


def test_a_confidence_lies_in_0_to_1(bench):
    values = {
        "kind": "classification",
        "needs": ["expected", "actual.outcome"],
        "prediction": "actual.outcome",
        "confidence": "actual.confidence",
    }
    metric = bench.build("m", values)
    assert metric.figures.confidence

    def outcome(**said):
        return bench.score(metric, case=bench.case(expected="a"), answer=bench.answer(actual={"outcome": "a", **said}))

    for given in (0.7, "0.70", " 0.7 "):
        assert outcome(confidence=given).value == {"truth": "a", "prediction": "a", "confidence": 0.7}
    assert outcome().value["confidence"] is None
    assert outcome(confidence=70).error == "actual.confidence is 70, but a confidence lies in 0..1"

"""Labels compared as labels: by their names, read by the type of the true one, and wrong if they are none of these."""

from typing import Any

import pytest

from evalflow.summary.figures import compute, decode_values


@pytest.fixture
def classified(bench):
    """Score a prediction against a truth; further keys are the metric's."""

    def score(truth, prediction, generated=False, **more):
        metric = bench.build("mine", {"kind": "classification", "needs": ["expected", "actual"], **more})
        told = {"latency_s": 0.5, "requests": 1} if generated else {}
        answer = bench.answer(answer=None, actual=prediction, **told)
        return bench.score(metric, case=bench.case(expected=truth), answer=answer)

    return score


@pytest.mark.parametrize(
    ("truth", "prediction", "right"),
    [
        ("billing", "billing", True),
        ("billing", "Billing", False),
        ("3", 3, True),
        ("3", "3", True),
        (3, "3", True),
        (3, "3.0", True),
        (3, 3.0, True),
        ("3", 3.0, True),
        ("3.0", "3", False),
        ("250.10", "250.1", False),
        ("250.10", 250.1, False),
        ("250.10", "250.10", True),
        ("1e5", "100000", False),
        (100000, "1e5", True),
        (True, "true", True),
        (True, "True", True),
        (True, True, True),
        (True, "false", False),
        ("true", True, True),
        ("False", False, True),
        ("TRUE", "true", True),
        (True, 1, False),
        (True, "yes", False),
        (1, True, False),
        ("null", None, True),
    ],
)
def test_labels_are_equal_by_name(classified, truth, prediction, right):
    found = classified(truth, prediction, generated=True)
    assert (found.status, found.score) == ("scored", float(right)), found.reason


@pytest.mark.parametrize(
    ("prediction", "name"),
    [
        ("none", "none"),
        ("n/a", "n/a"),
        ("I would say that this is class 2.", "I would say that this is class 2."),
        (True, "true"),
        (None, "null"),
        ([2], "[2]"),
        ({"class": 2}, '{"class": 2}'),
        (float("nan"), "NaN"),
        ("", "(empty)"),
    ],
)
@pytest.mark.parametrize("truth", [2, "2", False])
def test_a_label_of_another_kind_is_a_wrong_prediction_under_its_own_name(classified, truth, prediction, name):
    found = classified(truth, prediction, generated=True)
    known = str(truth).lower()
    assert (found.status, found.score, found.reason) == ("scored", 0.0, f"predicted {name}, but it is {known}")


def test_a_prediction_that_is_absent_is_skipped(classified):
    assert classified("a", None).status == "skipped"
    assert classified(None, "a").status == "skipped"


@pytest.mark.parametrize("yes", [True, "true", "TRUE", "True", 1, "1", "yes"])
@pytest.mark.parametrize("no", [False, "false", 0, "0", "No"])
def test_with_a_positive_label_of_true_both_sides_are_read_as_true_or_false(classified, yes, no):
    said = [(yes, True), (no, "true"), (yes, no), (no, no), (yes, "unsure")]
    found = [classified(*one, positive=True) for one in said]
    assert [one.score for one in found] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert found[0].value == {"truth": True, "prediction": True}
    assert found[4].value == {"truth": True, "prediction": "unsure"}


def test_with_a_positive_label_that_is_a_number_texts_are_read_as_numbers(classified):
    for truth, prediction, score in (("1", "1.0", 1.0), (1, "1", 1.0), ("0", 1, 0.0), ("1", "many", 0.0)):
        assert classified(truth, prediction, positive=1).score == score


def _figures(bench, pairs: Any, **more: Any) -> dict[str, Any]:
    import polars as pl

    from evalflow.summary.journal import json_text

    metric = bench.build("mine", {"kind": "classification", "needs": ["expected", "actual"], **more})
    told = {"latency_s": 0.5, "requests": 1}
    found = [
        bench.score(metric, case=bench.case(expected=truth), answer=bench.answer(answer=None, actual=said, **told))
        for truth, said in pairs
    ]
    rows = [
        {"value": json_text(one.value), "score": one.score, "cluster": i, "n": 1, "clusters": 1}
        for i, one in enumerate(found)
    ]
    counts = decode_values(metric.figures, pl.DataFrame(rows))
    return {figure.statistic: figure for figure in compute(metric.figures, counts)}


def test_typed_and_written_labels_have_the_same_figures(bench):
    typed = [(True, True), (True, False), (False, False), (False, True), (True, True), (False, "unsure")]
    forms = [
        typed,
        [(str(truth), str(said)) for truth, said in typed],
        [(str(truth).upper(), str(said).lower()) for truth, said in typed],
        [(int(truth), said if said == "unsure" else int(said)) for truth, said in typed],
        [(str(int(truth)), said if said == "unsure" else str(int(said))) for truth, said in typed],
    ]
    found = [_figures(bench, pairs, positive=True) for pairs in forms]
    values = [{name: figure.value for name, figure in one.items()} for one in found]
    assert values == [values[0]] * len(forms)
    assert values[0]["accuracy"] == pytest.approx(3 / 6)
    assert values[0]["precision"] == pytest.approx(2 / 3)
    assert found[0]["accuracy"].details == {
        "labels": ["false", "true", "unsure"],
        "matrix": [[1, 1, 1], [1, 2, 0], [0, 0, 0]],
    }


def test_wrong_predictions_count_in_every_figure_and_have_a_column(bench):
    pairs = [(1, 1), (2, "2"), (3, "none"), (3, 3.0), (2, [2]), (1, None)]
    found = _figures(bench, pairs)
    assert found["accuracy"].value == pytest.approx(3 / 6)
    assert found["accuracy"].details["labels"] == ["1", "2", "3", "[2]", "none", "null"]
    assert sum(map(sum, found["accuracy"].details["matrix"])) == len(pairs)
    assert found["recall[3]"].value == 0.5
    assert found["precision[none]"].value == 0
    assert found["weighted_recall"].value == pytest.approx(3 / 6)


def marked(bench, truth, prediction, **told):
    metric = bench.build("mine", {"kind": "classification", "needs": ["expected", "actual"], "per_label": True})
    return bench.score(metric, case=bench.case(expected=truth), answer=bench.answer(actual=prediction, **told))


@pytest.mark.parametrize(
    ("prediction", "score", "read"),
    [
        ({"rude": True, "spam": False}, 1.0, {"rude": True, "spam": False}),
        ({"rude": "true", "spam": "False"}, 1.0, {"rude": True, "spam": False}),
        ({"rude": 1, "spam": "0"}, 1.0, {"rude": True, "spam": False}),
        ('{"rude": true, "spam": false}', 1.0, {"rude": True, "spam": False}),
        ({"rude": "maybe", "spam": False}, 0.0, {"rude": False, "spam": False}),
        ({"rude": True, "spam": None}, 0.0, {"rude": True, "spam": True}),
        ({"rude": True}, 1.0, {"rude": True}),
        ({"rude": True, "other": "n/a"}, 0.0, {"rude": True, "other": True}),
        ("none", 0.0, {"rude": False, "spam": True}),
        (["rude"], 0.0, {"rude": False, "spam": True}),
    ],
)
def test_what_says_neither_true_nor_false_of_a_label_is_wrong_whatever_the_truth(bench, prediction, score, read):
    for truth in ({"rude": True, "spam": False}, {"rude": "TRUE", "spam": 0}, '{"rude": true, "spam": false}'):
        found = marked(bench, truth, prediction)
        assert (found.status, found.score) == ("scored", score)
        assert found.value == {"truth": {"rude": True, "spam": False}, "prediction": read}


def test_the_reason_shows_what_was_said_of_a_label(bench):
    found = marked(bench, {"rude": True, "spam": False}, {"rude": "maybe", "spam": True})
    assert found.reason == "rude: predicted maybe, but it is true; spam: predicted true, but it is false"
    found = marked(bench, {"rude": True}, ["rude"])
    assert found.reason.startswith("actual is a list, not an object of labels; rude: predicted")
    assert marked(bench, {"rude": "maybe"}, {"rude": True}).status == "error"
    assert marked(bench, ["rude"], {"rude": True}).status == "error"


@pytest.mark.parametrize(
    ("truth", "prediction", "match", "score"),
    [
        (["3", "7"], [7, 3.0], "same", 1.0),
        ([3, 7], ["7", "3"], "same", 1.0),
        ([3, 7], ["7", "3"], "in_order", 0.0),
        ([3, "x"], [3, {"x": 1}], "same", 0.0),
        ([3, "x"], ["n/a", True], "any", 0.0),
        (["3.10"], [3.1], "any", 0.0),
        ([True], ["True"], "same", 1.0),
        ('["a", "b"]', "['b', 'a']", "same", 1.0),
        ("a", None, "any", 0.0),
        (["a"], "['a' 'b']", "any", 0.0),
    ],
)
def test_sets_of_labels_are_compared_by_name_too(bench, truth, prediction, match, score):
    values = {"kind": "set_match", "needs": ["vars.t", "vars.p"], "truth": ["vars.t"], "prediction": ["vars.p"]}
    if prediction is None:
        values["needs"] = ["vars.t"]
        values["prediction"] = ["vars.p"]
    metric = bench.build("mine", {**values, "needs": ["vars"], "match": match})
    found = bench.score(metric, case=bench.case(vars={"t": truth, "p": prediction}))
    assert (found.status, found.score) == ("scored", score), found.reason


def test_a_true_label_in_a_set_that_is_no_label_is_an_error(bench):
    values = {"kind": "set_match", "needs": ["vars"], "truth": ["vars.t"], "prediction": ["vars.p"], "match": "any"}
    found = bench.score(bench.build("mine", values), case=bench.case(vars={"t": [["a"]], "p": "a"}))
    assert (found.status, found.error) == ("error", "vars.t: expected a label, got a list")


def test_a_null_part_of_a_prediction_is_a_wrong_one_and_an_absent_part_is_skipped(bench):
    metric = bench.shipped("question_router")
    told = {"latency_s": 0.5, "requests": 1}
    said = bench.answer(answer=None, actual={"outcome": None, "confidence": 0.4}, **told)
    found = bench.score(metric, case=bench.case(expected="billing"), answer=said)
    assert (found.score, found.reason) == (0.0, "predicted null, but it is billing")
    assert found.value == {"truth": "billing", "prediction": None, "confidence": 0.4}
    said = bench.answer(answer=None, actual={"confidence": 0.4}, **told)
    assert bench.score(metric, case=bench.case(expected="billing"), answer=said).status == "skipped"


def test_other_metrics_have_an_error_where_the_prediction_is_null(bench):
    said = bench.answer(answer=None, actual=None, latency_s=0.5, requests=1)
    found = bench.score(bench.shipped("retrieval"), case=bench.case(expected={"chunks": ["a"]}), answer=said)
    assert (found.status, found.error_type) == ("error", "target: malformed")

"""The kinds that read what stands in the data: classification and recorded."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.errors import UserError


def classification(bench, **more):
    values = {"kind": "classification", "needs": ["expected", "actual"], **more}
    return bench.build("mine", values)


@pytest.mark.parametrize(
    ("truth", "prediction", "score"), [("a", "a", 1.0), ("a", "b", 0.0), (1, 1.0, 1.0), (2, 3, 0.0)]
)
def test_classes(bench, truth, prediction, score):
    outcome = bench.score(
        classification(bench), case=bench.case(expected=truth), answer=bench.answer(actual=prediction)
    )
    assert (outcome.score, outcome.value) == (score, {"truth": truth, "prediction": prediction})


labels = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2, 2).map(float)


@given(truth=labels, prediction=labels)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_labels_are_equal_in_writing_where_the_score_says_so(bench, truth, prediction):
    outcome = bench.score(
        classification(bench), case=bench.case(expected=truth), answer=bench.answer(actual=prediction)
    )
    assert outcome.score == float(truth == prediction)
    assert outcome.score == float(str(outcome.value["truth"]) == str(outcome.value["prediction"]))


def test_the_positive_label_is_written_as_labels_are(bench):
    given = (1.0, 1, 0.5, True, "1.0", None)
    positives = [classification(bench, positive=positive).figures.positive for positive in given]
    assert list(map(repr, positives)) == ["1", "1", "0.5", "True", "'1.0'", "None"]
    with pytest.raises(ValidationError, match="inf is not a label"):
        classification(bench, positive=float("inf"))


def test_a_truth_that_is_not_a_label_is_an_error(bench):
    for truth, shown in ((["a"], "a list"), ({"a": 1}, "an object"), (float("nan"), "nan")):
        outcome = bench.score(classification(bench), case=bench.case(expected=truth), answer=bench.answer(actual="a"))
        assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "data")
        assert outcome.error == f"expected is {shown}, which is not a label"


def test_a_class_may_stand_anywhere(bench):
    metric = classification(
        bench, needs=["vars.topic", "metadata.topic"], truth="vars.topic", prediction="metadata.topic"
    )
    outcome = bench.score(metric, case=bench.case(vars={"topic": "x"}), answer=bench.answer(metadata={"topic": "x"}))
    assert outcome.score == 1.0
    assert metric.figures.positive is None


def test_classes_must_be_declared(bench):
    with pytest.raises(UserError) as error:
        classification(bench, needs=["actual"])
    assert [(p.where, p.hint) for p in error.value.problems] == [("metric.mine.truth", "needs: [actual, expected]")]


def recorded(bench, field, scale: Any = "number", **more):
    return bench.build("mine", {"kind": "recorded", "field": field, "scale": scale, **more})


VARS = {
    "quality": 4,
    "nested": {"score": 0.5},
    "judges": [{"by": "a", "score": 2}, {"by": "b", "score": 3}],
    "gap": None,
}
LIKERT = {"type": "likert", "min": 1, "max": 5}


def known(bench, **more):
    """A case whose recorded answer is the one that is scored."""
    return bench.case(answer="Anna, in 1998.", actual=True, vars=VARS, **more)


@pytest.mark.parametrize(
    ("field", "scale", "score", "value"),
    [
        ("quality", LIKERT, 0.75, 4),
        ("nested.score", "number", 0.5, 0.5),
        ("$.judges[?@.by == 'b'].score", LIKERT, 0.5, 3),
        ("$.metadata.stars", "percentage", 0.9, 90),
        ("metadata.stars", "number", 90.0, 90),
    ],
)
def test_recorded_scores_are_found_and_scaled(bench, field, scale, score, value):
    outcome = bench.score(recorded(bench, field, scale), case=known(bench, metadata={"stars": 90}))
    assert (outcome.status, outcome.score, outcome.value) == ("scored", score, value)


@pytest.mark.parametrize("field", ["review.score", "$.review.score", "review"])
def test_a_score_may_stand_within_the_text_of_a_cell(bench, field):
    text = "4.50" if field == "review" else '{"score": "4.50"}'
    case = bench.case(answer="Anna, in 1998.", actual=True, vars={"review": text})
    assert bench.score(recorded(bench, field), case=case).score == 4.5


@pytest.mark.parametrize("field", ["absent", "gap", "nested.absent", "$.absent", "$.gap"])
def test_an_absent_score_is_skipped(bench, field):
    outcome = bench.score(recorded(bench, field), case=known(bench))
    assert (outcome.status, outcome.score, outcome.reason) == ("skipped", None, f"the case has no {field}")


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("nested", "nested: {'score': 0.5} is not a number"),
        ("$.judges[*].score", "$.judges[*].score matches 2 values; expected one"),
        ("answer", "answer: 'Anna, in 1998.' is not a number"),
    ],
)
def test_what_is_no_score_is_an_error(bench, field, error):
    outcome = bench.score(recorded(bench, field), case=known(bench))
    assert (outcome.status, outcome.score, outcome.error) == ("error", None, error)


@pytest.mark.parametrize(
    ("answer", "which"),
    [
        ({"latency_s": 0.5, "requests": 1}, "generated"),
        ({"latency_s": 0.5, "cached": True}, "generated"),
        ({"status": "error", "answer": None}, "generated"),
        ({"answer": "An example.", "actual": None}, "an example"),
    ],
)
def test_a_score_is_not_credited_to_another_answer_than_the_recorded_one(bench, answer, which):
    outcome = bench.score(recorded(bench, "quality"), case=known(bench), answer=bench.answer(**answer))
    assert (outcome.status, outcome.score) == ("skipped", None)
    assert outcome.reason == f"the score is for the recorded answer, but this one is {which}"


def test_a_failed_generation_does_not_get_the_score_of_a_case_without_an_answer(bench):
    failed = bench.answer(answer=None, actual=None, status="error")
    assert bench.score(recorded(bench, "quality"), case=bench.case(vars=VARS), answer=failed).status == "skipped"


def test_a_natural_number_has_no_bounds_and_any_threshold(bench):
    assert not recorded(bench, "quality", threshold=42).bounded
    assert recorded(bench, "quality", LIKERT).bounded


def test_what_is_wrong_with_a_recorded_metric_is_said_at_once(bench):
    with pytest.raises(UserError) as error:
        recorded(bench, "$.[", LIKERT, threshold=4)
    assert [p.where for p in error.value.problems] == ["metric.mine.field", "metric.mine.threshold"]
    assert "is not a JSONPath" in error.value.problems[0].what
    assert "4 is not in 0..1" in error.value.problems[1].what


def test_a_path_to_a_score_that_goes_on_without_end_is_a_score_in_state_error(bench):
    metric = recorded(bench, "$..*[?search(@, '^(a|aa)+$')]")
    outcome = bench.score(metric, case=known(bench, metadata={"a": {"b": "a" * 200 + "b"}}))
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")

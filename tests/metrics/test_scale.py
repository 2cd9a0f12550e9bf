"""Scales: as declared, as asked for, as read from data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evalflow.metrics.scale import RecordedScale, Scale, grade_rule, read, reply_type

ASKED = TypeAdapter(Scale)
RECORDED = TypeAdapter(RecordedScale)
LIKERT = {"type": "likert", "min": 1, "max": 5}
LABEL = {"type": "label", "values": {"poor": 0, "fair": 0.5, "good": 1}}


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"type": "likert", "min": 5, "max": 5}, "min must be below max, but min is 5 and max is 5"),
        ({"type": "likert", "min": 5, "max": 1}, "min must be below max"),
        ({"type": "likert", "min": 1, "max": 10**400}, "less than or equal to 9007199254740992"),
        ({**LIKERT, "anchors": {6: "beyond"}}, r"the anchor 6 is not on the scale 1\.\.5"),
        ({"type": "label", "values": {"poor": 0, "good": 3}}, r"must lie in 0\.\.1, not good: 3"),
        ({"type": "label", "values": {True: 1, False: 0}}, "put it in quotes"),
        ({"type": "label", "values": {"good": 1}}, "at least 2"),
        ({"type": "number"}, "does not match any of the expected tags"),
    ],
)
def test_what_is_no_scale_for_a_judge(scale, message):
    with pytest.raises(ValidationError, match=message):
        ASKED.validate_python(scale)


def test_the_reply_has_the_scale_s_bounds_and_labels():
    assert reply_type(ASKED.validate_python("boolean")).type == "bool"
    assert reply_type(ASKED.validate_python(LIKERT)).model_dump() == {"type": "int", "min": 1, "max": 5}
    assert reply_type(ASKED.validate_python("percentage")).model_dump() == {"type": "float", "min": 0, "max": 100}
    assert reply_type(ASKED.validate_python(LABEL)).model_dump()["labels"] == ["poor", "fair", "good"]
    assert grade_rule(ASKED.validate_python(LABEL), "grade", "score").op == "map"


@given(st.integers(-5, 5), st.integers(1, 10), st.data())
def test_a_grade_lies_in_0_1_and_keeps_its_value(low, width, data):
    grade = data.draw(st.integers(low, low + width))
    score, value = read(RECORDED.validate_python({"type": "likert", "min": low, "max": low + width}), grade)
    assert 0 <= score <= 1
    assert value == grade


@pytest.mark.parametrize(
    ("scale", "recorded", "expected"),
    [
        ("boolean", True, (1.0, True)),
        ("boolean", "false", (0.0, False)),
        ("boolean", 1, (1.0, True)),
        (LIKERT, 5, (1.0, 5)),
        (LIKERT, 3.5, (0.625, 3.5)),
        (LIKERT, "3", (0.5, 3.0)),
        ("boolean", "Yes", (1.0, True)),
        ("percentage", 80, (0.8, 80)),
        ("fraction", "0.8", (0.8, 0.8)),
        ("fraction", False, (0.0, 0.0)),
        (LABEL, "fair", (0.5, "fair")),
        ("number", -12.5, (-12.5, -12.5)),
        ("number", "3e2", (300.0, 300.0)),
    ],
)
def test_read(scale, recorded, expected):
    assert read(RECORDED.validate_python(scale), recorded) == expected


@pytest.mark.parametrize(
    ("scale", "recorded", "message"),
    [
        ("boolean", "maybe", "'maybe' is not true or false"),
        ("boolean", 2, "2 is not true or false"),
        ("fraction", 1.5, r"1\.5 is not in 0\.\.1"),
        ("fraction", "some", "'some' is not a number"),
        (LIKERT, 6, r"6 is not in 1\.\.5"),
        (LIKERT, True, "True is not a number"),
        ("percentage", "much", "'much' is not a number"),
        (LABEL, "excellent", "'excellent' is not one of poor, fair, good"),
        ("number", "nan", "'nan' is not a number"),
        ("number", [1], r"\[1\] is not a number"),
    ],
)
def test_what_is_not_on_the_scale(scale, recorded, message):
    with pytest.raises(ValueError, match=message):
        read(RECORDED.validate_python(scale), recorded)

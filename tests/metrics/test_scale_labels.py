"""The scales that people's labels are on."""

import pytest

from evalflow.config.yaml_text import safe_yaml
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.metrics.scale import FractionScale, LabelScale, NumberScale, label_scale, read_label, scale_text
from evalflow.paths import share_dir


def scale_of(name, **changes):
    values = safe_yaml((share_dir() / "conf" / "metric" / f"{name}.yaml").read_text()) | changes
    return label_scale(METRIC_KINDS.config(values["kind"]).model_validate(values), bounded=True)


def judged(field, rule):
    steps = [{"id": "s", "prompt": "p.jinja", "returns": {"x": field}}]
    values = {"kind": "judge", "needs": ["answer"], "steps": steps, "score": {"of": "s", "field": "x", **rule}}
    return label_scale(METRIC_KINDS.config("judge").model_validate(values), bounded=True)


def test_a_rubric_is_labelled_on_its_own_scale():
    scale = scale_of("coherence")
    assert read_label(scale, " 4 ") == (0.75, 4.0)
    assert scale_text(scale).startswith("1 to 5 (1: contradicts itself about who decides")


def test_a_share_is_a_number_from_0_to_1_or_a_word():
    scale = scale_of("faithfulness")
    assert [read_label(scale, value)[0] for value in ("0.5", "yes", "No", True, 1, "1", 0.25)] == [
        0.5,
        1.0,
        0.0,
        1.0,
        1.0,
        1.0,
        0.25,
    ]
    assert read_label(scale, "0,25") == (0.25, 0.25)
    with pytest.raises(ValueError, match="'0,2,5' is not a number"):
        read_label(scale, "0,2,5")
    with pytest.raises(ValueError, match="'1,5' is not a number"):
        read_label(NumberScale(type="number"), "1,5")
    with pytest.raises(ValueError, match=r"'2' is not in 0\.\.1"):
        read_label(scale, "2")


@pytest.mark.parametrize("combine", ["all", "any"])
def test_rules_that_hold_or_not_are_labelled_with_yes_and_no(combine):
    scale = scale_of("exact_match", combine=combine)
    assert scale_text(scale) == "yes or no"
    assert [read_label(scale, value)[0] for value in ("yes", "0", 1.0, False)] == [1.0, 0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match=r"0\.5 is not true or false"):
        read_label(scale, 0.5)


def test_the_share_of_rules_that_hold_is_a_number():
    assert isinstance(scale_of("exact_match", combine="mean"), FractionScale)


@pytest.mark.parametrize(
    ("field", "rule", "value", "expected"),
    [
        ("bool", {"op": "value"}, "YES", (1.0, True)),
        ({"type": "int", "min": 0, "max": 10}, {"op": "value"}, "4", (0.4, 4.0)),
        (
            {"type": "label", "labels": ["Good", "bad"]},
            {"op": "map", "values": {"Good": 1, "bad": 0}},
            "good",
            (1.0, "Good"),
        ),
    ],
)
def test_a_rule_over_one_field_takes_that_field_s_values(field, rule, value, expected):
    assert read_label(judged(field, rule), value) == expected


def test_words_that_differ_in_case_alone_must_be_written_as_they_are():
    scale = LabelScale(type="label", values={"A": 1.0, "a": 0.0})
    assert read_label(scale, "a") == (0.0, "a")
    assert read_label(scale, "A") == (1.0, "A")


def test_every_scale_can_be_said():
    assert scale_text(FractionScale(type="fraction")).startswith("0 to 1")
    assert scale_text(judged("bool", {"op": "value"})) == "yes or no"
    assert scale_text(LabelScale(type="label", values={"good": 1, "bad": 0})) == "good | bad"

"""What a person reads who declared a metric wrongly: the key as it stands in the file, and the nearest right one."""

import pytest
from pydantic import ValidationError

from evalflow.config.explain import problems_of
from evalflow.metrics.registry import METRIC_KINDS

STEP = {"id": "a", "prompt": "p.jinja", "returns": {"n": {"type": "int", "min": 1, "max": 5}}}
JUDGE = {"kind": "judge", "steps": [STEP], "score": {"op": "value", "of": "a", "field": "n"}}


def problem(values):
    model = METRIC_KINDS.config(values["kind"])
    with pytest.raises(ValidationError) as error:
        model.model_validate(values)
    (found,) = problems_of(error.value, model, "metric.mine", None, [])
    return found


@pytest.mark.parametrize(
    ("values", "what", "hint"),
    [
        ({**JUDGE, "treshold": 1}, "unknown key metric.mine.treshold", "did you mean 'threshold'?"),
        (
            {**JUDGE, "score": {"op": "value", "of": "a", "field": "n", "feild": "n"}},
            "unknown key metric.mine.score.feild",
            "did you mean 'field'?",
        ),
        (
            {**JUDGE, "steps": [{**STEP, "returns": {"n": {"type": "int", "mni": 1}}}]},
            "unknown key metric.mine.steps.0.returns.n.mni",
            "did you mean 'min'?",
        ),
        (
            {**JUDGE, "steps": [{**STEP, "returns": {"v": {"type": "label", "labels": [True, "no"]}}}]},
            "metric.mine.steps.0.returns.v.labels.0: YAML reads an unquoted true/yes/on as a boolean; put it in quotes",
            "",
        ),
        (
            {"kind": "rubric", "scale": {"type": "likert", "min": 5, "max": 1}},
            "metric.mine.scale: min must be below max, but min is 5 and max is 1",
            "",
        ),
        ({"kind": "rubric", "scale": "likret"}, "metric.mine.scale: unknown 'likret'", "did you mean 'likert'?"),
        ({"kind": "check", "checks": [{"op": "regexp"}]}, "metric.mine.checks.0: unknown 'regexp'", "'regex'"),
        ({"kind": "recorded", "scale": "number"}, "metric.mine.field is required", "add metric.mine.field="),
    ],
)
def test_the_key_and_the_nearest_right_word(values, what, hint):
    found = problem(values)
    assert found.what == what
    assert hint in found.hint

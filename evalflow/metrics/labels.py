"""Labels of which several may hold at once: what a prediction says of each, against the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from evalflow.jsonvalues import kind
from evalflow.metrics.steps import look_up
from evalflow.records import Outcome


def compare_labels(truth_field: str, prediction_field: str, fields: Mapping[str, Any]) -> Outcome:
    """Scores 1 where both say the same of every label, else 0. A label that one side leaves out is false there.

    Args:
        truth_field: The field that maps labels to true or false.
        prediction_field: The one that says the same of the prediction.
        fields: All fields, neither of these absent.
    """
    truth, prediction = look_up(truth_field, fields), look_up(prediction_field, fields)
    fault = _fault(truth_field, truth) or _fault(prediction_field, prediction)
    if fault:
        return Outcome(status="error", error_type="data", error=fault)
    labels = sorted({*truth, *prediction})
    wrong = [label for label in labels if truth.get(label, False) != prediction.get(label, False)]
    sides = ((truth_field, truth), (prediction_field, prediction))
    reasons = [f"{label}: predicted {_word(prediction, label)}, but it is {_word(truth, label)}" for label in wrong]
    reasons = reasons or [f"all {len(labels)} labels agree" if labels else "neither has a label"]
    for field, said in sides:
        if absent := [label for label in labels if label not in said]:
            reasons.append(f"{field} leaves out {', '.join(absent)}, taken as false")
    return Outcome(
        status="scored",
        score=float(not wrong),
        value={"truth": dict(truth), "prediction": dict(prediction)},
        reason="; ".join(reasons),
        path="direct",
    )


def _word(said: Mapping[str, bool], label: str) -> str:
    return "true" if said.get(label, False) else "false"


def _fault(field: str, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"{field} is {kind(value)}, and no object of labels that are true or false"
    for label, holds in cast("dict[str, Any]", value).items():
        if not isinstance(holds, bool):
            return f"{field}.{label} is {kind(holds)}, and neither true nor false"
    return None

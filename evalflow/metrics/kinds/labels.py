"""The kinds that compare labels: `classification`, whose figures are computed over the run, and `set_match`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from evalflow.cells import boolean_of, list_in, number_of, object_in
from evalflow.config.schema import Word
from evalflow.jsonvalues import kind, look_up
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, scored
from evalflow.metrics.steps import root
from evalflow.records import FigureSpec, Outcome

TYPES = {bool: "true or false", int: "a number", float: "a number", str: "text"}


class ClassificationMetricConfig(UnitMetricConfig):
    """Which fields are compared.

    Attributes:
        truth: The case field with the true label.
        prediction: The case field with the predicted one.
        positive: The positive class for precision and recall; null if there are several classes.
        per_label: Multi-label: truth and prediction map each label to true or false.
        confidence: The field with the prediction's confidence, 0 to 1; null if there is none.
    """

    kind: Literal["classification"]  # pyright: ignore[reportIncompatibleVariableOverride]
    truth: Word = "expected"
    prediction: Word = "actual"
    positive: bool | int | float | str | None = None
    per_label: bool = False
    confidence: Word | None = None

    @field_validator("positive")
    @classmethod
    def _as_labels_are(cls, value: Any) -> Any:
        if _is_endless(value):
            raise ValueError(f"{value} is no label")
        return _canonical(value)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.per_label and (self.positive is not None or self.confidence is not None):
            raise ValueError("per_label goes with neither positive nor confidence: each label is true or false")
        return self


class ClassificationMetric(FieldMetric[ClassificationMetricConfig]):
    """Scores 1 for a correct prediction, else 0, so that the mean is the accuracy."""

    Config = ClassificationMetricConfig
    names_fields = ("truth", "prediction")

    def __init__(self, name: str, config: ClassificationMetricConfig) -> None:
        super().__init__(name, config)
        sure = config.confidence is not None
        self.figures = FigureSpec(
            "classification", positive=config.positive, per_label=config.per_label, confidence=sure
        )

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        config = self.config
        if config.per_label:
            return _compare_labels(*((field, look_up(field, fields)) for field in (config.truth, config.prediction)))
        truth, prediction = (_canonical(look_up(field, fields)) for field in (config.truth, config.prediction))
        self._expect_labels(truth, prediction)
        value = {"truth": truth, "prediction": prediction}
        if config.confidence:
            value["confidence"] = _confidence(config.confidence, fields)
        right = truth == prediction
        reason = f"predicted {prediction}" + ("" if right else f", but it is {truth}")
        return scored(float(right), value, reason)

    def _expect_labels(self, truth: Any, prediction: Any) -> None:
        """Refuse values of different types: true against "true" would silently count as wrong."""
        for field, label in ((self.config.truth, truth), (self.config.prediction, prediction)):
            if type(label) not in TYPES or _is_endless(label):
                raise ValueError(f"{field} is {label!r}, which is no label")
        kinds = TYPES[type(truth)], TYPES[type(prediction)]
        if kinds[0] != kinds[1]:
            known = f"{self.config.truth} is {kinds[0]} ({truth!r})"
            raise ValueError(f"{known}, but {self.config.prediction} is {kinds[1]} ({prediction!r})")


def _confidence(field: str, fields: Mapping[str, Any]) -> float | None:
    value = look_up(field, fields)
    number = number_of(value)
    if value is None or (number is not None and 0 <= number <= 1):
        return number
    raise ValueError(f"{field} is {value!r}, and a confidence lies in 0..1")


def _canonical(label: Any) -> Any:
    """One form for equal labels (1.0 becomes 1), since figures compare labels as text."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _is_endless(label: Any) -> bool:
    return isinstance(label, float) and not math.isfinite(label)


def _compare_labels(*sides: tuple[str, Any]) -> Outcome:
    """Score 1 if truth and prediction, in this order, agree on every label. A label missing on one side is false."""
    truth, prediction = (_label_map(field, marks) for field, marks in sides)
    labels = sorted({*truth, *prediction})
    wrong = [label for label in labels if truth.get(label, False) != prediction.get(label, False)]
    reasons = [f"{label}: predicted {_word(prediction, label)}, but it is {_word(truth, label)}" for label in wrong]
    reasons = reasons or [f"all {len(labels)} labels agree" if labels else "neither has a label"]
    for (field, _), marks in zip(sides, (truth, prediction), strict=True):
        if absent := [label for label in labels if label not in marks]:
            reasons.append(f"{field} leaves out {', '.join(absent)}, taken as false")
    return scored(float(not wrong), {"truth": dict(truth), "prediction": dict(prediction)}, "; ".join(reasons))


def _word(marks: Mapping[str, bool], label: str) -> str:
    return "true" if marks.get(label, False) else "false"


def _label_map(field: str, value: Any) -> dict[str, bool]:
    """The marks by label, also from a text with such an object; ValueError for anything else."""
    with contextlib.suppress(ValueError):
        value = object_in(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise ValueError(f"{field} is {kind(value)}, and no object of labels that are true or false")
    marks: dict[str, bool] = {}
    for label, given in cast("dict[str, Any]", value).items():
        holds = boolean_of(given) if isinstance(given, str) else given
        if not isinstance(holds, bool):
            raise ValueError(f"{field}.{label} is {kind(given)}, and neither true nor false")
        marks[label] = holds
    return marks


class SetMatchMetricConfig(UnitMetricConfig):
    """Which labels are compared, and when they match.

    Attributes:
        truth: The fields with the true labels; each holds one, a list of them, or none.
        prediction: The fields with the predicted ones.
        match: `in_order`: the same labels in the same places; `same`: in any order; `any`: at least one shared label.
    """

    kind: Literal["set_match"]  # pyright: ignore[reportIncompatibleVariableOverride]
    truth: list[Word] = Field(min_length=1)
    prediction: list[Word] = Field(min_length=1)
    match: Literal["in_order", "same", "any"]


class SetMatchMetric(FieldMetric[SetMatchMetricConfig]):
    """Scores 1 for a match, else 0, so that the mean is a rate. Needs no judge."""

    Config = SetMatchMetricConfig

    @classmethod
    def fields_read(cls, config: SetMatchMetricConfig) -> Mapping[str, str]:
        paths = {"truth": config.truth, "prediction": config.prediction}
        fields = {f"{key}[{at}]": path for key, listed in paths.items() for at, path in enumerate(listed)}
        return {key: path if path in config.needs else root(path) for key, path in fields.items()}

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        truth, predicted = (_labels(paths, fields) for paths in (self.config.truth, self.config.prediction))
        if not any(truth):
            return Outcome(status="undefined", reason="nothing is expected")
        matches = self._matches(truth, predicted)
        return scored(float(matches), matches, f"predicted {_listed(predicted)}, expected {_listed(truth)}")

    def _matches(self, truth: Sequence[str | None], predicted: Sequence[str | None]) -> bool:
        wanted, found = {label for label in truth if label}, {label for label in predicted if label}
        match self.config.match:
            case "in_order":
                return list(truth) == list(predicted)
            case "same":
                return wanted == found
            case _:
                return bool(wanted & found)


def _labels(paths: Sequence[str], fields: Mapping[str, Any]) -> list[str | None]:
    labels: list[str | None] = []
    for path in paths:
        value = look_up(path, fields)
        if isinstance(value, str) and (listed := list_in(value)) is not None:
            value = listed
        for label in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if label is not None and not isinstance(label, str):
                raise ValueError(f"{path}: expected a label, got {kind(label)}")
            labels.append(label or None)
    return labels


def _listed(labels: Sequence[str | None]) -> str:
    return " and ".join(label for label in labels if label) or "nothing"

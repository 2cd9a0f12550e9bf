"""The kind `classification`: a prediction against the truth; the figures are made over the run."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from evalflow.config.schema import Word
from evalflow.metrics.base import BaseMetric, UnitMetricConfig, expect_declared
from evalflow.metrics.labels import compare_labels
from evalflow.metrics.steps import fields_of, look_up, obstacle
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, FigureSpec, Outcome

TYPES = {bool: "true or false", int: "a number", float: "a number", str: "text"}


class ClassificationMetricConfig(UnitMetricConfig):
    """Which fields are compared.

    Attributes:
        truth: The case field with the true label.
        prediction: The case field with the predicted one.
        positive: The label that precision and recall are about; null where there are several classes.
        per_label: Whether truth and prediction map labels to true or false, of which several may hold at once.
        confidence: The field that says, from 0 to 1, how sure the prediction is; null: none does.
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


class ClassificationMetric(BaseMetric[ClassificationMetricConfig]):
    """Scores 1 where the prediction is the truth, 0 elsewhere, so that the mean is the accuracy."""

    Config = ClassificationMetricConfig

    @classmethod
    def build(cls, name: str, config: ClassificationMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Check that both fields are declared.

        Raises:
            UserError: One is not.
        """
        expect_declared(name, config.needs, {"truth": config.truth, "prediction": config.prediction})
        return cls(name, config)

    @property
    def figures(self) -> FigureSpec:
        """Precision, recall, F1, accuracy and the confusion matrix."""
        config = self.config
        sure = config.confidence is not None
        return FigureSpec("classification", positive=config.positive, per_label=config.per_label, confidence=sure)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Compare the two labels, or all of them."""
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        if self.config.per_label:
            return compare_labels(self.config.truth, self.config.prediction, fields)
        truth = _canonical(look_up(self.config.truth, fields))
        prediction = _canonical(look_up(self.config.prediction, fields))
        confidence = look_up(self.config.confidence, fields) if self.config.confidence else None
        fault = self._fault(truth, prediction) or self._unsure(confidence)
        if fault:
            return Outcome(status="error", error_type="data", error=fault)
        stated = {"confidence": confidence} if self.config.confidence else {}
        return Outcome(
            status="scored",
            score=float(truth == prediction),
            value={"truth": truth, "prediction": prediction, **stated},
            reason=f"predicted {prediction}" + ("" if truth == prediction else f", but it is {truth}"),
            path="direct",
        )

    def _fault(self, truth: Any, prediction: Any) -> str | None:
        """Why two values cannot be compared; true against "true" would else count as a miss in silence."""
        for field, label in ((self.config.truth, truth), (self.config.prediction, prediction)):
            if type(label) not in TYPES or _is_endless(label):
                return f"{field} is {label!r}, which is no label"
        kinds = TYPES[type(truth)], TYPES[type(prediction)]
        if kinds[0] == kinds[1]:
            return None
        known = f"{self.config.truth} is {kinds[0]} ({truth!r})"
        return f"{known}, but {self.config.prediction} is {kinds[1]} ({prediction!r})"

    def _unsure(self, confidence: Any) -> str | None:
        """Why a stated confidence is none; a case may leave it out."""
        number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
        if confidence is None or (number and 0 <= confidence <= 1):
            return None
        return f"{self.config.confidence} is {confidence!r}, and a confidence lies in 0..1"


def _canonical(label: Any) -> Any:
    """The label as all its equals are written: 1.0 is 1, so that figures, which go by the text, count like scores."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _is_endless(label: Any) -> bool:
    return isinstance(label, float) and not math.isfinite(label)

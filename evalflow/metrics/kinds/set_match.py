"""The kind `set_match`: compares predicted with true labels, in order, as sets, or by any shared label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.jsonvalues import kind, look_up
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, expect_declared, scored
from evalflow.metrics.steps import root
from evalflow.prompts import Prompts
from evalflow.records import Outcome


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
    def build(cls, name: str, config: SetMatchMetricConfig, prompts: Prompts) -> Self:
        """See `BaseMetric`; `needs` must declare the fields, or the first part of their dotted paths."""
        paths = {"truth": config.truth, "prediction": config.prediction}
        fields = {f"{key}[{at}]": path for key, listed in paths.items() for at, path in enumerate(listed)}
        declared = {key: path if path in config.needs else root(path) for key, path in fields.items()}
        expect_declared(name, config.needs, declared)
        return super().build(name, config, prompts)

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        """Compare the labels; undefined without a true label."""
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
    """The labels at all paths, in order; None at a path without a value, to keep the positions."""
    labels: list[str | None] = []
    for path in paths:
        value = look_up(path, fields)
        for label in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if label is not None and not isinstance(label, str):
                raise ValueError(f"{path}: expected a label, got {kind(label)}")
            labels.append(label or None)
    return labels


def _listed(labels: Sequence[str | None]) -> str:
    return " and ".join(label for label in labels if label) or "nothing"

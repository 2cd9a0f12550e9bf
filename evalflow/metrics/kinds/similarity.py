"""The kind `similarity`: semantic similarity of two case fields, as the cosine of their embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from evalflow.config.schema import Word
from evalflow.jsonvalues import look_up
from evalflow.metrics.base import UnitMetricConfig, expect_declared, scored
from evalflow.metrics.cosine import CosineMetric
from evalflow.metrics.json_schema import written
from evalflow.prompts import Prompts
from evalflow.records import Outcome


class SimilarityMetricConfig(UnitMetricConfig):
    """Two case fields, or dotted paths into metadata or vars.

    Attributes:
        field: One of them.
        against: The other one.
    """

    kind: Literal["similarity"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    against: Word = "reference"


class SimilarityMetric(CosineMetric[SimilarityMetricConfig]):
    """The score is the cosine, at least 0; the value is the unclamped cosine."""

    Config = SimilarityMetricConfig

    @classmethod
    def build(cls, name: str, config: SimilarityMetricConfig, prompts: Prompts) -> Self:
        """See `BaseMetric`; `needs` must declare both fields."""
        expect_declared(name, config.needs, {"field": config.field, "against": config.against})
        return super().build(name, config, prompts)

    def texts(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        """Both fields; values other than text as JSON."""
        return written(look_up(self.config.field, fields)), written(look_up(self.config.against, fields))

    def outcome(self, cosine: float) -> Outcome:
        """The score."""
        reason = f"similarity of {self.config.field} and {self.config.against}: {cosine:.3f} (cosine of embeddings)"
        return scored(max(0.0, cosine), cosine, reason)

"""The kind `check`: rules over a case field that need no model."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, expect_declared
from evalflow.metrics.json_operations import Combine, Operation, Rulebook
from evalflow.prompts import Prompts
from evalflow.records import Outcome


class CheckMetricConfig(UnitMetricConfig):
    """Rules over one case field.

    Attributes:
        field: The case field, or a dotted path into metadata or vars.
        checks: The rules.
        combine: `all` and `any` give 1 or 0; `mean` gives the share of the rules that hold.
    """

    kind: Literal["check"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    checks: list[Operation] = Field(min_length=1)
    combine: Combine = "all"


class CheckMetric(FieldMetric[CheckMetricConfig]):
    """Applies rules without a judge."""

    Config = CheckMetricConfig

    def __init__(self, name: str, config: CheckMetricConfig) -> None:
        super().__init__(name, config)
        self._rulebook = Rulebook(config.field, config.checks, config.combine)

    @classmethod
    def build(cls, name: str, config: CheckMetricConfig, prompts: Prompts) -> Self:
        """See `BaseMetric`; `needs` must declare every field that the rules read."""
        others = {
            f"checks[{position}].against": field
            for position, check in enumerate(config.checks)
            for field in check.others()
        }
        expect_declared(name, config.needs, {"field": config.field, **others})
        return super().build(name, config, prompts)

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        """Apply the rules."""
        return await self._rulebook.score(fields)

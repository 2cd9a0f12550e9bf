"""The kind `check`: rules over a case field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.metrics.base import FieldMetric, UnitMetricConfig
from evalflow.metrics.rulebook import Combine, Operation, Rulebook
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
    def fields_read(cls, config: CheckMetricConfig) -> Mapping[str, str]:
        return {"field": config.field} | {
            f"checks[{position}].{key}": field
            for position, check in enumerate(config.checks)
            for key, field in check.reads(config.field)
            if key
        }

    async def compare(self, fields: dict[str, object]) -> Outcome:
        return await self._rulebook.score(fields)

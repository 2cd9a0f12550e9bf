"""The kind `check`: rules over a case field that need no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError
from evalflow.metrics.base import BaseMetric, UnitMetricConfig
from evalflow.metrics.json_operations import Combine, Operation, Rulebook
from evalflow.metrics.steps import fields_of, obstacle
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome


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


class CheckMetric(BaseMetric[CheckMetricConfig]):
    """Applies rules; asks nobody."""

    Config = CheckMetricConfig

    def __init__(self, name: str, config: CheckMetricConfig) -> None:
        super().__init__(name, config)
        self._rulebook = Rulebook(config.field, config.checks, config.combine)

    @classmethod
    def build(cls, name: str, config: CheckMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Check that every field the rules look at is declared.

        Raises:
            UserError: One is not.
        """
        problems = list(_undeclared(f"metric.{name}", config))
        if problems:
            raise UserError(problems)
        return cls(name, config)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Apply the rules. An empty text is a text like any other."""
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=True)
        return blocked or await self._rulebook.score(fields)


def _undeclared(key: str, config: CheckMetricConfig) -> Iterator[Problem]:
    used = {f"{key}.field": config.field}
    for position, check in enumerate(config.checks):
        used |= {f"{key}.checks[{position}].against": other for other in check.others()}
    for where, field in used.items():
        if field not in config.needs:
            line = f"needs: [{', '.join([*config.needs, field])}]"
            yield Problem(f"the check looks at {field!r}, which `needs` does not declare", where, line)

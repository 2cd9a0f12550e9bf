"""The kind `check`: rules over a text that need no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError
from evalflow.metrics.base import BaseMetric, UnitMetricConfig
from evalflow.metrics.inputs import fields_of, obstacle
from evalflow.metrics.operations import Finding, Operation, TextOperation, TooSlow, apply
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome


class CheckMetricConfig(UnitMetricConfig):
    """Rules over one case field.

    Attributes:
        field: The case field, or a dotted path into metadata or vars.
        checks: The rules.
        combine: `all` and `any` give 1 or 0; `share` gives the share of the rules that hold.
    """

    kind: Literal["check"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    checks: list[Operation] = Field(min_length=1)
    combine: Literal["all", "any", "share"] = "all"


class CheckMetric(BaseMetric[CheckMetricConfig]):
    """Applies rules; asks nobody."""

    Config = CheckMetricConfig

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
        if blocked:
            return blocked
        try:
            findings = [apply(check, self.config.field, fields) for check in self.config.checks]
        except TooSlow as error:
            return Outcome(status="error", error_type="timeout", error=str(error))
        share = sum(finding.passed for finding in findings) / len(findings)
        score = {"all": float(share == 1), "any": float(share > 0), "share": share}[self.config.combine]
        return Outcome(
            status="scored",
            score=score,
            value=score if self.config.combine == "share" else bool(score),
            reason=self._reason(findings, passed=score == 1),
            steps=tuple(self._steps(findings)),
            path="direct",
        )

    def _reason(self, findings: list[Finding], passed: bool) -> str:
        """What failed; where nothing that matters did, what held."""
        shown = [finding.reason for finding in findings if finding.passed == passed]
        return "; ".join(shown)

    def _steps(self, findings: list[Finding]) -> Iterator[dict[str, Any]]:
        for check, finding in zip(self.config.checks, findings, strict=True):
            yield {
                "id": check.op,
                "check": check.model_dump(mode="json", exclude_defaults=True),
                "passed": finding.passed,
                "reason": finding.reason,
            }


def _undeclared(key: str, config: CheckMetricConfig) -> Iterator[Problem]:
    used = {f"{key}.field": config.field}
    for position, check in enumerate(config.checks):
        if isinstance(check, TextOperation) and check.against is not None:
            used[f"{key}.checks[{position}].against"] = check.against
    for where, field in used.items():
        if field not in config.needs:
            line = f"needs: [{', '.join([*config.needs, field])}]"
            yield Problem(f"the check looks at {field!r}, which `needs` does not declare", where, line)

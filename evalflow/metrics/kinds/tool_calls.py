"""The kind `tool_calls`: the share of the expected tool calls that were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from evalflow.config.schema import Word
from evalflow.metrics.base import BaseMetric, UnitMetricConfig, expect_declared
from evalflow.metrics.steps import fields_of, look_up, obstacle
from evalflow.metrics.tool_calls import ToolCall, calls_in, made
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome


class ToolCallsMetricConfig(UnitMetricConfig):
    """Two case fields, or dotted paths into metadata or vars, each a list of calls.

    Attributes:
        expected: The calls that were wanted.
        called: Those that were made.
        order: Whether they must come in the wanted order.
        arguments: Whether a call must have the arguments of the expected one; one that tells none takes any.
    """

    kind: Literal["tool_calls"]  # pyright: ignore[reportIncompatibleVariableOverride]
    expected: Word = "expected"
    called: Word = "actual"
    order: bool = False
    arguments: bool = False


class ToolCallsMetric(BaseMetric[ToolCallsMetricConfig]):
    """Compares two lists of calls; asks nobody. The value counts expected, called and matched."""

    Config = ToolCallsMetricConfig

    @classmethod
    def build(cls, name: str, config: ToolCallsMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Check that both fields are declared.

        Raises:
            UserError: One is not.
        """
        expect_declared(name, config.needs, {"expected": config.expected, "called": config.called})
        return cls(name, config)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Count the expected calls that were made; undefined where none is expected."""
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        lists: list[tuple[ToolCall, ...]] = []
        for field in (self.config.expected, self.config.called):
            try:
                lists.append(calls_in(look_up(field, fields)))
            except ValueError as error:
                return Outcome(status="error", error_type="data", error=f"{field}: {error}")
        return self._compared(*lists)

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Outcome:
        if not expected:
            return Outcome(status="undefined", reason="nothing to divide by: no tool call is expected")
        found = made(expected, called, order=self.config.order, arguments=self.config.arguments)
        missed = [str(call) for call, was in zip(expected, found, strict=True) if not was]
        steps: list[dict[str, Any]] = [
            {"id": "call", "check": {"call": str(call)}, "passed": was, "reason": "made" if was else "not made"}
            for call, was in zip(expected, found, strict=True)
        ]
        listed = ", ".join(str(call) for call in called) or "none"
        reason = f"{sum(found)} of {len(found)} expected calls made"
        if missed:
            rule = " in this order" if self.config.order else ""
            reason = f"{len(missed)} of {len(found)} expected calls not made{rule}: {', '.join(missed)}; made: {listed}"
        return Outcome(
            status="scored",
            score=sum(found) / len(found),
            value={"expected": len(expected), "called": len(called), "matched": sum(found)},
            reason=reason,
            steps=tuple(steps),
            path="direct",
        )

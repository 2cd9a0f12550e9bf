"""Checks that a judge decides: one prompt, a reason, then whether the check holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from evalflow.metrics.chain import ChainConfig, ChainMetric
from evalflow.metrics.inputs import fields_of
from evalflow.metrics.returns import BoolType, FieldType, StrType
from evalflow.metrics.rule_config import Rule, ValueRule
from evalflow.metrics.steps import Step, StepConfig, build_steps
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case, Outcome

STEP, FIELD = "verdict", "passed"
EXTRAS = ("messages", "reference", "rules", "context")


class JudgedCheck(ChainMetric[ChainConfig]):
    """A check bound to its parameters.

    Args:
        name: The column value.
        config: Its declaration.
        steps: Its one step.
        rule: Takes the verdict to 1 or 0.
        params: What the case gives: reference, rules or context.
    """

    def __init__(
        self,
        name: str,
        config: ChainConfig,
        steps: Sequence[Step],
        rule: Rule,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, config, steps, rule)
        self._params = params or {}

    @classmethod
    def of(cls, kind: str, config: ChainConfig, prompts: Prompts) -> Self:
        """The check of a kind, not bound yet.

        Raises:
            UserError: Its prompt is missing or uses what it is not given.
        """
        returns: dict[str, FieldType] = {"reason": StrType(type="str"), FIELD: BoolType(type="bool")}
        step = StepConfig(id=STEP, prompt=f"checks/{kind}.jinja", returns=returns)
        rule = ValueRule(op="value", of=STEP, field=FIELD)
        return cls(kind, config, build_steps(kind, [step], rule, config.needs, prompts, extras=EXTRAS), rule)

    def bound(self, name: str, config: ChainConfig, params: Mapping[str, Any]) -> Self:
        """The check with a case's parameters."""
        return type(self)(name, config, self._steps, self._rule, params)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The ask that scoring would lead to."""
        return () if self._ungrounded(case, answer) else super().preview(case, answer)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Put the check to the judge; without a context, and without earlier turns, there is nothing to hold it to."""
        return self._ungrounded(case, answer) or await super().score(case, answer, judge, repeat)

    def _ungrounded(self, case: Case, answer: Answer) -> Outcome | None:
        if "context" not in self._params or self._params["context"] or fields_of(case, answer)["history"]:
            return None
        return Outcome(status="skipped", reason="the check has no context, and the case no earlier turns")

    def _extras(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        blank: dict[str, Any] = dict.fromkeys(EXTRAS)
        return {**blank, "messages": fields["messages"] or (), **self._params}

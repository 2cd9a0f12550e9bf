"""Rules over one case field, and the one score that they come to together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from evalflow.apart import TooSlow, apart
from evalflow.metrics.json_operations import Operation
from evalflow.metrics.operations import Finding
from evalflow.records import Outcome

Combine = Literal["all", "any", "mean"]


@dataclass(frozen=True)
class Rulebook:
    """Operations over a case field.

    Attributes:
        field: The case field, or a dotted path into one.
        operations: What is asked of it, at least one.
        combine: `all` and `any` give 1 or 0; `mean` gives the share of the operations that hold.
    """

    field: str
    operations: Sequence[Operation]
    combine: Combine = "all"

    async def score(self, fields: Mapping[str, Any]) -> Outcome:
        """Apply every operation; away from the event loop, unless they are quick.

        Args:
            fields: All fields, none of those concerned absent.
        """

        def apply() -> list[Finding]:
            return [operation.apply(self.field, fields) for operation in self.operations]

        try:
            findings = apply() if all(operation.quick for operation in self.operations) else await apart(apply)
        except TooSlow as error:
            return Outcome(status="error", error_type="timeout", error=str(error))
        held = sum([finding.passed for finding in findings])
        share = held / len(findings)
        score = share if self.combine == "mean" else float(held == len(findings) if self.combine == "all" else held > 0)
        return Outcome(
            status="scored",
            score=score,
            value=score if self.combine == "mean" else bool(score),
            reason=_reason(findings, passed=score == 1),
            steps=tuple(
                [
                    {**about, "passed": finding.passed, "reason": finding.reason}
                    for about, finding in zip(self._about, findings, strict=True)
                ]
            ),
            path="direct",
        )

    @cached_property
    def _about(self) -> Sequence[Mapping[str, Any]]:
        """What each step says of its operation, whatever the answer."""
        return [
            {"id": one.op, "check": one.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
            for one in self.operations
        ]


def _reason(findings: Sequence[Finding], passed: bool) -> str:
    """What failed; where nothing that matters did, what held."""
    return "; ".join([finding.reason for finding in findings if finding.passed == passed])

"""All operations, those that combine others, and a list of operations as one score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from evalflow.apart import TooSlow, apart
from evalflow.config.schema import with_examples
from evalflow.metrics.html_operation import HtmlOperation
from evalflow.metrics.json_operations import JsonPathOperation, JsonSchemaOperation, XmlOperation
from evalflow.metrics.operations import (
    BaseOperation,
    ComparisonOperation,
    LengthOperation,
    PatternOperation,
    Read,
    RuleFinding,
    TextListOperation,
    TextOperation,
    ToleranceOperation,
)
from evalflow.metrics.sql_operation import SqlOperation
from evalflow.records import Outcome

Combine = Literal["all", "any", "mean"]


class NotOperation(BaseOperation):
    """Holds where another operation does not hold. A rule that cannot be tested is an error here too.

    Attributes:
        rule: The other operation.
    """

    model_config = with_examples({"op": "not", "rule": {"op": "starts_with", "value": "No"}})
    op: Literal["not"]
    rule: Operation

    @property
    def quick(self) -> bool:
        return self.rule.quick

    def reads(self, field: str) -> Iterator[Read]:
        yield from _reads_within(self, field, {"rule": self.rule})

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        finding = _within(self.rule, name, value, fields)
        return RuleFinding(not finding.passed, finding.reason)


class SeveralOperation(BaseOperation):
    """Holds where any of several operations holds, or where all hold. All are tested, in any case.

    Attributes:
        rules: The operations; each may name its own `field`.
    """

    model_config = with_examples(
        {"op": "any", "rules": [{"op": "equals", "value": "3"}, {"op": "contains", "value": "three"}]},
        {"op": "all", "rules": [{"op": "contains", "value": "20"}, {"op": "length", "max": 15}]},
    )
    op: Literal["any", "all"]
    rules: list[Operation] = Field(min_length=1)

    @property
    def quick(self) -> bool:
        return all(rule.quick for rule in self.rules)

    def reads(self, field: str) -> Iterator[Read]:
        yield from _reads_within(self, field, {f"rules[{place}]": rule for place, rule in enumerate(self.rules)})

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        findings = [_within(rule, name, value, fields) for rule in self.rules]
        held = [finding.passed for finding in findings]
        passed = all(held) if self.op == "all" else any(held)
        return RuleFinding(passed, joined(findings, passed))


Operation = Annotated[
    TextOperation
    | TextListOperation
    | PatternOperation
    | ComparisonOperation
    | ToleranceOperation
    | LengthOperation
    | JsonPathOperation
    | JsonSchemaOperation
    | XmlOperation
    | HtmlOperation
    | SqlOperation
    | NotOperation
    | SeveralOperation,
    Field(discriminator="op"),
]
JsonPathOperation.model_rebuild(_types_namespace={"Operation": Operation})
NotOperation.model_rebuild()
SeveralOperation.model_rebuild()


def _within(rule: BaseOperation, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
    return rule.test(name, value, fields) if rule.field is None else rule.apply(name, fields)


def _reads_within(outer: BaseOperation, field: str, rules: Mapping[str, BaseOperation]) -> Iterator[Read]:
    own = outer.field or field
    for place, rule in rules.items():
        for key, read in rule.reads(own):
            if key:
                yield f"{place}.{key}", read
            else:
                yield ("", field) if outer.field is None else ("field", outer.field)


@dataclass(frozen=True)
class Rulebook:
    """Operations over a case field. `all` and `any` give 1 or 0; `mean` gives the share of those that hold."""

    field: str
    operations: Sequence[Operation]
    combine: Combine = "all"

    @property
    def reads(self) -> Sequence[str]:
        """The fields that the operations read, each once."""
        return list(dict.fromkeys(field for one in self.operations for _, field in one.reads(self.field)))

    async def score(self, fields: Mapping[str, Any]) -> Outcome:
        def apply() -> list[RuleFinding]:
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
            reason=joined(findings, passed=score == 1),
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
        return [
            {"id": one.op, "check": one.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
            for one in self.operations
        ]


def joined(findings: Sequence[RuleFinding], passed: bool) -> str:
    """The reasons of the findings that passed, or of those that did not."""
    return "; ".join([finding.reason for finding in findings if finding.passed == passed])

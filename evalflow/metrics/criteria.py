"""Several named criteria that a judge grades in one reply, and their one score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from evalflow.config.schema import Strict, Word
from evalflow.metrics.reasons import LISTED, REMARK, one_line
from evalflow.metrics.returns import FieldName, FieldType, StrType
from evalflow.metrics.rules import PartsRule, Replies, Rule
from evalflow.metrics.scale import Scale, grade_rule, reply_type
from evalflow.records import Direction

Combine = Literal["mean", "min", "max"]
_REASON = "_reason"


class NamedCriterion(Strict):
    """One of several criteria. A criterion without a weight may be written as its text alone.

    Attributes:
        description: What is graded, in words for the judge.
        weight: How much it counts in the mean.
    """

    description: Word = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


def _expand(declared: Any) -> Any:
    return {"description": declared} if isinstance(declared, str) else declared


def _expect_names(criteria: dict[str, NamedCriterion]) -> dict[str, NamedCriterion]:
    for name in criteria:
        if name.endswith(_REASON) and name.removesuffix(_REASON) in criteria:
            raise ValueError(f"the criterion {name!r} has the name of another one's reason; choose another")
    return criteria


Criteria = Annotated[
    dict[FieldName, Annotated[NamedCriterion, BeforeValidator(_expand, json_schema_input_type=NamedCriterion | str)]],
    Field(min_length=2),
    AfterValidator(_expect_names),
]


def graded_fields(criteria: Criteria, scale: Scale) -> dict[str, FieldType]:
    """The fields of a reply: a reason and then a grade for each criterion, by its name so that none is mixed up."""
    return {
        field: declared
        for name in criteria
        for field, declared in ((f"{name}{_REASON}", StrType(type="str")), (name, reply_type(scale)))
    }


class CriteriaRule(PartsRule):
    """The weighted mean, the lowest or the highest of the grades; the value has each criterion's own score."""

    op: Combine
    parts: dict[str, Rule]
    weights: dict[str, float]

    @classmethod
    def of(cls, criteria: Criteria, scale: Scale, combine: Combine, step: str) -> CriteriaRule:
        parts: dict[str, Rule] = {name: grade_rule(scale, step, name) for name in criteria}
        return cls(op=combine, parts=parts, weights={name: one.weight for name, one in criteria.items()})

    def _parts(self) -> Mapping[str, Rule]:
        return self.parts

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        if self.op != "mean":
            return (min if self.op == "min" else max)(scores.values()), dict(scores)
        total = sum(self.weights.values())
        return sum(self.weights[name] * score for name, score in scores.items()) / total, dict(scores)

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        """The worst criteria first, each with its score and the judge's reason."""
        scores = self.evaluate(replies, weighted).value
        worst = sorted(scores, key=scores.__getitem__, reverse=direction == "lower_is_better")
        (reply,) = replies.values()
        told = [
            f"{name} {scores[name]:.2f}: {one_line(reply.reply[name + _REASON], REMARK)}" for name in worst[:LISTED]
        ]
        return "; ".join([*told, *([f"and {len(worst) - LISTED} more"] if len(worst) > LISTED else [])])

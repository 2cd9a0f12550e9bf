"""Score rules: turn the replies of a metric's steps into a score in 0..1 with a one-line reason.

A rule has three methods: `problems` checks it against the declared steps, `evaluate` computes the score, `reason`
explains it. With `weighted` the score is an expectation, if the judge gave probabilities for every row used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from evalflow.config.schema import Strict, Word, with_examples
from evalflow.errors import Problem, did_you_mean
from evalflow.metrics.list_rules import AveragePrecisionRule, LowestRule, MeanRule, PenaltiesRule, ShareRule
from evalflow.metrics.reasons import REMARK, one_line, remark
from evalflow.metrics.returns import ItemKind, Observed, Rows, normalised, number_problems
from evalflow.metrics.rule_results import (
    Replies,
    Result,
    Steps,
    UnitScore,
    UnitValues,
    clamped,
    distributions,
    expected,
    table_problems,
)
from evalflow.records import Direction


class FieldRule(Strict):
    """A rule on one `field` of a step with a single reply; the reason is the judge's own."""

    op: str
    of: str
    field: str

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        step = steps.get(self.of)
        if step is None:
            yield Problem(f"there is no step {self.of!r}", f"{where}.of", did_you_mean(self.of, steps))
        elif step.one_per is not None:
            what = f"the step {self.of!r} replies once per item, and `{self.op}` takes one reply"
            yield Problem(what, f"{where}.op", "use a rule over a list, such as share or mean")
        elif self.field not in step.returns:
            known = did_you_mean(self.field, step.returns)
            yield Problem(f"the step {self.of!r} returns no field {self.field!r}", f"{where}.field", known)
        else:
            yield from self._type_problems(step.returns[self.field], where)

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        raise NotImplementedError

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        reply = replies[self.of]
        return one_line(remark(reply.reply, reply) or f"{self.field}: {reply.cell(self.field)}", 4 * REMARK)

    def _chances(self, reply: Observed, weighted: bool) -> Mapping[Any, float] | None:
        """The judge's distribution of the field, if it gave one and scores are weighted."""
        if not weighted or not reply.probabilities:
            return None
        (row,), used = distributions(Rows([reply.reply], reply.probabilities, (), ""), self.field, weighted=True)
        return row if used else None


class ValueRule(FieldRule):
    """One numeric or boolean `field` of a step's reply, mapped to 0..1."""

    model_config = with_examples({"op": "value", "of": "grade", "field": "score"})
    op: Literal["value"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        return number_problems(declared, where)

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        reply = replies[self.of]
        declared = reply.step.returns[self.field]
        chances = self._chances(reply, weighted)
        if chances is None:
            return Result(normalised(declared, reply.cell(self.field)), reply.cell(self.field))
        score = clamped(expected(chances, lambda value: normalised(declared, value)))
        return Result(score, expected(chances, float), weighted=True)


class MapRule(FieldRule):
    """One label `field` of a step's reply, mapped to a number by a table."""

    model_config = with_examples(
        {"op": "map", "of": "grade", "field": "verdict", "values": {"reached": 1, "partly": 0.5, "missed": 0}}
    )
    op: Literal["map"]  # pyright: ignore[reportIncompatibleVariableOverride]
    values: UnitValues

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        yield from table_problems(declared, self.values, where)

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        reply = replies[self.of]
        label = reply.cell(self.field)
        assert isinstance(label, str)
        chances = self._chances(reply, weighted)
        if chances is None:
            return Result(self.values[label], label)
        return Result(clamped(expected(chances, self.values.__getitem__)), label, weighted=True)


class PartsRule(Strict):
    """A rule over other rules; undefined if one of them is undefined."""

    def _parts(self) -> Mapping[str, Rule]:
        """The other rules by key path; the last part of a path is the rule's name."""
        raise NotImplementedError

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, object]:
        raise NotImplementedError

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        for key, part in self._parts().items():
            yield from part.problems(steps, f"{where}.{key}")

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        parts = {key.rpartition(".")[2]: part.evaluate(replies, weighted) for key, part in self._parts().items()}
        for name, part in parts.items():
            if part.score is None:
                return Result(None, undefined=f"{name} is undefined: {part.undefined}")
        score, value = self._combined({name: part.score for name, part in parts.items() if part.score is not None})
        return Result(score, value, weighted=any(part.weighted for part in parts.values()))

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        reasons: list[str] = []
        for key, part in self._parts().items():
            score = part.evaluate(replies, weighted).score
            number = "undefined" if score is None else f"{score:.2f}"
            reasons.append(f"{key.rpartition('.')[2]} {number}: {part.reason(replies, direction, weighted)}")
        return "; ".join(reasons)


class FScoreRule(PartsRule):
    """The F-score of two rules; `beta` weighs recall against precision.

    Attributes:
        when_empty: The score if both rules have nothing to count: a number from 0 to 1, or undefined. If only one has
            nothing to count, the score is 0.
    """

    model_config = with_examples(
        {
            "op": "f_score",
            "precision": {"op": "share", "of": "answer_verdicts", "field": "verdict", "equals": "supported"},
            "recall": {"op": "share", "of": "reference_verdicts", "field": "verdict", "equals": "stated"},
            "when_empty": 1,
        }
    )
    op: Literal["f_score"]
    precision: Rule
    recall: Rule
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    when_empty: UnitScore = "undefined"

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        result = super().evaluate(replies, weighted)
        if result.score is not None:
            return result
        if any(part.evaluate(replies, weighted).score is not None for part in self._parts().values()):
            return Result(0.0, 0.0)
        return result if self.when_empty == "undefined" else Result(self.when_empty, self.when_empty)

    def _parts(self) -> Mapping[str, Rule]:
        return {"precision": self.precision, "recall": self.recall}

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, object]:
        score = f_beta(scores["precision"], scores["recall"], self.beta)
        return score, score


class MinRule(PartsRule):
    """The lowest of several named rules."""

    model_config = with_examples(
        {
            "op": "min",
            "parts": {
                "tone": {"op": "value", "of": "tone", "field": "score"},
                "claims": {"op": "share", "of": "verdicts", "field": "verdict", "equals": "supported"},
            },
        }
    )
    op: Literal["min"]
    parts: dict[Word, Rule] = Field(min_length=2)

    def _parts(self) -> Mapping[str, Rule]:
        return {f"parts.{name}": part for name, part in self.parts.items()}

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, object]:
        return min(scores.values()), dict(scores)


Rule = Annotated[
    ShareRule
    | AveragePrecisionRule
    | MeanRule
    | LowestRule
    | PenaltiesRule
    | ValueRule
    | MapRule
    | FScoreRule
    | MinRule,
    Field(discriminator="op"),
]
FScoreRule.model_rebuild()
MinRule.model_rebuild()


def f_beta(precision: float, recall: float, beta: float = 1.0) -> float:
    """The weighted harmonic mean (1 + b²) P R / (b² P + R); 0 where one is 0 (van Rijsbergen, 1979)."""
    if precision == 0 or recall == 0:
        return 0.0
    return clamped((1 + beta**2) * precision * recall / (beta**2 * precision + recall))

"""The kinds that ask a judge: `judge`, a chain of prompts with a score rule, and `rubric`, one prompt and a scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.errors import Problem, UserError
from evalflow.metrics.chain import ChainConfig, ChainMetric, QuestionConfig
from evalflow.metrics.reasons import LISTED, REMARK, one_line
from evalflow.metrics.returns import FieldName, FieldType, StepConfig, StrType
from evalflow.metrics.rules import MapRule, PartsRule, Replies, Rule, ValueRule
from evalflow.metrics.scale import Scale, grade_rule, reply_type
from evalflow.metrics.steps import build_steps
from evalflow.prompts import Prompts
from evalflow.records import Direction
from evalflow.values.jsonvalues import as_map, number_at, written

Combine = Literal["mean", "min", "max"]
_REASON = "_reason"
STEP = "grade"
FIELD = "score"
EXTRAS = ("description", "criteria", "scale", "given")


class JudgeMetricConfig(ChainConfig):
    """A chain of prompts.

    Attributes:
        steps: What the judge is asked, in order.
        score: How the replies become a score.
    """

    kind: Literal["judge"]  # pyright: ignore[reportIncompatibleVariableOverride]
    steps: list[StepConfig] = Field(min_length=1)
    score: Rule


class JudgeMetric(ChainMetric[JudgeMetricConfig]):
    """Asks a judge the declared steps."""

    Config = JudgeMetricConfig

    @classmethod
    def build(cls, name: str, config: JudgeMetricConfig, prompts: Prompts) -> Self:
        steps = build_steps(name, config.steps, config.score, config.shown, prompts)
        return cls(name, config, steps, config.score)


class NamedCriterion(Strict):
    """One of several criteria. A criterion without a weight may be written as its text alone.

    Attributes:
        description: What is graded, in words for the judge.
        weight: How much it counts in the mean.
    """

    description: Word = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


def _expand(declared: object) -> object:
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
    """The fields of a reply: for each criterion a reason, then a grade, both named after it."""
    return {
        field: declared
        for name in criteria
        for field, declared in ((f"{name}{_REASON}", StrType(type="str")), (name, reply_type(scale)))
    }


class CriteriaRule(PartsRule):
    """The weighted mean, lowest or highest grade; the value has each criterion's score."""

    op: Combine
    parts: dict[str, Rule]
    weights: dict[str, float]

    @classmethod
    def of(cls, criteria: Criteria, scale: Scale, combine: Combine, step: str) -> CriteriaRule:
        parts: dict[str, Rule] = {name: grade_rule(scale, step, name) for name in criteria}
        return cls(op=combine, parts=parts, weights={name: one.weight for name, one in criteria.items()})

    def _parts(self) -> Mapping[str, Rule]:
        return self.parts

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, object]:
        if self.op != "mean":
            return (min if self.op == "min" else max)(scores.values()), dict(scores)
        total = sum(self.weights.values())
        return sum(self.weights[name] * score for name, score in scores.items()) / total, dict(scores)

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        """The worst criteria first, each with its score and the judge's reason."""
        scores = as_map(self.evaluate(replies, weighted).value)
        worst = sorted(scores, key=lambda name: number_at(scores, name), reverse=direction == "lower_is_better")
        (reply,) = replies.values()
        remarks = [
            f"{name} {scores[name]:.2f}: {one_line(written(reply.cell(name + _REASON)), REMARK)}"
            for name in worst[:LISTED]
        ]
        return "; ".join([*remarks, *([f"and {len(worst) - LISTED} more"] if len(worst) > LISTED else [])])


class RubricMetricConfig(QuestionConfig):
    """One prompt and a scale.

    Attributes:
        prompt: The template. The default shows everything in `needs`, the `description` and the scale. Besides the
            fields in `needs` a template can use `description`, `criteria` (a list with `name` and `description`),
            `scale` and `given` (a map of the fields in `needs`).
        criteria: Several criteria by name, graded in one call: a text each, or {description, weight}. They need the
            prompt rubric/criteria.jinja. null: the `description` is the only criterion.
        combine: The score of several criteria: their weighted mean, the lowest (min) or the highest (max).
        scale: The grades that the judge may give, to each criterion if there are several.
    """

    kind: Literal["rubric"]  # pyright: ignore[reportIncompatibleVariableOverride]
    prompt: Word = "rubric/grade.jinja"
    criteria: Criteria | None = None
    combine: Combine = "mean"
    scale: Scale

    @model_validator(mode="after")
    def _expect_use(self) -> Self:
        if self.criteria is None and self.combine != "mean":
            raise ValueError("`combine` needs several criteria; list them in `criteria`")
        if self.criteria and self.combine != "mean" and any(one.weight != 1 for one in self.criteria.values()):
            raise ValueError(f"combine: {self.combine} does not use weights; leave them out")
        return self


class RubricMetric(ChainMetric[RubricMetricConfig]):
    """A one-step chain: the judge replies with a reason, then a grade (for each criterion if there are several)."""

    Config = RubricMetricConfig

    @classmethod
    def build(cls, name: str, config: RubricMetricConfig, prompts: Prompts) -> Self:
        rule: ValueRule | MapRule | CriteriaRule
        if config.criteria is None:
            returns: dict[str, FieldType] = {"reason": StrType(type="str"), FIELD: reply_type(config.scale)}
            rule = grade_rule(config.scale, STEP, FIELD)
        else:
            if "criteria" not in prompts.variables(config.prompt):
                what = f"the prompt {config.prompt} does not show the judge the criteria"
                raise UserError(Problem(what, f"metric.{name}.prompt", "prompt: rubric/criteria.jinja"))
            returns = graded_fields(config.criteria, config.scale)
            rule = CriteriaRule.of(config.criteria, config.scale, config.combine, STEP)
        step = StepConfig(id=STEP, prompt=config.prompt, returns=returns, examples=config.examples)
        keys = {STEP: f"metric.{name}.prompt"}
        steps = build_steps(name, [step], rule, config.shown, prompts, extras=EXTRAS, prompt_keys=keys)
        return cls(name, config, steps, rule)

    def _constants(self) -> Mapping[str, object]:
        criteria = [
            {"name": name, "description": one.description} for name, one in (self.config.criteria or {}).items()
        ]
        return {"description": self.config.description, "criteria": criteria, "scale": self.config.scale.model_dump()}

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        return {"given": self._given(fields)}

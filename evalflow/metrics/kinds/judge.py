"""The kinds that ask a judge: `judge`, a chain of prompts with a score rule, and `rubric`, one prompt and a scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.jsonvalues import look_up
from evalflow.metrics.chain import ChainConfig, ChainMetric
from evalflow.metrics.returns import FieldType, StepConfig, StrType
from evalflow.metrics.rules import Rule
from evalflow.metrics.scale import Scale, grade_rule, reply_type
from evalflow.metrics.steps import build_steps
from evalflow.prompts import Prompts

STEP = "grade"
FIELD = "score"
EXTRAS = ("description", "scale", "given")


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
        steps = build_steps(name, config.steps, config.score, config.needs, prompts)
        return cls(name, config, steps, config.score)


class RubricMetricConfig(ChainConfig):
    """One prompt and a scale.

    Attributes:
        prompt: The template. The default one shows everything in `needs`, the `description` and the scale. Besides the
            fields in `needs` a template can use `description`, `scale` and `given` (a map of the fields in `needs`).
        scale: The grades that the judge may give.
    """

    kind: Literal["rubric"]  # pyright: ignore[reportIncompatibleVariableOverride]
    prompt: Word = "rubric/grade.jinja"
    scale: Scale


class RubricMetric(ChainMetric[RubricMetricConfig]):
    """A one-step chain: the judge replies with a reason, then a grade."""

    Config = RubricMetricConfig

    @classmethod
    def build(cls, name: str, config: RubricMetricConfig, prompts: Prompts) -> Self:
        returns: dict[str, FieldType] = {"reason": StrType(type="str"), FIELD: reply_type(config.scale)}
        step = StepConfig(id=STEP, prompt=config.prompt, returns=returns)
        rule = grade_rule(config.scale, STEP, FIELD)
        keys = {STEP: f"metric.{name}.prompt"}
        steps = build_steps(name, [step], rule, config.needs, prompts, extras=EXTRAS, prompt_keys=keys)
        return cls(name, config, steps, rule)

    def _constants(self) -> Mapping[str, Any]:
        return {"description": self.config.description, "scale": self.config.scale.model_dump()}

    def _extras(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        needs = self.config.needs
        return {"given": {need: fields[need] if need in fields else look_up(need, fields) for need in needs}}

"""The kind `judge`: a chain of prompts with typed replies, then a score rule."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from evalflow.metrics.chain import ChainConfig, ChainMetric
from evalflow.metrics.rules import Rule
from evalflow.metrics.steps import StepConfig, build_steps
from evalflow.prompts import Prompts


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
        """See `BaseMetric`."""
        steps = build_steps(name, config.steps, config.score, config.needs, prompts)
        return cls(name, config, steps, config.score)

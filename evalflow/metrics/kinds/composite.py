"""The kind `composite`: a rule over the scores that other metrics of the same run gave an answer."""

from __future__ import annotations

from evalflow.metrics.base import BaseMetric
from evalflow.metrics.combine import CompositeMetricConfig
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome


class CompositeMetric(BaseMetric[CompositeMetricConfig]):
    """Made of other scores when results are derived, so that another weight costs nothing; see `combine`.

    In the run itself there is nothing to do for it.
    """

    Config = CompositeMetricConfig

    def __init__(self, name: str, config: CompositeMetricConfig) -> None:
        super().__init__(name, config)
        self.parts = tuple(config.weights)

    def bind(self, case: Case) -> tuple[()]:
        """Nothing: its scores follow from others."""
        return ()

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Never asked for."""
        raise ValueError(f"metric {self.name} is made of other scores, and cannot score an answer by itself")

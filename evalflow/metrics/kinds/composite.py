"""The kind `composite`: a rule over the scores that other metrics of the same run gave an answer."""

from __future__ import annotations

from collections.abc import Sequence

from evalflow.metrics.base import BaseMetric
from evalflow.metrics.combine import CompositeMetricConfig
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome


class CompositeMetric(BaseMetric[CompositeMetricConfig]):
    """Made of other scores when results are derived, so that another weight costs nothing; see `combine`.

    In the run itself there is nothing to do for it.
    """

    Config = CompositeMetricConfig

    @property
    def parts(self) -> Sequence[str]:
        """The metrics that it is made of."""
        return tuple(self.config.weights)

    def bind(self, case: Case) -> tuple[()]:
        """Nothing: its scores follow from others."""
        return ()

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Never asked for.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"metric {self.name} is made of other scores, and cannot score an answer by itself")

"""A metric and who judges for it: what a run scores every answer with."""

from __future__ import annotations

from collections.abc import Iterator

from evalflow.frozen import record
from evalflow.protocols import Judge, Metric
from evalflow.records import Case


@record()
class Pair:
    """A metric and who judges for it.

    Attributes:
        metric: The metric.
        judge: Who answers its asks; None for a metric that asks nobody.
        embedder: Who answers the asks of a metric that compares meanings, in the place of a judge.
        both: The two as one, for a metric that needs them for the same score.
    """

    metric: Metric
    judge: Judge | None
    embedder: Judge | None = None
    both: Judge | None = None

    def bound(self, case: Case, judge_repeats: int) -> Iterator[tuple[Pair, int]]:
        """The metrics that score a case, each with whom it really asks, and how often it scores an answer."""
        for metric in self.metric.bind(case):
            with_judge = self.both if metric.embeds else self.judge
            judge = with_judge if metric.asks else self.embedder if metric.embeds else None
            yield Pair(metric, judge), judge_repeats if judge and metric.asks else 1

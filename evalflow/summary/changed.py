"""Changes between two runs, which can explain a difference of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from evalflow.records import CASES

Part = Literal["target", "metric", "prompt", "judge", "threshold", "cases"]
"""What may differ: the bot, how a metric is computed, a judge's prompt, the judge, a metric's threshold, the data."""
Attribution = Literal["answers", "judge", "data", "unclear"]
"""What can explain a difference: the answers, how the same answers were judged, their test cases, or several."""
MEASURES: tuple[Part, ...] = ("metric", "prompt", "judge")


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A setting or text whose value changed, such as `model`; None if a run has no such value or did not keep it."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """One thing that differs, in words and value by value.

    `metric` is the metric that it affects, "" if it affects all.
    """

    kind: Part
    what: str
    metric: str = ""
    values: Sequence[ChangedValue] = ()


@dataclass(frozen=True, slots=True)
class WhatChanged:
    """Everything that differs between the runs of a pair (A, B).

    Attributes:
        answers: The number of answers to cases of both runs; None if they were not read.
        other_answers: How many of them differ.
        composites: The metrics that are computed from other metrics' scores.
    """

    pair: tuple[str, str]
    parts: Sequence[ChangedPart] = ()
    answers: int | None = None
    other_answers: int = 0
    composites: Sequence[str] = ()

    @property
    def same_answers(self) -> bool:
        """Whether the answers were read and none differs."""
        return bool(self.answers) and not self.other_answers

    @property
    def only_judged(self) -> bool:
        """Whether answers and data are equal and only the judging differs."""
        kinds = {part.kind for part in self.parts}
        return self.same_answers and "cases" not in kinds and bool(kinds & {*MEASURES, "threshold"})

    def attribution(self, metric: str, statistic: str = "mean") -> Attribution:
        """The changes that can explain a difference of a metric's statistic."""
        data = any(part.kind == "cases" for part in self.parts)
        judged = bool(self.judged(metric, statistic))
        if self.same_answers and (data or judged or self.only_judged):
            return "data" if data and not judged else "unclear" if data else "judge"
        return "unclear" if data or judged else "answers"

    def judged(self, metric: str, statistic: str = "mean") -> list[ChangedPart]:
        """The differences in how a metric's statistic is measured."""
        passes = metric == CASES or statistic == "pass_rate"
        parts = [part for part in self.parts if part.kind in MEASURES or (part.kind == "threshold" and passes)]
        return parts if metric == CASES or metric in self.composites else [one for one in parts if one.metric == metric]

    def document(self) -> dict[str, object]:
        parts = [asdict(part) for part in self.parts]
        return {"parts": parts, "answers": self.answers, "other_answers": self.other_answers}

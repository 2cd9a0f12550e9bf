"""Scores as they are shown, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """Which scores; None: whatever it is.

    Attributes:
        metric, status: Those with exactly this; status is scored, undefined, error or skipped.
        tag: Those of cases with this tag, or one below it.
        text: Those whose question, answer or case id has this in it; capitals of ASCII do not matter.
        low, high: Those that scored within these, bounds included.
        passed: Those that passed, or that did not, by the thresholds given or else the run's.
        answer: Those of one answer, by its position.
    """

    metric: str | None = None
    status: str | None = None
    tag: str | None = None
    text: str | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    answer: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One score with what it is about.

    Attributes:
        id: Of the score in its run.
        position: Of the answer in its run, in input order, from 0.
        value: On the metric's own scale.
        threshold, passed: None where no threshold counts, passed also unless scored.
        error, error_type: Why there is no score.
        answer_error: Why there is no answer.
        steps: What the judge said, step by step; None where it was not asked for (see `get_score`).
    """

    id: str
    position: int
    dataset: str
    case_id: str
    tags: Sequence[str]
    question: str
    answer: str | None
    reference: str | None
    answer_error: str | None
    target: str
    target_repeat: int
    metric: str
    judge: str | None
    repeat: int
    status: str
    score: float | None
    value: Any
    threshold: float | None
    passed: bool | None
    reason: str | None
    error_type: str | None
    error: str | None
    path: str | None
    cost_usd: float | None
    latency_s: float | None
    steps: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class ScorePage:
    """Some scores; `next` is the cursor of those that follow, None at the end."""

    items: Sequence[Score]
    next: str | None


@dataclass(frozen=True, slots=True)
class PassRate:
    """How many of the scores of a metric, by one judge, reach a threshold.

    Attributes:
        passed, n: Counts; `n` is of those in state scored.
        rate: The share; None where nothing was scored. Its interval, which knows what belongs together, is told by
            `thresholds.passing`.
    """

    metric: str
    judge: str | None
    threshold: float
    direction: str
    passed: int
    n: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the scores of a metric lie: `counts[i]` of them between `edges[i]` and `edges[i + 1]`.

    Of these, `passed[i]` pass the threshold that was asked for; None where none was.
    """

    metric: str
    edges: Sequence[float]
    counts: Sequence[int]
    passed: Sequence[int] | None = None

"""Scores, human labels, and which figures a metric has over a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from evalflow.records.spend import NOTHING, Spend, Usage

Status = Literal["scored", "undefined", "error", "skipped"]
Path = Literal["weighted", "direct", "reasked"]
Direction = Literal["higher_is_better", "lower_is_better"]
LabelKind = Literal["label", "resolution"]
LabelUse = Literal["label", "resolution", "apart", "missing"]
Draw = Literal["random", "strata", "groups", "hand"]
Missing = Literal["cannot_tell", "declined", "unfinished", "blank"]
CASES = "cases"
"""The metric of a run's cases as a whole, whose pass rate is the share of cases that pass everything."""
TOLERANCE = 1e-9  # how far a number may miss a threshold or a limit and still count as equal to it


@overload
def passes(value: float, threshold: float, *, higher_is_better: bool = True) -> bool: ...
@overload
def passes(value: Any, threshold: Any, *, higher_is_better: bool = True) -> Any: ...
def passes(value: Any, threshold: Any, *, higher_is_better: bool = True) -> Any:
    """Whether a number is on the passing side of a threshold, itself included; every comparison is made here.

    Because of rounding, 0.7 * 0.3 + 0.7 * 0.7 is slightly off 0.7; with the tolerance it passes 0.7. A value may also
    be what compares as a number: a NumPy array, a Polars expression, an SQL column.
    """
    return value >= threshold - TOLERANCE if higher_is_better else value <= threshold + TOLERANCE


@dataclass(slots=True, kw_only=True)
class Outcome:
    """A metric's result for one answer, before it is assigned to its cell.

    Not to be changed; not enforced, as in `CallCosts`.

    Example:
        >>> Outcome(status="undefined", reason="the list is empty").score is None
        True
    """

    status: Status  # one of the four states; only `scored` has a score
    # 0..1 for a scale, natural otherwise, and on the metric's own scale. None unless scored, except for the value of a
    # pair whose verdict depends on the order.
    score: float | None = None
    value: object = None
    # Why (also why undefined or skipped), and the judge's replies, step by step.
    reason: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()
    # path, parts: How the score came about (by probabilities, direct, after a re-ask); a panel's members.
    path: Path | None = None
    error_type: str | None = None
    error: str | None = None
    remedy: str | None = None  # the override that would help, if the error has one
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    parts: tuple[Outcome, ...] = ()

    @property
    def spend(self) -> Spend:
        """The cost of its calls; only for an outcome whose calls have been counted."""
        return Spend(usage=self.usage, cost_usd=self.cost_usd, latency_s=self.latency_s, cached=int(self.cached))


@dataclass(slots=True, kw_only=True)
class ScoreRecord:
    """One cell (dataset, case, target, target_repeat, metric, judge, repeat) and its outcome; a row of `scores`.

    Not to be changed; not enforced, as in `CallCosts`. Its fields, in this order, are the list of the scores' columns;
    `summary.journal` derives those of all files.
    Tokens, cost and time are those of all its replies, cached ones included; `bill` holds what this run paid for.

    Example:
        >>> cell = {"dataset": "rag", "case_id": "a", "target": "echo", "metric": "short", "judge": None}
        >>> more = {"run_id": "r", "index": 0, "group": None, "tags": (), "target_repeat": 0, "metric_version": 1}
        >>> ScoreRecord(**cell, **more, repeat=0, status="scored", score=1.0).score
        1.0
    """

    run_id: str
    dataset: str
    index: int
    case_id: str
    group: str | None
    tags: tuple[str, ...]
    target: str
    target_repeat: int
    metric: str
    metric_version: int
    judge: str | None
    repeat: int
    member_of: str | None = None
    status: Status
    score: float | None = None
    value: object = None
    reason: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()
    error_type: str | None = None
    error: str | None = None
    remedy: str | None = None
    path: Path | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    bill: Spend = NOTHING
    finished_at: str = ""
    # Of the answer: why the target ended it, and whether the part that is scored was found (None: all of it counts).
    finish_reason: str | None = None
    extracted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A person's judgement of one answer on one metric; its columns are described in `evalflow.labels.columns`."""

    case_id: str
    metric: str
    value: object
    by: str
    # Selects the answer to the case; None matches every answer.
    dataset: str | None = None
    target: str | None = None
    target_repeat: int | None = None
    # Hash of the answer that the person saw (see `evalflow.labels.answer_hash`); None if only the recorded answer can
    # be meant.
    answer_hash: str | None = None
    weight: float = 1.0  # the number of answers it represents: 1 over the probability with which it was sampled
    comment: str | None = None
    at: str | None = None
    group: str | None = None
    review: str | None = None
    position: int | None = None
    seconds: float | None = None
    draw: Draw | None = None
    seed: int | None = None
    population: int | None = None
    pi: float | None = None
    kind: LabelKind = "label"
    blind: bool = True
    seen_before: bool = False
    rubric: int | None = None
    missing: Missing | None = None  # why the value is missing; None if it is not
    where: str = ""  # its place in a file, for messages

    @property
    def use(self) -> LabelUse:
        """What it counts for.

        A label and a resolution enter the truth about an answer; "apart": given with the judge's score in view, or of
        an answer picked by hand, so that it enters no mean; "missing": served, and without a value.
        """
        if not self.blind or self.draw == "hand":
            return "apart"
        return "missing" if self.missing else self.kind


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """Which figures a metric has over a run, from the `value` of its scores."""

    # classification: accuracy, precision, recall, F and the matrix; retrieval: the mean of each measure; pairwise: win
    # rate, consistency, and the judge's biases.
    kind: Literal["classification", "retrieval", "pairwise"]
    positive: object = None  # the label that precision and recall are about; None if there are several classes
    per_label: bool = False  # whether each label is a classification of its own, true or false
    # Whether predictions state their confidence, so that it can be compared with how often they are right.
    confidence: bool = False
    measures: Sequence[str] = ()

    @property
    def categorises(self) -> bool:
        """Whether each score is about one of several classes."""
        return self.kind == "classification" and self.positive is None and not self.per_label

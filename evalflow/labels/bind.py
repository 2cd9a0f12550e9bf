"""Binding labels to the answers of a run: a label counts for the answer that the person saw, and for no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalflow.errors import Problem, did_you_mean
from evalflow.frozen import record
from evalflow.labels.parse import Given

Read = Callable[[Any], tuple[float, Any]]
"""Gives (score, value on the metric's own scale), or raises ValueError."""
Cell = tuple[str, str, str, int, str]


@record()
class Answered:
    """An answer of a run, as labels are bound to it.

    Attributes:
        dataset, case_id, target, target_repeat: Which answer.
        digest: Its `answer_hash`.
        recorded: Whether it stands in the data, so that a label without a hash can mean it.
    """

    dataset: str
    case_id: str
    target: str
    target_repeat: int
    digest: str
    recorded: bool


@record(kw_only=True)
class Bound:
    """One person's label of one answer of the run.

    Attributes:
        score: On the scale of the metric's scores: 0..1 unless the scale has no bounds.
        value: On the metric's own scale.
        given: The label as it stands.
        answer: What it is bound to.
    """

    score: float
    value: Any
    given: Given
    answer: Answered


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What labels may name though this run does not have it.

    Attributes:
        metrics: Metrics that exist, or that other runs of the sweep scored.
        cases: The cases of other runs of the sweep: their datasets by id.
        partial: Whether the run left cases of its data out, so that any case may well exist.
    """

    metrics: Collection[str] = ()
    cases: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    partial: bool = False

    def has(self, dataset: str | None, case_id: str) -> bool:
        """Whether there may be such a case; without a dataset, in any."""
        found = self.cases.get(case_id, ())
        return self.partial or (bool(found) if dataset is None else dataset in found)


HERE = Elsewhere()
"""Nothing but the run itself."""


@dataclass(slots=True)
class LeftOut:
    """Labels that are right in themselves and still do not count here.

    Attributes:
        stale: Of another answer than the one that was scored.
        unbound: Without a hash, for an answer that is not the recorded one.
        absent: For cases that are not in this run, though they exist: a limit or a sample left them out, or another run
            of the sweep has them.
        other_metrics: By metric, those of metrics that this run did not score.
        first_stale: Where the first of the stale ones stands.
    """

    stale: int = 0
    unbound: int = 0
    absent: int = 0
    other_metrics: dict[str, int] = field(default_factory=dict[str, int])
    first_stale: str | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return self.stale + self.unbound + self.absent + sum(self.other_metrics.values())


def bind(
    given: Sequence[Given],
    answers: Iterable[Answered],
    scales: Mapping[str, Read],
    elsewhere: Elsewhere = HERE,
) -> tuple[list[Bound], LeftOut, list[Problem]]:
    """Bind labels to answers.

    Args:
        given: The labels.
        answers: Those of the run; of other cases than the labels name they are passed over.
        scales: How a value is read, by the names of the metrics that the run scored.
        elsewhere: Metrics and cases that exist, though this run does not have them.

    Returns:
        The labels that count, the others counted, and what is wrong: unknown cases and metrics, values off the scale,
        two labels by one person for one answer.
    """
    wanted = {one.label.case_id for one in given}
    by_case: dict[str, list[Answered]] = {}
    for answer in answers:
        if answer.case_id in wanted:
            by_case.setdefault(answer.case_id, []).append(answer)
    left, problems, bound = LeftOut(), list[Problem](), list[Bound]()
    for one in given:
        found = _bound(one, by_case, scales, elsewhere, left)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            bound += found
    return bound, left, problems + list(_twice(bound))


def _bound(
    one: Given,
    by_case: Mapping[str, Sequence[Answered]],
    scales: Mapping[str, Read],
    elsewhere: Elsewhere,
    left: LeftOut,
) -> list[Bound] | Problem:
    label = one.label
    if label.metric not in scales:
        if label.metric not in elsewhere.metrics:
            hint = did_you_mean(label.metric, scales)
            return Problem(f"the run has no metric {label.metric!r}", one.where, hint)
        left.other_metrics[label.metric] = left.other_metrics.get(label.metric, 0) + 1
        return []
    answers = [a for a in by_case.get(label.case_id, ()) if label.dataset in (None, a.dataset)]
    if not answers:
        if elsewhere.has(label.dataset, label.case_id):
            left.absent += 1
            return []
        return _unknown(one, by_case)
    several = {answer.dataset for answer in answers}
    if len(several) > 1:
        what = f"case {label.case_id!r} is in {' and in '.join(sorted(several))}"
        return Problem(what, one.where, "name one of them in the column `dataset`")
    try:
        score, value = scales[label.metric](label.value)
    except ValueError as error:
        return Problem(f"the value of {label.metric}: {error}", one.where, "grade on the metric's own scale")
    matching = list(_matching(one, answers, left))
    return [Bound(score=score, value=value, given=one, answer=answer) for answer in matching]


def _matching(one: Given, answers: Sequence[Answered], left: LeftOut) -> Iterator[Answered]:
    """The answers that the label is about; where there is none, it is counted as left out."""
    label = one.label
    own = [a for a in answers if label.target in (None, a.target) and label.target_repeat in (None, a.target_repeat)]
    if label.answer_hash is None:
        found = [answer for answer in own if answer.recorded]
        left.unbound += bool(own) and not found
    else:
        found = [answer for answer in own if answer.digest == label.answer_hash]
    if not found and (label.answer_hash is not None or not own):
        left.stale += 1
        left.first_stale = left.first_stale or one.where
    yield from found


def _unknown(one: Given, by_case: Mapping[str, Sequence[Answered]]) -> Problem:
    elsewhere = {answer.dataset for answer in by_case.get(one.label.case_id, ())}
    if elsewhere:
        hint = f"it is in {' and in '.join(sorted(elsewhere))}"
        return Problem(f"dataset {one.label.dataset!r} has no case {one.label.case_id!r}", one.where, hint)
    hint = "a label names the case by the id that `cases` shows"
    return Problem(f"the run has no case {one.label.case_id!r}", one.where, hint)


def _twice(bound: Iterable[Bound]) -> Iterator[Problem]:
    seen: dict[tuple[Cell, str], str] = {}
    for one in bound:
        answer, label = one.answer, one.given.label
        cell = (answer.dataset, answer.case_id, answer.target, answer.target_repeat, label.metric)
        if (cell, label.by) in seen:
            what = f"two labels by {label.by} for one answer to case {label.case_id!r} on {label.metric}"
            hint = f"the other is at {seen[cell, label.by]}; keep one, or say in `by` who else it is of"
            yield Problem(what, one.given.where, hint)
        else:
            seen[cell, label.by] = one.given.where

"""Which scores of a run are wanted, and what that says of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select

from evalflow.records import passes
from evalflow.store.rows import Query
from evalflow.store.tables import answer_tags, answers, scores

Place = tuple[int, int]
"""Where a score stands in its run: the answer's position, and the score's number among those of the answer."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold: where `passed` begins, inclusive, for a metric and judge."""

    metric: str
    judge: str | None
    value: float
    higher: bool = True


@dataclass(frozen=True, slots=True)
class Filter:
    """Which scores.

    Attributes:
        metric, status: Those with exactly this.
        tag: Those of cases with this tag, or one below it.
        text: Those whose question, answer or case id has this in it; capitals of ASCII do not matter.
        low, high: Those that scored within these, bounds included.
        passed: Those that passed, or that did not; None: both, and those without a threshold.
        limits: The thresholds that this is told by.
        positions: Those of these answers.
    """

    metric: str | None = None
    status: str | None = None
    tag: str | None = None
    text: str | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    limits: Sequence[Limit] = ()
    positions: Sequence[int] | None = None


def conditions(run: int, wanted: Filter) -> list[ColumnElement[bool]]:
    """What a score of a run must fulfil to be among the wanted."""
    found: list[ColumnElement[bool]] = [scores.c.run == run]
    equals: Mapping[Any, Any] = {
        scores.c.metric: wanted.metric,
        scores.c.status: wanted.status,
    }
    found += [column == value for column, value in equals.items() if value is not None]
    if wanted.positions is not None:
        found.append(scores.c.position.in_(wanted.positions))
    found += within(wanted)
    if wanted.status is None and wanted.metric is None and (wanted.low, wanted.high, wanted.passed) != (None,) * 3:
        found.append(scores.c.status == "scored")  # as every score is; so the index that begins with it serves
    if wanted.passed is not None:
        found.append(or_(False, *(meets(limit, wanted.passed) for limit in wanted.limits)))
    if wanted.tag is not None:
        tagged = select(answer_tags.c.position).where(answer_tags.c.run == run, answer_tags.c.tag == wanted.tag)
        found.append(scores.c.position.in_(tagged))
    if wanted.text:
        found.append(scores.c.position.in_(_about(run, wanted.text)))
    return found


def _about(run: int, text: str) -> Query:
    columns = (answers.c.question, answers.c.answer, answers.c.case_id)
    has = (func.lower(column).contains(text.lower(), autoescape=True) for column in columns)
    return select(answers.c.position).where(answers.c.run == run, or_(*has))


def within(wanted: Filter) -> list[ColumnElement[bool]]:
    """The bounds of the score alone."""
    found: list[ColumnElement[bool]] = []
    if wanted.low is not None:
        found.append(scores.c.score >= wanted.low)
    if wanted.high is not None:
        found.append(scores.c.score <= wanted.high)
    return found


def meets(limit: Limit, passed: bool) -> ColumnElement[bool]:
    """Of the metric and judge of a threshold, and reaching it, or else missing it."""
    reaches = passes(scores.c.score, limit.value, higher_is_better=limit.higher)
    judged = scores.c.judge.is_(None) if limit.judge is None else scores.c.judge == limit.judge
    return and_(scores.c.metric == limit.metric, judged, reaches if passed else not_(reaches))

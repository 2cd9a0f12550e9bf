"""The scores of runs: put in by the ten thousand, found again by the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, or_, select, tuple_

from evalflow.store.rows import Query, Row, every, one
from evalflow.store.tables import answer_tags, answers, score_steps, scores

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
        position: Those of one answer.
    """

    metric: str | None = None
    status: str | None = None
    tag: str | None = None
    text: str | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    limits: Sequence[Limit] = ()
    position: int | None = None


def clear(connection: Connection, run: int) -> None:
    """Delete all scores and answers of a run."""
    for table in (score_steps, scores, answer_tags, answers):
        connection.execute(delete(table).where(table.c.run == run))


def put(
    connection: Connection,
    answered: Sequence[Row],
    tagged: Sequence[Row],
    scored: Sequence[Row],
    steps: Sequence[Row],
) -> None:
    """Insert what belongs together: rows of answers, answer_tags, scores and score_steps."""
    for table, rows in ((answers, answered), (answer_tags, tagged), (scores, scored), (score_steps, steps)):
        if rows:
            connection.execute(insert(table), rows)


def page(
    connection: Connection,
    run: int,
    wanted: Filter,
    after: Place | None,
    limit: int,
) -> list[Row]:
    """Scores in input order, each with its question and answer."""
    keys = select(scores.c.position, scores.c.n).where(*_conditions(run, wanted))
    if after is not None:
        keys = keys.where(_behind(after))
    keys = keys.order_by(scores.c.position, scores.c.n).limit(limit)
    return every(connection, _shown(run, keys).order_by(scores.c.position, scores.c.n))


def page_by_score(
    connection: Connection,
    run: int,
    wanted: Filter,
    after: tuple[float, int, int] | None,
    limit: int,
    *,
    descending: bool = False,
) -> list[Row]:
    """Scores of one metric by their number, the lowest first unless `descending`; what has none is left out."""
    keys = select(scores.c.position, scores.c.n).where(scores.c.score.is_not(None), *_conditions(run, wanted))
    if after is not None:
        beyond, rest = after[0], (after[1], after[2])
        further = scores.c.score < beyond if descending else scores.c.score > beyond
        keys = keys.where(or_(further, and_(scores.c.score == beyond, _behind(rest, descending=descending))))
    order = [scores.c.score, scores.c.position, scores.c.n]
    order_by = [column.desc() for column in order] if descending else order
    return every(connection, _shown(run, keys.order_by(*order_by).limit(limit)).order_by(*order_by))


def count(connection: Connection, run: int, wanted: Filter) -> int:
    """How many scores there are; looks at every one of them."""
    return connection.scalar(select(func.count()).select_from(scores).where(*_conditions(run, wanted))) or 0


def states(connection: Connection, run: int) -> list[Row]:
    """Counts by metric, judge and status; looks at every score of the run."""
    columns = (scores.c.metric, scores.c.judge, scores.c.status)
    query = select(*columns, func.count().label("n")).where(scores.c.run == run).group_by(*columns)
    return every(connection, query)


def passing(connection: Connection, run: int, limit: Limit) -> tuple[int, int]:
    """How many scores of a metric and judge pass a threshold, and how many there are."""
    met = scores.c.score >= limit.value if limit.higher else scores.c.score <= limit.value
    judged = scores.c.judge.is_(None) if limit.judge is None else scores.c.judge == limit.judge
    query = select(func.coalesce(func.sum(case((met, 1), else_=0)), 0), func.count()).where(
        scores.c.run == run, scores.c.metric == limit.metric, scores.c.score.is_not(None), judged
    )
    passed, total = connection.execute(query).one()
    return int(passed), int(total)


def span(connection: Connection, run: int, metric: str) -> tuple[float, float] | None:
    """The lowest and the highest score of a metric."""
    query = select(func.min(scores.c.score), func.max(scores.c.score))
    low, high = connection.execute(query.where(scores.c.run == run, scores.c.metric == metric)).one()
    return None if low is None else (low, high)


def histogram(connection: Connection, run: int, metric: str, edges: Sequence[float]) -> list[int]:
    """How many scores of a metric lie in each of the bins between edges; the last includes its upper edge."""
    last = len(edges) - 2
    inner = edges[1:-1]
    number = case(*((scores.c.score < edge, i) for i, edge in enumerate(inner)), else_=last) if inner else func.abs(0)
    within = and_(scores.c.score >= edges[0], scores.c.score <= edges[-1])
    query = select(number.label("bin"), func.count()).where(scores.c.run == run, scores.c.metric == metric, within)
    found = {int(place): n for place, n in connection.execute(query.group_by("bin"))}
    return [found.get(i, 0) for i in range(last + 1)]


def tags(connection: Connection, run: int) -> list[tuple[str, int]]:
    """Every tag with how many answers have it, or one below it."""
    query = select(answer_tags.c.tag, func.count()).where(answer_tags.c.run == run).group_by(answer_tags.c.tag)
    return [(tag, number) for tag, number in connection.execute(query.order_by(answer_tags.c.tag))]


def positions(connection: Connection, run: int, dataset: str, case_id: str) -> list[int]:
    """Where the answers to a case stand in their run; looks at every answer of the run."""
    same = (answers.c.run == run, answers.c.dataset == dataset, answers.c.case_id == case_id)
    return list(connection.scalars(select(answers.c.position).where(*same).order_by(answers.c.position)))


def answer(connection: Connection, run: int, position: int) -> Row | None:
    """One answer with its question."""
    return one(connection, select(answers).where(answers.c.run == run, answers.c.position == position))


def score(connection: Connection, run: int, place: Place) -> Row | None:
    """One score with its question and answer, and the judge's steps as JSON text."""
    position, n = place
    keys = select(scores.c.position, scores.c.n).where(
        scores.c.run == run, scores.c.position == position, scores.c.n == n
    )
    found = one(connection, _shown(run, keys))
    if found is None:
        return None
    steps = select(score_steps.c.steps).where(
        score_steps.c.run == run, score_steps.c.position == position, score_steps.c.n == n
    )
    return {**found, "steps": connection.scalar(steps)}


def _conditions(run: int, wanted: Filter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [scores.c.run == run]
    equals: Mapping[Any, Any] = {
        scores.c.metric: wanted.metric,
        scores.c.status: wanted.status,
        scores.c.position: wanted.position,
    }
    found += [column == value for column, value in equals.items() if value is not None]
    if wanted.low is not None:
        found.append(scores.c.score >= wanted.low)
    if wanted.high is not None:
        found.append(scores.c.score <= wanted.high)
    if wanted.status is None and wanted.metric is None and (wanted.low, wanted.high, wanted.passed) != (None,) * 3:
        found.append(scores.c.status == "scored")  # as every score is; so the index that begins with it serves
    if wanted.passed is not None:
        found.append(or_(False, *(_meets(limit, wanted.passed) for limit in wanted.limits)))
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


def _meets(limit: Limit, passed: bool) -> ColumnElement[bool]:
    reaches = scores.c.score >= limit.value if limit.higher else scores.c.score <= limit.value
    misses = scores.c.score < limit.value if limit.higher else scores.c.score > limit.value
    judged = scores.c.judge.is_(None) if limit.judge is None else scores.c.judge == limit.judge
    return and_(scores.c.metric == limit.metric, judged, reaches if passed else misses)


def _behind(place: Place, *, descending: bool = False) -> ColumnElement[bool]:
    here, there = tuple_(scores.c.position, scores.c.n), tuple_(*place)
    return here < there if descending else here > there


def _shown(run: int, keys: Query) -> Query:
    """The scores at these places, each with its question and answer."""
    found = keys.subquery()
    at = and_(scores.c.run == run, scores.c.position == found.c.position, scores.c.n == found.c.n)
    said = and_(answers.c.run == run, answers.c.position == found.c.position)
    shown = [column for column in answers.c if column.name not in ("run", "position", "error")]
    columns = (*scores.c, *shown, answers.c.error.label("answer_error"))
    return select(*columns).join(found, at).join(answers, said)

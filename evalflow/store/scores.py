"""The scores of runs in the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, false, func, not_, or_, select, tuple_

from evalflow.records import passes
from evalflow.store.tables import (
    Query,
    Row,
    add_many,
    answer_tags,
    answers,
    chunks,
    every,
    one,
    score_steps,
    scores,
    upsert,
)

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
    """Which scores to read.

    Attributes:
        metric, status: Those with exactly this.
        tag: Those of cases with this tag, or one below it.
        text: Those whose question, answer or case id has this in it; capitals of ASCII do not matter.
        low, high: Those that scored within these, bounds included.
        passed: Those that passed, or that did not; None: both, and those without a threshold.
        limits: The thresholds that decide it.
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
    """The SQL conditions of a filter."""
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
        found.append(scores.c.position.in_(_with_text(run, wanted.text)))
    return found


def _with_text(run: int, text: str) -> Query:
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
    """Scores of the threshold's metric and judge that pass it; with `passed` False, those that do not."""
    reaches = passes(scores.c.score, limit.value, higher_is_better=limit.higher)
    judged = scores.c.judge.is_(None) if limit.judge is None else scores.c.judge == limit.judge
    return and_(scores.c.metric == limit.metric, judged, reaches if passed else not_(reaches))


MAX_RARE = 5000
"""Above this, scanning in input order is quick: of a million scores, 50 are found in the first 10,000 on average."""


def rare_places(connection: Connection, run: int, wanted: Filter) -> list[Place] | None:
    """Find rare scores (by threshold or bounds) through an index, without scanning the whole run.

    Args:
        connection: Where.
        run: The run's row.
        wanted: Of it only `low`, `high` and `passed`.

    Returns:
        Their places in input order. None where an ordinary query is as quick: nothing is filtered by score, one metric
        or a few answers are asked for, or the scores are not rare.
    """
    bounds = (wanted.low, wanted.high, wanted.passed)
    if bounds == (None, None, None) or wanted.metric is not None or wanted.positions is not None:
        return None
    found: list[Place] = []
    for of_one in _by_metric(connection, run, wanted):
        query = select(scores.c.position, scores.c.n).where(scores.c.run == run, of_one, *within(wanted))
        found += [(position, n) for position, n in connection.execute(query.limit(MAX_RARE + 1 - len(found)))]
        if len(found) > MAX_RARE:
            return None
    return sorted(found)


def _by_metric(connection: Connection, run: int, wanted: Filter) -> Iterator[ColumnElement[bool]]:
    """One condition for each metric, so that an index on the metric and score can be used."""
    if wanted.passed is not None:
        yield from (meets(limit, wanted.passed) for limit in wanted.limits)
        return
    metric: str | None = ""
    while metric is not None:  # jump from name to name in the index; DISTINCT would read every row
        metric = connection.scalar(
            select(func.min(scores.c.metric)).where(scores.c.run == run, scores.c.metric > metric)
        )
        if metric is not None:
            yield scores.c.metric == metric


_ORDER = (scores.c.position, scores.c.n)
_AT_ONCE = 500


def clear(connection: Connection, run: int) -> None:
    """Delete the scores and answers of a run."""
    for table in (score_steps, scores, answer_tags, answers):
        connection.execute(delete(table).where(table.c.run == run))


def put(
    connection: Connection,
    answered: Sequence[Row],
    tagged: Sequence[Row],
    scored: Sequence[Row],
    steps: Sequence[Row],
    *,
    is_replaced: bool = True,
) -> None:
    """Write rows of answers, answer_tags, scores and score_steps.

    Args:
        connection: In a transaction that writes.
        answered: Rows of answers.
        tagged: Rows of answer_tags.
        scored: Rows of scores.
        steps: Rows of score_steps.
        is_replaced: Whether a row that is there already is replaced; else it stays.
    """
    if answered:
        connection.execute(upsert(connection, answers, is_replaced=is_replaced), answered)
    for table, rows in ((answer_tags, tagged), (scores, scored), (score_steps, steps)):
        if rows:
            add_many(connection, upsert(connection, table, is_replaced=is_replaced), rows)


def statuses(connection: Connection, run: int, places: Sequence[Place]) -> dict[Place, str]:
    """The status of each score that is at one of these places."""
    found: dict[Place, str] = {}
    wanted = set(places)
    for some in chunks(dict.fromkeys(position for position, _ in places), _AT_ONCE):
        query = select(scores.c.position, scores.c.n, scores.c.status)
        rows = connection.execute(query.where(scores.c.run == run, scores.c.position.in_(some)))
        found |= {(position, n): status for position, n, status in rows if (position, n) in wanted}
    return found


def failed_answers(connection: Connection, run: int, positions: Sequence[int]) -> int:
    """How many of the answers at these positions have failed."""
    query = select(func.count()).where(answers.c.run == run, answers.c.error.is_not(None))
    parts = (query.where(answers.c.position.in_(some)) for some in chunks(positions, _AT_ONCE))
    return sum(connection.scalar(part) or 0 for part in parts)


def page(
    connection: Connection,
    run: int,
    wanted: Filter,
    after: Place | None,
    limit: int,
    *,
    descending: bool = False,
) -> list[Row]:
    """Scores in input order, or from the last to the first, each with its question and answer."""
    order = [column.desc() for column in _ORDER] if descending else _ORDER
    places = rare_places(connection, run, wanted)
    if places is not None:
        behind = [one for one in places if after is None or (one < after if descending else one > after)]
        return _page_of_rare(connection, run, wanted, behind[::-1] if descending else behind, limit, order)
    keys = select(scores.c.position, scores.c.n).where(*conditions(run, wanted))
    if after is not None:
        keys = keys.where(_behind(after, descending=descending))
    keys = keys.order_by(*order).limit(limit)
    return every(connection, _shown(run, keys).order_by(*order))


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
    keys = select(scores.c.position, scores.c.n).where(scores.c.score.is_not(None), *conditions(run, wanted))
    if after is not None:
        beyond, rest = after[0], (after[1], after[2])
        further = scores.c.score < beyond if descending else scores.c.score > beyond
        keys = keys.where(or_(further, and_(scores.c.score == beyond, _behind(rest, descending=descending))))
    order = [scores.c.score, scores.c.position, scores.c.n]
    order_by = [column.desc() for column in order] if descending else order
    return every(connection, _shown(run, keys.order_by(*order_by).limit(limit)).order_by(*order_by))


def count(connection: Connection, run: int, wanted: Filter) -> int:
    """How many scores there are; looks at every one of them."""
    return connection.scalar(select(func.count()).select_from(scores).where(*conditions(run, wanted))) or 0


def passing(connection: Connection, run: int, limit: Limit) -> tuple[int, int]:
    """How many scores of a metric and judge pass a threshold, and how many there are."""
    met = passes(scores.c.score, limit.value, higher_is_better=limit.higher)
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


def histogram(
    connection: Connection, run: int, metric: str, edges: Sequence[float], threshold: float | None, *, higher: bool
) -> list[tuple[int, int]]:
    """How many scores of a metric lie in each of the bins between edges, and how many of these pass the threshold.

    The last bin includes its upper edge.
    """
    last = len(edges) - 2
    inner = edges[1:-1]
    number = case(*((scores.c.score < edge, i) for i, edge in enumerate(inner)), else_=last) if inner else func.abs(0)
    within = and_(scores.c.score >= edges[0], scores.c.score <= edges[-1])
    met = false() if threshold is None else passes(scores.c.score, threshold, higher_is_better=higher)
    query = select(number.label("bin"), func.count(), func.sum(case((met, 1), else_=0))).where(
        scores.c.run == run, scores.c.metric == metric, within
    )
    found = {int(place): (n, int(passed)) for place, n, passed in connection.execute(query.group_by("bin"))}
    return [found.get(i, (0, 0)) for i in range(last + 1)]


def tags(connection: Connection, run: int) -> list[tuple[str, int]]:
    """Every tag with how many answers have it, or one below it."""
    query = select(answer_tags.c.tag, func.count()).where(answer_tags.c.run == run).group_by(answer_tags.c.tag)
    return [(tag, number) for tag, number in connection.execute(query.order_by(answer_tags.c.tag))]


def positions(connection: Connection, run: int, dataset: str, case_id: str) -> list[int]:
    """Where the answers to a case stand in their run; looks at every answer of the run."""
    same = (answers.c.run == run, answers.c.dataset == dataset, answers.c.case_id == case_id)
    return list(connection.scalars(select(answers.c.position).where(*same).order_by(answers.c.position)))


def common_cases(connection: Connection, one: int, other: int) -> list[tuple[str, str, str, bool]]:
    """Dataset, id and question of the cases that two runs have, and whether answers differ; looks at all of both."""
    a, b = answers.alias("a"), answers.alias("b")
    same = (a.c[key] == b.c[key] for key in ("dataset", "case_id", "target_repeat"))
    apart = or_(a.c.answer.is_distinct_from(b.c.answer), a.c.error.is_(None) != b.c.error.is_(None))
    shown = (a.c.dataset, a.c.case_id, func.min(a.c.question), func.max(case((apart, 1), else_=0)))
    query = select(*shown).join_from(a, b, and_(*same)).where(a.c.run == one, b.c.run == other)
    found = connection.execute(query.group_by(a.c.dataset, a.c.case_id))
    return [(dataset, case_id, question, bool(differs)) for dataset, case_id, question, differs in found]


def answer(connection: Connection, run: int, position: int) -> Row | None:
    """One answer with its question."""
    return one(connection, select(answers).where(answers.c.run == run, answers.c.position == position))


def last_position(connection: Connection, run: int) -> int | None:
    """Where the last answer of a run stands."""
    return connection.scalar(select(func.max(answers.c.position)).where(answers.c.run == run))


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


def steps(connection: Connection, run: int, position: int) -> dict[int, str]:
    """The judge's steps of every score of an answer, as JSON text, by the score's number."""
    same = (score_steps.c.run == run, score_steps.c.position == position)
    found = connection.execute(select(score_steps.c.n, score_steps.c.steps).where(*same))
    return {row[0]: row[1] for row in found}


def _page_of_rare(
    connection: Connection, run: int, wanted: Filter, places: Sequence[Place], limit: int, order: Sequence[Any]
) -> list[Row]:
    """The first of these scores that meet the rest of the filter."""
    found: list[Row] = []
    for some in chunks(places, _AT_ONCE):
        at = tuple_(scores.c.position, scores.c.n).in_(some)
        keys = select(scores.c.position, scores.c.n).where(at, *conditions(run, wanted)).order_by(*order)
        found += every(connection, _shown(run, keys.limit(limit - len(found))).order_by(*order))
        if len(found) == limit:
            break
    return found


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

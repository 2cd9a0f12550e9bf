"""The scores of runs in the database: written as they arrive, and read in pages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, false, func, not_, or_, select, tuple_

from evalflow.addons.studio.store.rows import Row, add_many, chunks, every, every_as, from_row, upsert
from evalflow.addons.studio.store.tables import answer_tags, answers, score_steps, scores
from evalflow.datasets import tag_name
from evalflow.records import passes

Place = tuple[int, int]
"""The key of a score in its run: the position of the answer, and the score's number within the answer."""
CELL = ("dataset", "case_id", "target", "target_repeat")
"""The columns that identify an answer of a run."""
Query = Select[*tuple[Any, ...]]
_AT_ONCE = 500
_ORDER = (scores.c.position, scores.c.n)


@dataclass(frozen=True, slots=True)
class Limit:
    """The lowest passing score (or highest, if lower is better) of a metric and judge."""

    metric: str
    judge: str | None
    value: float
    higher: bool = True

    def is_met(self) -> ColumnElement[bool]:
        """The score passes; metric and judge are not checked."""
        return passes(scores.c.score, self.value, higher_is_better=self.higher)

    def is_for(self) -> ColumnElement[bool]:
        """The score has this metric and judge."""
        judged = scores.c.judge.is_(None) if self.judge is None else scores.c.judge == self.judge
        return and_(scores.c.metric == self.metric, judged)

    def holds(self, *, passed: bool) -> ColumnElement[bool]:
        """The score has this metric and judge, and passes (or fails)."""
        return and_(self.is_for(), self.is_met() if passed else not_(self.is_met()))


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """A filter of scores; None matches all.

    Attributes:
        metric, status: Exact matches; status is scored, undefined, error or skipped.
        tag: Scores of cases with this tag or a sub-tag.
        text: Scores whose question, answer or case id contains this, ignoring the case of ASCII letters.
        low, high: Bounds of the score, inclusive.
        passed: Scores that pass (or fail) their thresholds.
        positions: Scores of the answers at these positions.
    """

    metric: str | None = None
    status: str | None = None
    tag: str | None = None
    text: str | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    positions: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """A case of a run with one answer of the target.

    Attributes:
        position: The answer's position in its run, in input order, from 0.
        answer_error: Why there is no answer.
    """

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


@dataclass(frozen=True, slots=True)
class Score(CaseAnswer):
    """One score with its question and answer.

    Attributes:
        id: The score's id in its run.
        value: On the metric's own scale.
        threshold, passed: None if no threshold applies; `passed` also if there is no score.
        error, error_type: Why there is no score.
        steps: The judge's steps; None if not requested (see `RunScores.get`).
    """

    id: str
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

    @property
    def place(self) -> Place:
        """The score's key in its run."""
        return self.position, int(self.id.partition("-")[2])


@dataclass(frozen=True, slots=True)
class PeopleScore:
    """The result of people's labels of an answer on a metric. It replaces the answer's scores on that metric.

    Attributes:
        score: The mean of the labels; None if people found nothing to score.
        passed: Whether at least half of the labels reach the threshold; None without one.
    """

    score: float | None
    passed: bool | None


People = Mapping[tuple[int, str], PeopleScore]
"""People's scores, by the position of the answer and the metric."""
MAX_RARE = 5000
"""More matches than this are found quickly in input order: of a million scores, 50 within the first 10,000 on
average."""


@dataclass(frozen=True, slots=True)
class RunScores:
    """The scores of one run. `people` are counted by the table of results only; see `results`."""

    connection: Connection
    run: int
    limits: Sequence[Limit] = ()
    people: People = field(default_factory=dict[tuple[int, str], PeopleScore])

    def page(self, wanted: ScoreFilter, after: Place | None, limit: int) -> list[Score]:
        """Scores after a place, in input order."""
        beyond_place = () if after is None else (_after(after, is_descending=False),)
        rare = self._rare_positions(wanted)
        if rare is None:
            return self._load(self._keys(wanted).where(*beyond_place), _ORDER, limit)
        if after is not None:
            rare = [one for one in rare if one >= after[0]]
        loaded: list[Score] = []
        for some in chunks(rare, _AT_ONCE):
            keys = self._keys(replace(wanted, positions=some)).where(*beyond_place)
            loaded += self._load(keys, _ORDER, limit - len(loaded))
            if len(loaded) == limit:
                break
        return loaded

    def page_by_score(
        self, wanted: ScoreFilter, after: tuple[float, int, int] | None, limit: int, *, is_descending: bool = False
    ) -> list[Score]:
        """Scores of one metric, lowest first unless `is_descending`. Cells without a score are omitted."""
        keys = self._keys(wanted).where(scores.c.score.is_not(None))
        if after is not None:
            beyond, *place = after
            further = scores.c.score < beyond if is_descending else scores.c.score > beyond
            same = and_(scores.c.score == beyond, _after((place[0], place[1]), is_descending=is_descending))
            keys = keys.where(or_(further, same))
        order = (scores.c.score, *_ORDER)
        return self._load(keys, [column.desc() for column in order] if is_descending else order, limit)

    def get(self, place: Place) -> Score | None:
        """One score with the judge's steps."""
        page = self.page(ScoreFilter(positions=[place[0]]), (place[0], place[1] - 1), 1)
        if not page or page[0].place != place:
            return None
        return replace(page[0], steps=self.steps([place[0]]).get(place))

    def steps(self, positions: Sequence[int]) -> dict[Place, Sequence[Mapping[str, Any]]]:
        """The judge's steps of every score of these answers, at most 500."""
        same = (score_steps.c.run == self.run, score_steps.c.position.in_(positions))
        rows = self.connection.execute(
            select(score_steps.c.position, score_steps.c.n, score_steps.c.steps).where(*same)
        )
        return {(position, n): json.loads(text) for position, n, text in rows}

    def passing(self, limit: Limit) -> tuple[int, int]:
        """The number of scores of a metric and judge that pass a threshold, and the total."""
        count = select(func.count()).where(scores.c.run == self.run)
        sides = (count.where(limit.holds(passed=side)) for side in (True, False))  # each reads its range of the index
        passed, failed = (self.connection.scalar(query) or 0 for query in sides)
        return passed, passed + failed

    def span(self, metric: str) -> tuple[float, float] | None:
        """The lowest and the highest score of a metric."""
        query = select(func.min(scores.c.score), func.max(scores.c.score))
        low, high = self.connection.execute(query.where(scores.c.run == self.run, scores.c.metric == metric)).one()
        return None if low is None else (low, high)

    def histogram(
        self, metric: str, edges: Sequence[float], threshold: float | None, *, higher: bool
    ) -> list[tuple[int, int]]:
        """Count the scores of a metric between edges, and those that pass. The last bin includes its upper edge."""
        last = len(edges) - 2
        inner = edges[1:-1]
        bins = case(*((scores.c.score < edge, i) for i, edge in enumerate(inner)), else_=last) if inner else func.abs(0)
        met = false() if threshold is None else passes(scores.c.score, threshold, higher_is_better=higher)
        query = select(bins.label("bin"), func.count(), func.sum(case((met, 1), else_=0))).where(
            scores.c.run == self.run, scores.c.metric == metric, scores.c.score.between(edges[0], edges[-1])
        )
        counts = {int(place): (n, int(passed)) for place, n, passed in self.connection.execute(query.group_by("bin"))}
        return [counts.get(i, (0, 0)) for i in range(last + 1)]

    def tags(self) -> list[tuple[str, int]]:
        """Every tag with the number of answers that have it or a sub-tag."""
        query = select(answer_tags.c.tag, func.count()).where(answer_tags.c.run == self.run)
        counts = self.connection.execute(query.group_by(answer_tags.c.tag).order_by(answer_tags.c.tag))
        return [(tag, number) for tag, number in counts]

    def places(self, cases: Collection[str]) -> dict[tuple[str, str, str, int], int]:
        """The positions of the answers to the cases with these ids, by CELL."""
        by_cell: dict[tuple[str, str, str, int], int] = {}
        query = select(*(answers.c[name] for name in CELL), answers.c.position).where(answers.c.run == self.run)
        for some in chunks(cases, _AT_ONCE):
            for *cell, position in self.connection.execute(query.where(answers.c.case_id.in_(some))):
                by_cell[cell[0], cell[1], cell[2], cell[3]] = position
        return by_cell

    def positions(self, dataset: str, case_id: str) -> list[int]:
        """The positions of the answers to a case. Slow: it scans every answer of the run."""
        same = (answers.c.run == self.run, answers.c.dataset == dataset, answers.c.case_id == case_id)
        return list(self.connection.scalars(select(answers.c.position).where(*same).order_by(answers.c.position)))

    def answer(self, position: int) -> CaseAnswer | None:
        """One answer with its question."""
        return next(iter(self.answers([position])), None)

    def answers(self, positions: Sequence[int]) -> list[CaseAnswer]:
        """These answers with their questions, at most 500, in input order."""
        same = (answers.c.run == self.run, answers.c.position.in_(positions))
        query = select(answers, answers.c.error.label("answer_error")).where(*same)
        return every_as(CaseAnswer, self.connection, query.order_by(answers.c.position))

    def _keys(self, wanted: ScoreFilter) -> Query:
        return select(*_ORDER).where(*self.conditions(wanted))

    def conditions(self, wanted: ScoreFilter) -> list[ColumnElement[bool]]:
        """The conditions of a filter on the table of scores."""
        clauses: list[ColumnElement[bool]] = [scores.c.run == self.run, *_within(wanted)]
        if wanted.metric is not None:
            clauses.append(scores.c.metric == wanted.metric)
        if wanted.status is not None:
            # For one metric, its own index is faster than the index by status; `concat` keeps the planner from that
            # one.
            status = scores.c.status if wanted.metric is None else scores.c.status.concat("")
            clauses.append(status == wanted.status)
        elif wanted.metric is None and wanted.positions is None and _is_by_score(wanted):
            clauses.append(
                scores.c.status == "scored"
            )  # always true here; it lets the query use the index that begins with status
        if wanted.positions is not None:
            clauses.append(scores.c.position.in_(wanted.positions))
        if wanted.passed is not None:
            limits = [limit for limit in self.limits if wanted.metric in (None, limit.metric)]
            clauses.append(or_(*(limit.holds(passed=wanted.passed) for limit in limits)) if limits else false())
        if wanted.tag:
            clauses.append(scores.c.position.in_(self.tagged(wanted.tag)))
        if wanted.text:
            matching = select(answers.c.position).where(answers.c.run == self.run, self.contains(wanted.text))
            clauses.append(scores.c.position.in_(matching))
        return clauses

    def tagged(self, tag: str) -> Query:
        """The positions of the answers with a tag or a sub-tag."""
        return select(answer_tags.c.position).where(answer_tags.c.run == self.run, answer_tags.c.tag == tag_name(tag))

    def contains(self, wanted: str) -> ColumnElement[bool]:
        """The question, answer or case id contains a text."""
        columns = (answers.c.question, answers.c.answer, answers.c.case_id)
        return or_(*(func.lower(column).contains(wanted.lower(), autoescape=True) for column in columns))

    def _rare_positions(self, wanted: ScoreFilter) -> list[int] | None:
        """Find answers with rare scores (by threshold or bounds) through an index instead of scanning the whole run.

        Returns their positions in input order; None if an ordinary query is as fast: without a filter by score, with a
        filter for one metric or a few answers, or if the scores are not rare.
        """
        if not _is_by_score(wanted) or wanted.metric is not None or wanted.positions is not None:
            return None
        positions: list[int] = []
        for of_one in self._by_metric(wanted):
            query = select(scores.c.position).where(scores.c.run == self.run, of_one, *_within(wanted))
            positions += self.connection.scalars(query.limit(MAX_RARE + 1 - len(positions)))
            if len(positions) > MAX_RARE:
                return None
        return sorted(set(positions))

    def _by_metric(self, wanted: ScoreFilter) -> Iterator[ColumnElement[bool]]:
        """One condition per metric, so that an index on metric and score can be used."""
        if wanted.passed is not None:
            yield from (limit.holds(passed=wanted.passed) for limit in self.limits)
            return
        metric: str | None = ""
        while metric is not None:  # skip scan: jump from name to name in the index; DISTINCT would read every row
            query = select(func.min(scores.c.metric)).where(scores.c.run == self.run, scores.c.metric > metric)
            metric = self.connection.scalar(query)
            if metric is not None:
                yield scores.c.metric == metric

    def _load(self, keys: Query, order: Sequence[ColumnElement[Any]], limit: int) -> list[Score]:
        page = keys.order_by(*order).limit(limit).subquery()
        at = and_(scores.c.run == self.run, scores.c.position == page.c.position, scores.c.n == page.c.n)
        of = and_(answers.c.run == self.run, answers.c.position == page.c.position)
        shown = [column for column in answers.c if column.name not in ("run", "position", "error")]
        columns = (*scores.c, *shown, answers.c.error.label("answer_error"))
        query = select(*columns).join(page, at).join(answers, of).order_by(*order)
        return [self._score(row) for row in every(self.connection, query)]

    def _score(self, row: Row) -> Score:
        limit = next((one for one in self.limits if (one.metric, one.judge) == (row["metric"], row["judge"])), None)
        passed = None
        if limit is not None and row["score"] is not None:
            passed = passes(row["score"], limit.value, higher_is_better=limit.higher)
        return from_row(
            Score,
            row,
            id=f"{row['position']}-{row['n']}",
            value=None if row["value"] is None else json.loads(row["value"]),
            threshold=limit.value if limit else None,
            passed=passed,
        )


def _is_by_score(wanted: ScoreFilter) -> bool:
    return (wanted.low, wanted.high, wanted.passed) != (None, None, None)


def _within(wanted: ScoreFilter) -> list[ColumnElement[bool]]:
    bounds: list[ColumnElement[bool]] = []
    if wanted.low is not None:
        bounds.append(scores.c.score >= wanted.low)
    if wanted.high is not None:
        bounds.append(scores.c.score <= wanted.high)
    return bounds


def _after(place: Place, *, is_descending: bool) -> ColumnElement[bool]:
    here, there = tuple_(*_ORDER), tuple_(*place)
    return here < there if is_descending else here > there


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
    """Write rows of answers, answer_tags, scores and score_steps; `is_replaced` overwrites existing ones."""
    if answered:
        connection.execute(upsert(connection, answers, is_replaced=is_replaced), answered)
    for table, rows in ((answer_tags, tagged), (scores, scored), (score_steps, steps)):
        if rows:
            add_many(connection, upsert(connection, table, is_replaced=is_replaced), rows)


def statuses(connection: Connection, run: int, places: Sequence[Place]) -> dict[Place, str]:
    """The status of each existing score among these places."""
    by_place: dict[Place, str] = {}
    wanted = set(places)
    for some in chunks(dict.fromkeys(position for position, _ in places), _AT_ONCE):
        query = select(scores.c.position, scores.c.n, scores.c.status)
        rows = connection.execute(query.where(scores.c.run == run, scores.c.position.in_(some)))
        by_place |= {(position, n): status for position, n, status in rows if (position, n) in wanted}
    return by_place


def failed_answers(connection: Connection, run: int, positions: Sequence[int]) -> int:
    """The number of failed answers among these positions."""
    query = select(func.count()).where(answers.c.run == run, answers.c.error.is_not(None))
    parts = (query.where(answers.c.position.in_(some)) for some in chunks(positions, _AT_ONCE))
    return sum(connection.scalar(part) or 0 for part in parts)


def common_cases(connection: Connection, one: int, other: int) -> list[tuple[str, str, str, bool]]:
    """The cases (dataset, id, question) that two runs share, and whether their answers differ. Scans both runs.

    Not a join: without a suitable index it would compare every answer with every other.
    """
    key = (answers.c.dataset, answers.c.case_id, answers.c.target_repeat)
    query = select(*key, answers.c.answer, answers.c.error.is_(None), answers.c.question)
    known: dict[tuple[str, str, int], set[tuple[bytes | None, bool]]] = {}
    for dataset, case_id, repeat, answer, is_answered, _ in connection.execute(query.where(answers.c.run == other)):
        known.setdefault((dataset, case_id, repeat), set()).add((_digest(answer), is_answered))
    common: dict[tuple[str, str], tuple[str, bool]] = {}
    for dataset, case_id, repeat, answer, is_answered, asked in connection.execute(query.where(answers.c.run == one)):
        others = known.get((dataset, case_id, repeat))
        if others is not None:
            question, differs = common.get((dataset, case_id), (asked, False))
            differs = differs or others != {(_digest(answer), is_answered)}
            common[dataset, case_id] = (min(question, asked), differs)
    return [(dataset, case_id, *about) for (dataset, case_id), about in sorted(common.items())]


def _digest(text: str | None) -> bytes | None:
    return None if text is None else blake2b(text.encode(), digest_size=16).digest()

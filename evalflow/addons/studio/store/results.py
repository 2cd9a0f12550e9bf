"""A run's results as a table: one row per answer, in a chosen order, and one cell per metric.

Of an answer that people labelled on a metric, their score counts in place of the judge's, as in `cases --failed` and
in reports.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, case, func, select

from evalflow.addons.studio.store.rows import chunks
from evalflow.addons.studio.store.scores import CaseAnswer, Limit, RunScores, ScoreFilter
from evalflow.addons.studio.store.tables import answers, scores
from evalflow.records import passes


@dataclass(frozen=True, slots=True)
class ResultCell:
    """The scores of one metric for one answer.

    Attributes:
        score: Their mean, or None.
        status: scored; if a score is missing: error, undefined or skipped.
        passed: Whether all pass; None if no threshold applies or nothing was scored.
        n: The number of scores, including the judge's repeats.
        is_by_people: Whether people's labels count; `judged` is then the mean of the scores.
    """

    score: float | None
    status: str
    passed: bool | None
    n: int
    is_by_people: bool = False
    judged: float | None = None


@dataclass(frozen=True, slots=True)
class ResultRow(CaseAnswer):
    """An answer with its cells by metric."""

    cells: Mapping[str, ResultCell]


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """The order of rows.

    Attributes:
        by: worst (see `rank_answers`), input (input order), low or high (by the scores of `metric`).
        metric: For low and high.
    """

    by: str
    metric: str = ""


_FAILED = 1 << 24
"""The weight of a failed score in a sum in which a passed one counts 1; no answer has that many scores."""


@dataclass(frozen=True, slots=True)
class AnswerRanking:
    """The positions of a run's scored answers, worst first. Building it reads every score of the run.

    Attributes:
        marks: For each position, 1 if a score has failed, plus 2 if one has passed.
    """

    order: array[int]
    marks: bytes

    def having(self, *, passed: bool) -> set[int]:
        """The positions with at least one score that passed, or that failed."""
        mark = 2 if passed else 1
        return {position for position, bits in zip(self.order, self.marks, strict=True) if bits & mark}


def rank_answers(run: RunScores, scales: Mapping[str, bool]) -> AnswerRanking:
    """Rank a run's answers: most failed scores first, then most errors, then the lowest mean of the scores from 0 to 1.

    `scales`: the metrics that score from 0 to 1; true if higher is better.
    """

    def of(*, higher: bool) -> ColumnElement[bool]:
        return scores.c.metric.in_([name for name, is_higher in scales.items() if is_higher is higher])

    # One sum counts passed and failed scores: a second aggregate would compare the metrics of all scores again.
    counted = case(
        (scores.c.score.is_(None), 0),
        *((one.is_for(), case((one.is_met(), 1), else_=_FAILED)) for one in run.limits),
        else_=0,
    )
    columns: dict[str, ColumnElement[Any]] = {
        "counts": func.sum(counted),
        "errors": func.sum(case((scores.c.status == "error", 1), else_=0)),
        "mean": func.avg(case((of(higher=True), scores.c.score), (of(higher=False), 1 - scores.c.score))),
    }
    ranked = select(scores.c.position, *(column.label(name) for name, column in columns.items()))
    totals = ranked.where(scores.c.run == run.run).group_by(scores.c.position).subquery()
    query = select(*(totals.c[name] for name in ("position", *columns))).order_by(
        (totals.c.counts // _FAILED).desc(), totals.c.errors.desc(), totals.c.mean.asc().nulls_last(), totals.c.position
    )
    rows: Iterable[Sequence[Any]] = run.connection.execute(query)
    if run.people:
        labelled = _standings(run, scales)
        rows = sorted((labelled.get(row[0], row) for row in rows), key=_urgency)
    order, marks = array("q"), bytearray()
    for position, counts, *_ in rows:
        order.append(position)
        marks.append((1 if counts >= _FAILED else 0) + (2 if counts % _FAILED else 0))
    return AnswerRanking(order, bytes(marks))


def _urgency(row: Sequence[Any]) -> tuple[Any, ...]:
    position, counts, errors, mean = row
    return -(counts // _FAILED), -errors, mean is None, mean or 0.0, position


def _standings(run: RunScores, scales: Mapping[str, bool]) -> dict[int, Sequence[Any]]:
    """Position, counts, errors and mean of `rank_answers`, of the answers that people labelled."""
    limits, standings = _limits(run), dict[int, Sequence[Any]]()
    for position, those in _scores_at(run, {position for position, _ in run.people}).items():
        counted = [(one.metric, *_counted(run, limits, one)) for one in those]
        passed = [one for *_, one in counted]
        means = [
            score if scales[metric] else 1 - score
            for metric, score, *_ in counted
            if score is not None and metric in scales
        ]
        counts = _FAILED * passed.count(False) + passed.count(True)
        errors = sum(status == "error" for _, _, status, _ in counted)
        standings[position] = position, counts, errors, sum(means) / len(means) if means else None
    return standings


class _BriefScore(NamedTuple):
    """A score without reasons and costs."""

    position: int
    metric: str
    judge: str | None
    status: str
    score: float | None


def _counted(
    run: RunScores, limits: Mapping[tuple[str, str | None], Limit], one: _BriefScore
) -> tuple[float | None, str, bool | None]:
    """The score that counts, its status, and whether it passes; as `counted_score` and `counted_pass` of the core.

    A judge's error stays one, as in `cases --failed`, also if people labelled the answer.
    """
    limit = limits.get((one.metric, one.judge)) if one.score is not None else None
    people = run.people.get((one.position, one.metric))
    if people is not None:
        status = "error" if one.status == "error" else "undefined" if people.score is None else "scored"
        return people.score, status, people.passed if limit is not None else None
    passed = None if limit is None else passes(one.score, limit.value, higher_is_better=limit.higher)
    return one.score, one.status, passed


def _limits(run: RunScores) -> Mapping[tuple[str, str | None], Limit]:
    return {(limit.metric, limit.judge): limit for limit in run.limits}


def _scores_at(run: RunScores, positions: Collection[int]) -> dict[int, list[_BriefScore]]:
    """The scores of the answers at these positions."""
    columns = (scores.c[name] for name in _BriefScore._fields)
    brief = select(*columns).where(scores.c.run == run.run).order_by(scores.c.position, scores.c.n)
    by_position: dict[int, list[_BriefScore]] = {}
    for some in chunks(positions, 500):
        for row in run.connection.execute(brief.where(scores.c.position.in_(some))):
            one = _BriefScore(*row)
            by_position.setdefault(one.position, []).append(one)
    return by_position


def positions_in_order(
    run: RunScores, wanted: ScoreFilter, order: ResultOrder, ranking: Callable[[], AnswerRanking]
) -> list[int]:
    """The positions of the answers with a matching score, in order.

    `ranking` is called only if needed.
    """
    # The order by a metric lists only answers with its scores, so a filter by that metric removes nothing.
    is_implied = bool(order.metric) and wanted == ScoreFilter(metric=order.metric)
    matching = None if is_implied else _matching(run, wanted, ranking)
    if order.by == "worst":
        in_order: Iterable[int] = ranking().order
    elif order.by == "input":
        in_order = (
            run.connection.scalars(_all(run).order_by(answers.c.position)) if matching is None else sorted(matching)
        )
    else:
        mean = func.avg(scores.c.score)
        by_mean = mean.asc() if order.by == "low" else mean.desc()
        own = select(scores.c.position).where(scores.c.run == run.run, scores.c.metric == order.metric)
        ordered = own.group_by(scores.c.position).order_by(by_mean.nulls_last(), scores.c.position)
        in_order = run.connection.scalars(ordered)
        if labelled := {place: one.score for (place, metric), one in run.people.items() if metric == order.metric}:
            means = {row[0]: row[1] for row in run.connection.execute(ordered.add_columns(mean))}
            in_order = _by_mean(means | labelled, order.by)
    return list(in_order) if matching is None else [position for position in in_order if position in matching]


def _by_mean(means: Mapping[int, float | None], by: str) -> list[int]:
    """The positions of the means, lowest or highest first; those without one last."""
    sign = 1 if by == "low" else -1
    return sorted(means, key=lambda place: (means[place] is None, sign * (means[place] or 0.0), place))


def _all(run: RunScores) -> Select[Any]:
    return select(answers.c.position).where(answers.c.run == run.run)


def _matching(run: RunScores, wanted: ScoreFilter, ranking: Callable[[], AnswerRanking]) -> set[int] | None:
    """The positions that match a filter; None if it is empty. Tag and text also match answers without scores."""
    parts: list[set[int]] = []
    of_scores = replace(wanted, tag=None, text=None)
    if of_scores == ScoreFilter(passed=wanted.passed) and wanted.passed is not None:
        parts.append(ranking().having(passed=wanted.passed))
    elif of_scores != ScoreFilter():
        query = select(scores.c.position).where(*run.conditions(of_scores)).distinct()
        parts.append(set(run.connection.scalars(query)) - {position for position, _ in run.people})
        parts[0].update(_labelled_matching(run, of_scores))
    if wanted.tag:
        parts.append(set[int](run.connection.scalars(run.tagged(wanted.tag))))
    if wanted.text:
        parts.append(set(run.connection.scalars(_all(run).where(run.contains(wanted.text)))))
    return parts[0].intersection(*parts[1:]) if parts else None


def _labelled_matching(run: RunScores, wanted: ScoreFilter) -> Iterator[int]:
    """The positions of the answers that people labelled with a score that counts and matches a filter of scores."""
    limits = _limits(run)
    for position, those in _scores_at(run, {position for position, _ in run.people}).items():
        for one in those:
            score, status, passed = _counted(run, limits, one)
            if (
                wanted.metric in (None, one.metric)
                and wanted.status in (None, status)
                and wanted.passed in (None, passed)
                and (wanted.low is None or (score is not None and score >= wanted.low))
                and (wanted.high is None or (score is not None and score <= wanted.high))
            ):
                yield position
                break


def result_rows(run: RunScores, positions: Sequence[int]) -> list[ResultRow]:
    """The rows at these positions (at most a page), in this order."""
    by_position = {one.position: one for one in run.answers(positions)}
    grouped: dict[int, dict[str, list[_BriefScore]]] = {}
    for place, those in _scores_at(run, positions).items():
        for one in those:
            grouped.setdefault(place, {}).setdefault(one.metric, []).append(one)
    limits = _limits(run)
    return [
        ResultRow(
            **asdict(by_position[place]),
            cells={metric: _cell(run, those, limits) for metric, those in grouped.get(place, {}).items()},
        )
        for place in positions
        if place in by_position
    ]


def cases_at(run: RunScores, positions: Sequence[int]) -> list[tuple[str, str]]:
    """The distinct cases (dataset and id) of the answers at these positions."""
    columns = select(answers.c.dataset, answers.c.case_id).where(answers.c.run == run.run)
    distinct: dict[tuple[str, str], None] = {}
    for chunk in chunks(positions, 500):
        query = columns.where(answers.c.position.in_(chunk)).order_by(answers.c.position)
        distinct.update(dict.fromkeys((dataset, case) for dataset, case in run.connection.execute(query)))
    return list(distinct)


def questions_at(run: RunScores, positions: Sequence[int]) -> dict[int, str]:
    """The questions of the answers at these positions (at most 500), by position."""
    here = answers.c.run == run.run, answers.c.position.in_(positions)
    result = run.connection.execute(select(answers.c.position, answers.c.question).where(*here))
    return {row.position: row.question for row in result}


def _cell(run: RunScores, those: Sequence[_BriefScore], limits: Mapping[tuple[str, str | None], Limit]) -> ResultCell:
    counted = [_counted(run, limits, one) for one in those]
    passed = [one for *_, one in counted if one is not None]
    people = run.people.get((those[0].position, those[0].metric))
    return ResultCell(
        score=_mean([score for score, *_ in counted]),
        status=next((status for _, status, _ in counted if status != "scored"), "scored"),
        passed=all(passed) if passed else None,
        n=len(those),
        is_by_people=people is not None,
        judged=None if people is None else _mean([one.score for one in those]),
    )


def _mean(scored: Sequence[float | None]) -> float | None:
    known = [score for score in scored if score is not None]
    return sum(known) / len(known) if known else None

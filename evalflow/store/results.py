"""A run's results as a table: a row for each answer, in a chosen order, with one cell for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, null, or_, select

from evalflow.records import passes
from evalflow.store.rows import Row, chunks, every, from_row, now, upsert
from evalflow.store.scores import CaseAnswer, Limit, RunScores, ScoreFilter
from evalflow.store.tables import answers, run_views, scores


@dataclass(frozen=True, slots=True)
class ResultCell:
    """The scores of one metric for one answer.

    Attributes:
        score: Their mean; None if there is none.
        status: scored; or error, undefined or skipped if a score is missing.
        passed: Whether all pass; None if no threshold applies or nothing was scored.
        n: How many there are, with repeats of the judge.
    """

    score: float | None
    status: str
    passed: bool | None
    n: int


@dataclass(frozen=True, slots=True)
class ResultRow(CaseAnswer):
    """An answer with its cells by metric."""

    cells: Mapping[str, ResultCell]


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """The order of rows.

    Attributes:
        by: worst (most failed scores first, then most errors, then the lowest mean of the scores from 0 to 1), input
            (the order of the data), low or high (by the scores of `metric`).
        metric: For low and high.
        scales: Whether higher is better, by metric, for those that score from 0 to 1.
    """

    by: str
    metric: str = ""
    scales: Mapping[str, bool] | None = None


def positions_in_order(run: RunScores, wanted: ScoreFilter, order: ResultOrder) -> list[int]:
    """The positions of the answers that match, with a score that matches; in a large run it reads every score."""
    matching = _matching(run, wanted)
    if order.by == "input":
        query = matching.order_by("position") if matching is not None else _all(run).order_by(answers.c.position)
        return list(run.connection.scalars(query))
    query = select(scores.c.position).where(scores.c.run == run.run).group_by(scores.c.position)
    if matching is not None:
        query = query.where(scores.c.position.in_(matching.correlate(None)))
    if order.by == "worst":
        query = query.order_by(*_worst(run.limits, order.scales or {}))
    else:
        mean = func.avg(scores.c.score)
        by_mean = mean.asc() if order.by == "low" else mean.desc()
        query = query.where(scores.c.metric == order.metric).order_by(by_mean.nulls_last())
    return list(run.connection.scalars(query.order_by(scores.c.position)))


def _all(run: RunScores) -> Select[Any]:
    return select(answers.c.position).where(answers.c.run == run.run)


def _matching(run: RunScores, wanted: ScoreFilter) -> Select[Any] | None:
    """The positions that a filter leaves; None if it leaves all."""
    if wanted == ScoreFilter():
        return None
    if wanted == ScoreFilter(text=wanted.text):  # an answer without a score counts, too
        return _all(run).where(run.contains(wanted.text or ""))
    return select(scores.c.position.label("position")).where(*run.conditions(wanted)).distinct()


def _worst(limits: Sequence[Limit], scales: Mapping[str, bool]) -> list[ColumnElement[Any]]:
    def of(*, higher: bool) -> ColumnElement[bool]:
        return scores.c.metric.in_([name for name, is_higher in scales.items() if is_higher is higher])

    fails = or_(*(limit.holds(passed=False) for limit in limits)) if limits else None
    failed = func.sum(case((fails, 1), else_=0)) if fails is not None else null()
    errors = func.sum(case((scores.c.status == "error", 1), else_=0))
    scaled = case((of(higher=True), scores.c.score), (of(higher=False), 1 - scores.c.score))
    keys: list[ColumnElement[Any]] = [errors.desc(), func.avg(scaled).asc().nulls_last()]
    return keys if fails is None else [failed.desc(), *keys]


def result_rows(run: RunScores, positions: Sequence[int]) -> list[ResultRow]:
    """The rows at these positions, in this order; at most a page of them."""
    here = answers.c.run == run.run, answers.c.position.in_(positions)
    found = {row["position"]: row for row in every(run.connection, select(answers).where(*here))}
    columns = (scores.c[name] for name in ("position", "metric", "judge", "status", "score"))
    light = select(*columns).where(scores.c.run == run.run, scores.c.position.in_(positions))
    grouped: dict[int, dict[str, list[Row]]] = {}
    for row in every(run.connection, light.order_by(scores.c.position, scores.c.n)):
        grouped.setdefault(row["position"], {}).setdefault(row["metric"], []).append(row)
    limits = {(limit.metric, limit.judge): limit for limit in run.limits}
    return [
        from_row(
            ResultRow,
            found[place],
            answer_error=found[place]["error"],
            cells={metric: _cell(rows, limits) for metric, rows in grouped.get(place, {}).items()},
        )
        for place in positions
        if place in found
    ]


def cases_at(run: RunScores, positions: Sequence[int]) -> list[tuple[str, str]]:
    """Dataset and id of the cases whose answers stand at these positions, each once."""
    columns = select(answers.c.dataset, answers.c.case_id).where(answers.c.run == run.run)
    found: dict[tuple[str, str], None] = {}
    for chunk in chunks(positions, 500):
        query = columns.where(answers.c.position.in_(chunk)).order_by(answers.c.position)
        found.update(dict.fromkeys((dataset, case) for dataset, case in run.connection.execute(query)))
    return list(found)


def _cell(rows: Sequence[Row], limits: Mapping[tuple[str, str | None], Limit]) -> ResultCell:
    scored = [row for row in rows if row["score"] is not None]
    passed = [
        passes(row["score"], limit.value, higher_is_better=limit.higher)
        for row in scored
        if (limit := limits.get((row["metric"], row["judge"]))) is not None
    ]
    return ResultCell(
        score=sum(row["score"] for row in scored) / len(scored) if scored else None,
        status=next((row["status"] for row in rows if row["status"] != "scored"), "scored"),
        passed=all(passed) if passed else None,
        n=len(rows),
    )


def has_viewed(run: RunScores, by: str) -> bool:
    """Whether a person has opened the run's results."""
    query = select(run_views.c.run).where(run_views.c.run == run.run, run_views.c.by == by)
    return run.connection.scalar(query) is not None


def note_view(run: RunScores, by: str) -> None:
    """Note that a person has opened the run's results; the first time stays."""
    statement = upsert(run.connection, run_views, is_replaced=False)
    run.connection.execute(statement.values(run=run.run, by=by, at=now()))

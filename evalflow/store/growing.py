"""The scores of a run that is under way: what is there of it already, and what comes in the place of what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, and_, delete, or_, select

from evalflow.store.filters import Place
from evalflow.store.rows import Row, every
from evalflow.store.tables import answers, score_steps, scores

T = TypeVar("T")
_AT_ONCE = 500


def answers_at(connection: Connection, run: int, positions: Sequence[int]) -> list[Row]:
    """Of the answers that are there at these positions: position, answer and error."""
    columns = (answers.c.position, answers.c.answer, answers.c.error)
    found: list[Row] = []
    for some in _some(positions):
        found += every(connection, select(*columns).where(answers.c.run == run, answers.c.position.in_(some)))
    return found


def scores_at(connection: Connection, run: int, positions: Sequence[int]) -> list[Row]:
    """Of the scores that are there of the answers at these positions: place, state, and what tells them apart."""
    columns = (scores.c.position, scores.c.n, scores.c.status)
    apart = (scores.c.metric, scores.c.judge, scores.c.repeat, scores.c.member_of)
    found: list[Row] = []
    for some in _some(positions):
        query = select(*columns, *apart).where(scores.c.run == run, scores.c.position.in_(some))
        found += every(connection, query)
    return found


def take_out(connection: Connection, run: int, answered: Sequence[int], scored: Sequence[Place]) -> None:
    """Delete answers by position, and scores by place; their tags stay."""
    for some in _some(answered):
        connection.execute(delete(answers).where(answers.c.run == run, answers.c.position.in_(some)))
    for some in _some(scored, 100):
        for table in (scores, score_steps):
            at = or_(*(and_(table.c.position == position, table.c.n == n) for position, n in some))
            connection.execute(delete(table).where(table.c.run == run, at))


def _some(of: Sequence[T], number: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    for start in range(0, len(of), number):
        yield of[start : start + number]

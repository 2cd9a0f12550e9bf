"""Verdicts of people on the scores of a run (labels given after seeing the score), and exclusions of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, select

from evalflow.addons.studio.store.rows import Row, add, every, now, upsert
from evalflow.addons.studio.store.scores import CELL
from evalflow.addons.studio.store.tables import answers, exclusions, labels


def lock(connection: Connection, run: int, position: int) -> bool:
    """Lock an answer against other writers until the transaction ends; returns whether it exists."""
    query = select(answers.c.position).where(answers.c.run == run, answers.c.position == position)
    return connection.scalar(query.with_for_update()) is not None


def of_answer(connection: Connection, run: int, position: int) -> list[Row]:
    """The verdicts on the scores of an answer, oldest first."""
    query = select(labels).join(answers, _same()).where(answers.c.run == run, answers.c.position == position)
    return every(connection, query.where(_is_verdict()).order_by(labels.c.id))


def page(connection: Connection, run: int, after: int, limit: int) -> list[Row]:
    """The verdicts on a run, each with its answer's `position`; `after`: only larger ids."""
    query = select(labels, answers.c.position).outerjoin(answers, _same())
    query = query.where(labels.c.run == run, _is_verdict(), labels.c.id > after)
    return every(connection, query.order_by(labels.c.id).limit(limit))


def put(connection: Connection, values: Mapping[str, Any]) -> int:
    """Save a person's verdict, replacing their earlier one; returns its id. The caller holds `lock`."""
    remove(connection, values)
    fixed = {"weight": 1.0, "kind": "label", "blind": False, "seen_before": True, "version": 1, "at": now()}
    return add(connection, labels, {**values, **fixed})


def remove(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Delete a person's verdict, given by run, answer, metric and by; returns whether it existed."""
    same = (labels.c[name] == values[name] for name in ("run", *CELL, "metric", "by"))
    return connection.execute(delete(labels).where(*same, _is_verdict())).rowcount > 0


def _is_verdict() -> ColumnElement[bool]:
    return and_(labels.c.review_id.is_(None), labels.c.blind.is_(False))


def _same() -> ColumnElement[bool]:
    return and_(labels.c.run == answers.c.run, *(labels.c[name] == answers.c[name] for name in CELL))


def exclusions_of(connection: Connection, run: int, position: int | None = None) -> list[Row]:
    """The results excluded from a run, or of one of its answers, each with its answer's columns."""
    same = and_(exclusions.c.run == answers.c.run, exclusions.c.position == answers.c.position)
    query = select(exclusions, *(answers.c[name] for name in CELL)).join(answers, same)
    query = query.where(exclusions.c.run == run, *(() if position is None else (exclusions.c.position == position,)))
    return every(connection, query.order_by(exclusions.c.position, exclusions.c.metric))


def exclude(connection: Connection, values: Mapping[str, Any]) -> None:
    """Exclude a result; an excluded one gets the new reason."""
    connection.execute(upsert(connection, exclusions).values(**values, at=now()))


def bring_back(connection: Connection, run: int, position: int, metric: str) -> bool:
    """Include a result again; returns whether it was excluded."""
    same = (exclusions.c.run == run, exclusions.c.position == position, exclusions.c.metric == metric)
    return connection.execute(delete(exclusions).where(*same)).rowcount == 1

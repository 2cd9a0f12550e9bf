"""People's judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from evalflow.records import Label
from evalflow.store.rows import Row, add, every
from evalflow.store.tables import labels


def add_label(connection: Connection, run: int | None, dataset: str | None, target: str | None, label: Label) -> int:
    """Keep a label; gives its id."""
    values: Mapping[str, Any] = {
        "run": run,
        "dataset": dataset,
        "case_id": label.case_id,
        "target": target,
        "metric": label.metric,
        "value": label.value,
        "by": label.by,
        "answer_hash": label.answer_hash,
        "weight": label.weight,
        "comment": label.comment,
        "at": label.at,
        "version": 1,
    }
    return add(connection, labels, values)


def page(
    connection: Connection, after: int, limit: int, metric: str | None = None, run: int | None = None
) -> list[Row]:
    """Labels in the order they were given, from behind the row with the id `after`."""
    query = select(labels).where(labels.c.id > after).order_by(labels.c.id).limit(limit)
    wanted = {labels.c.metric: metric, labels.c.run: run}
    return every(connection, query.where(*(column == value for column, value in wanted.items() if value is not None)))


def as_label(row: Row) -> Label:
    """The label that a row holds."""
    names = ("case_id", "metric", "value", "by", "answer_hash", "weight", "comment", "at")
    return Label(**{name: row[name] for name in names})

"""What people define: bots, the metrics of each, datasets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from evalflow.store.tables import Row, add, bots, cases, change, creations, datasets, every, metrics, now, one

_NAMED = {"bots": bots, "datasets": datasets}


def named(connection: Connection, table: str, name: str) -> Row | None:
    """The bot or dataset of that name."""
    found = _NAMED[table]
    return one(connection, select(found).where(found.c.name == name))


def all_named(connection: Connection, table: str) -> list[Row]:
    """All bots or datasets by name."""
    found = _NAMED[table]
    return every(connection, select(found).order_by(found.c.name))


def add_named(connection: Connection, table: str, values: Mapping[str, Any]) -> int:
    """A new bot or dataset, at version 1; gives its id."""
    moment = now()
    return add(connection, _NAMED[table], {**values, "version": 1, "created_at": moment, "updated_at": moment})


def change_named(connection: Connection, table: str, row: int, expected: int, values: Mapping[str, Any]) -> bool:
    """Change a bot or dataset that still is of the version that was seen; says whether it was."""
    found = _NAMED[table]
    return change(connection, found, found.c.id == row, expected, {**values, "updated_at": now()})


def delete_named(connection: Connection, table: str, row: int, expected: int) -> bool:
    """Delete one, with all that belongs to it, if it still is of the version that was seen; says whether it was."""
    found = _NAMED[table]
    return connection.execute(delete(found).where(found.c.id == row, found.c.version == expected)).rowcount == 1


def counts(connection: Connection) -> dict[int, int]:
    """How many cases each dataset has, by its id."""
    query = select(cases.c.dataset_id, func.count()).group_by(cases.c.dataset_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def metrics_of(connection: Connection, bot: int) -> list[Row]:
    """The metrics of a bot by name."""
    return every(connection, select(metrics).where(metrics.c.bot_id == bot).order_by(metrics.c.name))


def add_metric(
    connection: Connection, bot: int, name: str, definition: Mapping[str, Any], prompts: Mapping[str, str]
) -> int:
    """A new metric of a bot, at version 1; gives its id."""
    moment = now()
    values = {"bot_id": bot, "name": name, "definition": definition, "prompts": prompts}
    return add(connection, metrics, {**values, "version": 1, "created_at": moment, "updated_at": moment})


def change_metric(connection: Connection, row: int, expected: int, values: Mapping[str, Any]) -> bool:
    """Change a metric that still is of the version that was seen; says whether it was."""
    return change(connection, metrics, metrics.c.id == row, expected, {**values, "updated_at": now()})


def delete_metric(connection: Connection, row: int, expected: int) -> bool:
    """Delete a metric that still is of the version that was seen; says whether it was."""
    return connection.execute(delete(metrics).where(metrics.c.id == row, metrics.c.version == expected)).rowcount == 1


KEPT = timedelta(days=30)


def get(connection: Connection, key: str) -> Row | None:
    """The answer that was kept under a key."""
    return one(connection, select(creations).where(creations.c.key == key))


def put(connection: Connection, values: Row) -> None:
    """Keep an answer, in the place of what is there of its key; what is older than `KEPT` goes."""
    oldest = (datetime.now(UTC) - KEPT).isoformat(timespec="milliseconds")
    connection.execute(delete(creations).where((creations.c.at < oldest) | (creations.c.key == values["key"])))
    connection.execute(insert(creations).values(**values, at=now()))

"""Definitions (bots, their metrics, datasets), and stored responses by idempotency key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, func, insert, select

from evalflow.store import tables
from evalflow.store.tables import Row, bots, cases, creations, datasets, every, metrics, now, one

TableName = Literal["bots", "datasets", "metrics"]
_TABLES: Mapping[TableName, sa.Table] = {"bots": bots, "datasets": datasets, "metrics": metrics}


def named(connection: Connection, table: TableName, name: str, bot: int | None = None) -> Row | None:
    """The definition with that name; a metric's name is unique within its bot."""
    return one(connection, _select(table, bot).where(_TABLES[table].c.name == name))


def listed(connection: Connection, table: TableName, bot: int | None = None) -> list[Row]:
    """All definitions by name, or those of one bot."""
    return every(connection, _select(table, bot).order_by(_TABLES[table].c.name))


def add(connection: Connection, table: TableName, values: Mapping[str, Any]) -> int:
    """Add a definition at version 1; returns its id."""
    moment = now()
    return tables.add(connection, _TABLES[table], {**values, "version": 1, "created_at": moment, "updated_at": moment})


def change(connection: Connection, table: TableName, row: int, expected: int, values: Mapping[str, Any]) -> bool:
    """Change a definition if it still has the expected version; returns whether it had."""
    found = _TABLES[table]
    return tables.change(connection, found, found.c.id == row, expected, {**values, "updated_at": now()})


def delete(connection: Connection, table: TableName, row: int, expected: int) -> bool:
    """Delete a definition and its dependents if it still has the expected version; returns whether it had."""
    found = _TABLES[table]
    return connection.execute(sa.delete(found).where(found.c.id == row, found.c.version == expected)).rowcount == 1


def counts(connection: Connection) -> dict[int, int]:
    """The number of cases of each dataset, by its id."""
    query = select(cases.c.dataset_id, func.count()).group_by(cases.c.dataset_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def _select(table: TableName, bot: int | None) -> sa.Select[Any]:
    query = select(_TABLES[table])
    return query if bot is None else query.where(_TABLES[table].c.bot_id == bot)


KEPT = timedelta(days=30)


def get(connection: Connection, key: str) -> Row | None:
    """The response stored under an idempotency key."""
    return one(connection, select(creations).where(creations.c.key == key))


def put(connection: Connection, values: Row) -> None:
    """Store a response, replacing one with the same key, and delete those older than `KEPT`."""
    oldest = (datetime.now(UTC) - KEPT).isoformat(timespec="milliseconds")
    connection.execute(sa.delete(creations).where((creations.c.at < oldest) | (creations.c.key == values["key"])))
    connection.execute(insert(creations).values(**values, at=now()))

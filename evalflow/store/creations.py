"""What creations were answered, by their idempotency keys, for as long as anybody may send them again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from evalflow.store.rows import Row, now, one
from evalflow.store.tables import creations

KEPT = timedelta(days=30)


def get(connection: Connection, key: str) -> Row | None:
    """The answer that was kept under a key."""
    return one(connection, select(creations).where(creations.c.key == key))


def put(connection: Connection, values: Row) -> None:
    """Keep an answer, in the place of what is there of its key; what is older than `KEPT` goes."""
    oldest = (datetime.now(UTC) - KEPT).isoformat(timespec="milliseconds")
    connection.execute(delete(creations).where((creations.c.at < oldest) | (creations.c.key == values["key"])))
    connection.execute(insert(creations).values(**values, at=now()))

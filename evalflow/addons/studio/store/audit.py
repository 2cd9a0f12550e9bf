"""The audit: who changed what. Rows are only added. They hold names instead of keys, so they outlive what they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, select

from evalflow.addons.studio.store.rows import Row, every, now
from evalflow.addons.studio.store.server_tables import audit


def add(
    connection: Connection,
    by: str,
    address: str,
    project: str | None,
    action: str,
    kind: str,
    name: str,
    fields: Sequence[str],
) -> None:
    """Record a change in its own transaction."""
    values = {"by": by, "address": address, "project": project, "action": action, "kind": kind, "name": name}
    connection.execute(insert(audit).values(**values, fields=list(fields), at=now()))


def page(
    connection: Connection,
    before: int | None,
    limit: int,
    equal: Mapping[str, str | None],
    since: str | None = None,
    until: str | None = None,
) -> list[Row]:
    """Return changes, newest first.

    `before`: only rows with a smaller id. `equal`: the required values by column; None matches all. `since` (inclusive)
    and `until` (exclusive) bound the time.
    """
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    query = query.where(*(audit.c[name] == value for name, value in equal.items() if value is not None))
    if before is not None:
        query = query.where(audit.c.id < before)
    if since is not None:
        query = query.where(audit.c.at >= since)
    if until is not None:
        query = query.where(audit.c.at < until)
    return every(connection, query)


def distinct(connection: Connection, column: str, project: str | None) -> list[str]:
    """The distinct values of a column, sorted, of one project or of all rows."""
    query = select(audit.c[column]).distinct().order_by(audit.c[column])
    return list(connection.scalars(query if project is None else query.where(audit.c.project == project)))

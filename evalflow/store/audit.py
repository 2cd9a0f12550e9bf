"""The audit: who changed what. Rows are only added; they name objects and people, and so outlive them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from evalflow.store.tables import Row, audit, every, now


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
    connection: Connection, before: int | None, limit: int, by: str | None, project: str | None, kind: str | None
) -> list[Row]:
    """Changes, the newest first. `before`: only rows with a smaller id."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    wanted = {audit.c.by: by, audit.c.project: project, audit.c.kind: kind}
    query = query.where(*(column == value for column, value in wanted.items() if value is not None))
    return every(connection, query if before is None else query.where(audit.c.id < before))

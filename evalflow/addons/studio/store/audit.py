"""The audit: who changed what. Rows are only added. They hold names instead of keys, so they outlive what they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select

from evalflow.addons.studio.store.rows import Row, every, now, storable
from evalflow.addons.studio.store.server_tables import audit
from evalflow.errors import Problem, UserError


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


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of changes; None matches all.

    Attributes:
        since, until: Inclusive start and exclusive end; in UTC if without a zone.
    """

    by: str | None = None
    project: str | None = None
    kind: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def page(connection: Connection, before: int | None, limit: int, wanted: AuditFilter) -> list[Row]:
    """Return changes, newest first. `before`: only rows with a smaller id."""
    equal = {name: getattr(wanted, name) for name in ("by", "project", "kind", "action")}
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    query = query.where(*(audit.c[name] == storable(value) for name, value in equal.items() if value is not None))
    if before is not None:
        query = query.where(audit.c.id < before)
    if wanted.since is not None:
        query = query.where(audit.c.at >= _stored(wanted.since))
    if wanted.until is not None:
        query = query.where(audit.c.at < _stored(wanted.until))
    return every(connection, query)


def _stored(moment: datetime) -> str:
    """Format a moment like the table does, so that comparing texts compares moments."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UserError(Problem("this moment is in no calendar", "?since", "such as 2026-11-23")) from None


def distinct(connection: Connection, column: str, project: str | None) -> list[str]:
    """The distinct values of a column, sorted, of one project or of all rows."""
    query = select(audit.c[column]).distinct().order_by(audit.c[column])
    return list(connection.scalars(query if project is None else query.where(audit.c.project == project)))

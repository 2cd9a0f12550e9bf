"""Definitions (bots, datasets and checks of a project, metrics of a bot), and stored responses by idempotency key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, func, insert, select

from evalflow.store import rows
from evalflow.store.rows import Query, Row, every, now, one
from evalflow.store.server_tables import connections, creations
from evalflow.store.tables import bots, cases, checks, datasets, judges, metrics, projects, reviews

TableName = Literal["bots", "datasets", "metrics", "projects", "connections", "checks", "judges", "reviews"]
_TABLES: Mapping[TableName, sa.Table] = {
    "bots": bots,
    "datasets": datasets,
    "metrics": metrics,
    "projects": projects,
    "connections": connections,
    "checks": checks,
    "judges": judges,
    "reviews": reviews,
}
OWNERS: Mapping[TableName, str] = {
    **dict.fromkeys(("bots", "datasets", "checks", "judges", "reviews"), "project_id"),
    "metrics": "bot_id",
}
"""The column of a definition's owner, within which its name is unique; projects and connections have none."""
TITLED: Mapping[TableName, str] = {
    "bots": "bot",
    "metrics": "metric",
    "datasets": "dataset",
    "judges": "judge",
    "projects": "project",
}
"""The tables with titles, which are unique in the same way, and what one of their rows is."""


def named(connection: Connection, table: TableName, name: str, owner: int | None = None) -> Row | None:
    """The definition of an owner with that name."""
    return one(connection, _select(table, owner).where(_TABLES[table].c.name == name))


def by_id(connection: Connection, table: TableName, row: int) -> Row | None:
    """The definition with that id."""
    return one(connection, select(_TABLES[table]).where(_TABLES[table].c.id == row))


def listed(connection: Connection, table: TableName, owner: int | None = None) -> list[Row]:
    """All definitions of an owner, by name."""
    return every(connection, _select(table, owner).order_by(_TABLES[table].c.name))


def names(connection: Connection, table: TableName, owner: int | None = None) -> list[Row]:
    """The id and name, and the title if the table has any, of all definitions of an owner."""
    found = _TABLES[table]
    columns = [found.c[name] for name in ("id", "name", "title") if name in found.c]
    return every(connection, _select(table, owner).with_only_columns(*columns))


def other_titles(connection: Connection, project: int) -> list[Row]:
    """The titles of a project that differ from the name: kind, bot of a metric, name and title; and of all projects."""
    queries: list[Query] = []
    for table, kind in TITLED.items():
        found = _TABLES[table]
        bot, name, source = sa.literal(""), found.c.name, found
        owner = found.c[OWNERS[table]] == project if table in OWNERS else sa.true()
        if table == "metrics":  # its scores may have another name
            bot, name = bots.c.name, func.coalesce(found.c.definition["name"].as_string(), found.c.name)
            source, owner = found.join(bots), bots.c.project_id == project
        columns = [sa.literal(kind).label("kind"), bot.label("bot"), name.label("name"), found.c.title]
        queries.append(select(*columns).select_from(source).where(owner, found.c.title != found.c.name))
    return [dict(row) for row in connection.execute(sa.union_all(*queries)).mappings()]


def add(connection: Connection, table: TableName, values: Mapping[str, Any]) -> int:
    """Add a definition at version 1; returns its id."""
    moment = now()
    return rows.add(connection, _TABLES[table], {**values, "version": 1, "created_at": moment, "updated_at": moment})


def change(connection: Connection, table: TableName, row: int, expected: int, values: Mapping[str, Any]) -> bool:
    """Change a definition if it still has the expected version; returns whether it had."""
    found = _TABLES[table]
    return rows.change(connection, found, found.c.id == row, expected, {**values, "updated_at": now()})


def delete(connection: Connection, table: TableName, row: int, expected: int) -> bool:
    """Delete a definition and its dependents if it still has the expected version; returns whether it had."""
    found = _TABLES[table]
    return connection.execute(sa.delete(found).where(found.c.id == row, found.c.version == expected)).rowcount == 1


def counts(connection: Connection) -> dict[int, tuple[int, int]]:
    """The number of cases of each dataset, and how many of them are drafts, by its id."""
    drafts = func.sum(sa.case((cases.c.is_draft, 1), else_=0))
    query = select(cases.c.dataset_id, func.count(), drafts).group_by(cases.c.dataset_id)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def _select(table: TableName, owner: int | None) -> sa.Select[Any]:
    query = select(_TABLES[table])
    return query.where(_TABLES[table].c[OWNERS[table]] == owner) if table in OWNERS else query


KEPT = timedelta(days=30)


def get(connection: Connection, key: str) -> Row | None:
    """The response stored under an idempotency key."""
    return one(connection, select(creations).where(creations.c.key == key))


def put(connection: Connection, values: Row) -> None:
    """Store a response, replacing one with the same key, and delete those older than `KEPT`."""
    oldest = (datetime.now(UTC) - KEPT).isoformat(timespec="milliseconds")
    connection.execute(sa.delete(creations).where((creations.c.at < oldest) | (creations.c.key == values["key"])))
    connection.execute(insert(creations).values(**values, at=now()))

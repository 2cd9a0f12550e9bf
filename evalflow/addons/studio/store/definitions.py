"""Rows with a version, such as bots, datasets, metrics and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from evalflow.addons.studio.store import rows
from evalflow.addons.studio.store.rows import Query, Row, every, now, one, storable
from evalflow.addons.studio.store.schema import metadata
from evalflow.addons.studio.store.tables import bots, cases

Kind = Literal["bot", "dataset", "metric", "project", "connection", "check", "judge", "review", "user", "task"]
"""The kind of a row; its table's name is the plural."""
OWNERS: Mapping[Kind, str] = {
    **dict.fromkeys(("bot", "dataset", "check", "judge", "review", "task"), "project_id"),
    "metric": "bot_id",
}
"""The column of a kind's owner; names are unique within an owner. Projects, connections and users have no owner."""
TITLED: Sequence[Kind] = ("bot", "metric", "dataset", "judge", "project")
"""The kinds with titles, which are unique within an owner too."""


def table_of(kind: Kind) -> sa.Table:
    """The table of a kind."""
    return metadata.tables[f"{kind}s"]


def named(connection: Connection, kind: Kind, name: str, owner: int | None = None) -> Row | None:
    """The definition of an owner with that name."""
    return one(connection, _select(kind, owner).where(table_of(kind).c.name == storable(name)))


def id_of(connection: Connection, kind: Kind, name: str, owner: int | None = None) -> int | None:
    """The row id of the definition of an owner with that name."""
    columns = table_of(kind).c
    return connection.scalar(_select(kind, owner).with_only_columns(columns.id).where(columns.name == storable(name)))


def by_id(connection: Connection, kind: Kind, row: int) -> Row | None:
    """The definition with that id."""
    return one(connection, select(table_of(kind)).where(table_of(kind).c.id == row))


def listed(connection: Connection, kind: Kind, owner: int | None = None) -> list[Row]:
    """All definitions of an owner, by name."""
    return every(connection, _select(kind, owner).order_by(table_of(kind).c.name))


class DefinitionName(NamedTuple):
    """The row id, name and title of a definition; the title is empty for kinds without titles."""

    id: int
    name: str
    title: str = ""


def names(connection: Connection, kind: Kind, owner: int | None = None) -> list[DefinitionName]:
    """The names of all definitions of an owner."""
    table = table_of(kind)
    columns = [table.c[name] for name in DefinitionName._fields if name in table.c]
    query = _select(kind, owner).with_only_columns(*columns).order_by(table.c.name)
    return [DefinitionName(*row) for row in connection.execute(query)]


def other_titles(connection: Connection, project: int) -> dict[tuple[str, str, str], str]:
    """Titles that differ from the name, in a project and of all projects, by kind, bot (of a metric) and name.

    Metrics are listed also without a title of their own. Checks may have the same title, or none.
    """
    queries: list[Query] = []
    for kind in (*TITLED, "check"):
        table = table_of(kind)
        bot, name, source = sa.literal(""), table.c.name, table
        owner = table.c[OWNERS[kind]] == project if kind in OWNERS else sa.true()
        if kind == "metric":  # its scores may use another name
            bot, name = bots.c.name, func.coalesce(table.c.definition["name"].as_string(), table.c.name)
            source, owner = table.join(bots), bots.c.project_id == project
        columns = [sa.literal(kind).label("kind"), bot.label("bot"), name.label("name"), table.c.title]
        is_other = sa.true() if kind == "metric" else table.c.title.not_in(("", table.c.name))
        queries.append(select(*columns).select_from(source).where(owner, is_other))
    return {(kind, bot, name): title for kind, bot, name, title in connection.execute(sa.union_all(*queries))}


def add(connection: Connection, kind: Kind, values: Mapping[str, Any]) -> int:
    """Add a definition at version 1; returns its id."""
    moment = now()
    return rows.add(connection, table_of(kind), {**values, "version": 1, "created_at": moment, "updated_at": moment})


def change(connection: Connection, kind: Kind, row: int, expected: int, values: Mapping[str, Any]) -> bool:
    """Change a definition if it still has the expected version; returns whether it had."""
    table = table_of(kind)
    return rows.change(connection, table, table.c.id == row, expected, {**values, "updated_at": now()})


def delete(connection: Connection, kind: Kind, row: int, expected: int) -> bool:
    """Delete a definition and its dependents if it still has the expected version; returns whether it had."""
    table = table_of(kind)
    return connection.execute(sa.delete(table).where(table.c.id == row, table.c.version == expected)).rowcount == 1


def counts(connection: Connection) -> dict[int, tuple[int, int]]:
    """The number of cases of each dataset, and how many of them are drafts, by its id."""
    drafts = func.sum(sa.case((cases.c.is_draft, 1), else_=0))
    query = select(cases.c.dataset_id, func.count(), drafts).group_by(cases.c.dataset_id)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def _select(kind: Kind, owner: int | None) -> sa.Select[Any]:
    query = select(table_of(kind))
    return query.where(table_of(kind).c[OWNERS[kind]] == owner) if kind in OWNERS else query

"""What all tables have in common: rows as dicts, pages of them, and changes that overwrite nobody else's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, insert, update

T = TypeVar("T")
Row = dict[str, Any]
"""A row by column name."""
Query = Select[*tuple[Any, ...]]
"""What selects any columns."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of a list.

    Attributes:
        items: In order.
        next: What to give as `after` for the items that follow; None at the end.
    """

    items: Sequence[T]
    next: str | None = None


def now() -> str:
    """The time, as it stands in the tables."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def storable(text: str) -> str:
    """The text with a replacement character for what no database takes: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one(connection: Connection, query: Query) -> Row | None:
    """The first row, or None."""
    found = connection.execute(query).mappings().first()
    return None if found is None else dict(found)


def every(connection: Connection, query: Query) -> list[Row]:
    """All rows."""
    return [dict(row) for row in connection.execute(query).mappings()]


def add(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row; gives its id."""
    key = connection.execute(insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return key[0]


def add_many(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert many rows whose values the driver takes as they are: texts and numbers, no JSON.

    SQLAlchemy's own way looks at each value of each row, which takes longer than the insertion of a short row.
    """
    statement = insert(table).compile(dialect=connection.dialect)
    order = statement.positiontup
    values: Any = [tuple(row[name] for name in order) for row in rows] if order else rows
    connection.exec_driver_sql(statement.string, values)


def change(
    connection: Connection, table: Table, where: ColumnElement[bool], expected: int, values: Mapping[str, Any]
) -> bool:
    """Change one row if it still is of the version that was seen; says whether it was."""
    statement = update(table).where(where, table.c.version == expected)
    return connection.execute(statement.values(**values, version=expected + 1)).rowcount == 1

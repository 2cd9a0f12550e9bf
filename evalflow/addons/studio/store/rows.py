"""Read and write rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, Insert, Select, Table, insert, update
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")
Row = dict[str, Any]
"""A row by column name."""
Hidden = Annotated[T, Field(exclude=True)]
"""A column that REST does not show."""
Query = Select[*tuple[Any, ...]]
"""A SELECT of any columns."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def now(later: timedelta = timedelta()) -> str:
    """The current time, plus `later`, in the format of the tables."""
    return (datetime.now(UTC) + later).isoformat(timespec="milliseconds")


def storable(text: str) -> str:
    """Replace the characters that databases cannot store: NUL and lone surrogates."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def storable_json(value: object) -> Any:
    """A JSON value with lone surrogates replaced in all texts; other objects become texts."""
    return json.loads(storable(json.dumps(value, ensure_ascii=False, default=str)))


def one(connection: Connection, query: Query) -> Row | None:
    """The first row, or None."""
    mapping = connection.execute(query).mappings().first()
    return None if mapping is None else dict(mapping)


def every(connection: Connection, query: Query) -> list[Row]:
    """All rows."""
    result = connection.execute(query)
    names = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result]  # twice as fast as `mappings`


def one_as(kind: type[T], connection: Connection, query: Query) -> T | None:
    """The first row as a dataclass (see `every_as`), or None."""
    return next(iter(every_as(kind, connection, query.limit(1))), None)


def every_as(kind: type[T], connection: Connection, query: Query) -> list[T]:
    """All rows as instances of a dataclass; its field names are columns of the query."""
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    return [kind(*row) for row in connection.execute(query).columns(*names)]


def from_row(kind: type[T], row: Mapping[str, Any], **others: Any) -> T:
    """Make a dataclass from the columns named like its fields, and from other values."""
    names = (field.name for field in fields(kind))  # pyright: ignore[reportArgumentType]
    return kind(**{name: row[name] for name in names if name in row} | others)


def add(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row; returns its id."""
    key = connection.execute(insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return key[0]


def chunks(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split rows into lists of at most `size`, because databases limit the parameters of a statement."""
    waiting = iter(rows)
    while chunk := list(islice(waiting, size)):
        yield chunk


def upsert(connection: Connection, table: Table, *, is_replaced: bool = True) -> Insert:
    """Build an INSERT that replaces, or keeps, an existing row with the same primary key."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table)
    key = list(table.primary_key)
    others = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    if not is_replaced or not others:
        return statement.on_conflict_do_nothing(index_elements=key)
    return statement.on_conflict_do_update(index_elements=key, set_=others)


def add_many(connection: Connection, statement: Insert, rows: Sequence[Row]) -> None:
    """Insert many rows of plain texts and numbers, without JSON.

    This skips SQLAlchemy's per-value processing, which takes longer than inserting a short row.
    """
    compiled = statement.compile(dialect=connection.dialect)
    order = compiled.positiontup
    values: Any = [tuple(row[name] for name in order) for row in rows] if order else rows
    connection.exec_driver_sql(compiled.string, values)


def change(
    connection: Connection, table: Table, where: ColumnElement[bool], expected: int, values: Mapping[str, Any]
) -> bool:
    """Change one row if it still has the expected version; returns whether it had."""
    statement = update(table).where(where, table.c.version == expected)
    return connection.execute(statement.values(**values, version=expected + 1)).rowcount == 1

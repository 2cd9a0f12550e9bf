"""The tables. A test checks that they are the same as those that `migrations/` creates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import SchemaItem

from evalflow.records import ScoreRecord

NAME = 200
"""Characters of a name."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _version() -> Column[int]:
    """Counts the changes of a row, so that nobody overwrites a change they have not seen."""
    return Column("version", Integer, nullable=False)


def _at(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, String(40), nullable=nullable)


def _definitions(name: str, *columns: SchemaItem) -> Table:
    return Table(name, metadata, _id(), *columns, _version(), _at("created_at"), _at("updated_at"))


def _of_project() -> Column[int]:
    return Column("project_id", Integer, ForeignKey("projects.id"), nullable=False)


def _of_user() -> Column[int]:
    return Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False)


def _of_run(*numbers: str) -> list[Column[Any]]:
    run = Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False)
    return [run, *(Column(number, Integer, nullable=False) for number in numbers)]


_TYPES = {str: Text, int: Integer, float: Float, Any: Text}
_NOT_OF_A_SCORE = frozenset({
    *("run_id", "dataset", "index", "case_id", "group", "tags", "target", "target_repeat"),  # of its answer
    *("metric_version", "steps", "input_tokens", "output_tokens", "cached", "bill", "finished_at"),
})  # fmt: skip


def _score_columns() -> Iterator[Column[Any]]:
    """The fields of a score that the table has; a value of any type is JSON, and texts of fixed choices are short."""
    for name, hint in get_type_hints(ScoreRecord).items():
        if name not in _NOT_OF_A_SCORE:
            kind, *_ = [one for one in get_args(hint) if one is not NoneType] or [hint]
            is_nullable = hint is Any or NoneType in get_args(hint)
            yield Column(name, _TYPES.get(kind, String(10)), nullable=is_nullable)


projects = _definitions(
    "projects",
    Column("name", String(NAME), nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("budget", JSON, nullable=False),
)

bots = _definitions(
    "bots",
    _of_project(),
    Column("name", String(NAME), nullable=False),
    Column("description", Text, nullable=False),
    Column("config", JSON, nullable=False),
    UniqueConstraint("project_id", "name"),
)

metrics = _definitions(
    "metrics",
    Column("bot_id", Integer, ForeignKey("bots.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(NAME), nullable=False),
    Column("definition", JSON, nullable=False),
    Column("prompts", JSON, nullable=False),
    UniqueConstraint("bot_id", "name"),
)

datasets = _definitions(
    "datasets",
    _of_project(),
    Column("name", String(NAME), nullable=False),
    Column("description", Text, nullable=False),
    Column("generates", String(10), nullable=False),
    UniqueConstraint("project_id", "name"),
)

cases = Table(
    "cases",
    metadata,
    _id(),
    Column("dataset_id", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("body", JSON, nullable=False),
    _version(),
    _at("updated_at"),
    UniqueConstraint("dataset_id", "key"),
    UniqueConstraint("dataset_id", "position"),
)

case_tags = Table(
    "case_tags",
    metadata,
    Column("case_id", Integer, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("tag", Text, nullable=False),
    PrimaryKeyConstraint("case_id", "tag"),
    Index(None, "tag", "case_id"),
)

runs = Table(
    "runs",
    metadata,
    _id(),
    _of_project(),
    Column("run_id", String(NAME), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("bot_id", Integer, ForeignKey("bots.id", ondelete="SET NULL"), nullable=True),
    Column("bot", String(NAME), nullable=False),
    Column("state", String(20), nullable=False),
    Column("origin", String(20), nullable=False),
    Column("composition", JSON, nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("folder", Text, nullable=False),
    Column("task", String(20), nullable=False),
    Column("cancelling", Boolean, nullable=False),
    Column("progress", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("exit_code", Integer, nullable=True),
    Column("message", Text, nullable=False),
    Column("cost_usd", Float, nullable=True),
    Column("need", JSON, nullable=True),
    Column("loaded", Integer, nullable=False),
    Column("worker", String(NAME), nullable=True),
    Column("heartbeat", Float, nullable=True),
    Column("pid", Integer, nullable=True),
    Column("creation_key", String(NAME), nullable=True, unique=True),
    _version(),
    _at("created_at"),
    _at("started_at", nullable=True),
    _at("finished_at", nullable=True),
    Index(None, "state", "id"),
    Index(None, "bot_id", "id"),
    Index(None, "project_id", "id"),
)

answers = Table(
    "answers",
    metadata,
    *_of_run("position"),
    Column("dataset", Text, nullable=False),
    Column("case_id", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("target_repeat", Integer, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=True),
    Column("reference", Text, nullable=True),
    Column("error", Text, nullable=True),
    PrimaryKeyConstraint("run", "position"),
)

answer_tags = Table(
    "answer_tags",
    metadata,
    *_of_run("position"),
    Column("tag", Text, nullable=False),
    PrimaryKeyConstraint("run", "tag", "position"),
)

scores = Table(
    "scores",
    metadata,
    *_of_run("position", "n"),
    *_score_columns(),
    PrimaryKeyConstraint("run", "position", "n"),
    # Each index covers its filters, so that finding a page reads no rows that do not match.
    Index("ix_scores_by_metric", "run", "metric", "position", "n", "status", "score", "judge"),
    Index("ix_scores_by_status", "run", "status", "position", "n", "score", "metric", "judge"),
    Index("ix_scores_by_score", "run", "metric", "score", "position", "n", "judge"),
)

score_steps = Table(
    "score_steps",
    metadata,
    *_of_run("position", "n"),
    Column("steps", Text, nullable=False),
    PrimaryKeyConstraint("run", "position", "n"),
)

labels = Table(
    "labels",
    metadata,
    _id(),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("dataset", Text, nullable=True),
    Column("case_id", Text, nullable=False),
    Column("target", Text, nullable=True),
    Column("metric", Text, nullable=False),
    Column("value", JSON, nullable=False),
    Column("by", String(NAME), nullable=False),
    Column("answer_hash", String(NAME), nullable=True),
    Column("weight", Float, nullable=False),
    Column("comment", Text, nullable=True),
    Column("at", String(40), nullable=True),
    _version(),
    Index(None, "metric", "id"),
    Index(None, "run", "id"),
)

users = _definitions(
    "users",
    Column("name", String(NAME), nullable=False, unique=True),
    Column("full_name", Text, nullable=False),
    Column("email", String(320), nullable=True),
    Column("password_hash", Text, nullable=True),
    Column("is_owner", Boolean, nullable=False),
    Column("is_disabled", Boolean, nullable=False),
)

identities = Table(
    "identities",
    metadata,
    Column("issuer", String(500), nullable=False),
    Column("subject", String(500), nullable=False),
    _of_user(),
    PrimaryKeyConstraint("issuer", "subject"),
)

members = Table(
    "members",
    metadata,
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    _of_user(),
    Column("role", String(20), nullable=False),
    PrimaryKeyConstraint("project_id", "user_id"),
)

sessions = Table(
    "sessions",
    metadata,
    _id(),
    Column("key_hash", String(64), nullable=False, unique=True),
    _of_user(),
    Column("address", String(NAME), nullable=False),
    Column("agent", Text, nullable=False),
    _at("created_at"),
    _at("seen_at"),
    _at("expires_at"),
    Index(None, "user_id"),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("key_hash", String(64), nullable=False, unique=True),
    _of_user(),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("role", String(20), nullable=False),
    _at("created_at"),
    _at("used_at", nullable=True),
    _at("expires_at"),
    Index(None, "user_id"),
)

one_time_codes = Table(
    "one_time_codes",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("content", JSON, nullable=False),
    _at("expires_at"),
)

failed_sign_ins = Table(
    "failed_sign_ins",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("last_at", Float, nullable=False),
)

connections = _definitions(
    "connections",
    Column("name", String(NAME), nullable=False, unique=True),
    Column("address", Text, nullable=False),
    Column("api_key_env", String(NAME), nullable=True),
    Column("networks", JSON, nullable=False),
    Column("description", Text, nullable=False),
)

# Names and not keys of other tables: a row outlives the user, the project and the object that it is about.
audit = Table(
    "audit",
    metadata,
    _id(),
    _at("at"),
    Column("by", String(NAME), nullable=False),
    Column("address", String(NAME), nullable=False),
    Column("project", String(NAME), nullable=True),
    Column("action", String(40), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("name", Text, nullable=False),
    Column("fields", JSON, nullable=False),
    Index(None, "by", "id"),
    Index(None, "project", "id"),
)

spending = Table(
    "spending",
    metadata,
    _id(),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("month", String(7), nullable=False),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("source", String(NAME), nullable=False),
    Column("usd", Float, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("is_settled", Boolean, nullable=False),
    _at("at"),
    Index(None, "project_id", "month"),
    Index(None, "run", "id"),
)

creations = Table(
    "creations",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("request", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("headers", JSON, nullable=False),
    Column("body", LargeBinary, nullable=False),
    _at("at"),
    Index(None, "at"),
)


T = TypeVar("T")
Row = dict[str, Any]
"""A row by column name."""
Query = Select[*tuple[Any, ...]]
"""A SELECT of any columns."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def now() -> str:
    """The current time in the format of the tables."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def storable(text: str) -> str:
    """The text with characters replaced that no database stores: NUL and lone surrogates."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one(connection: Connection, query: Query) -> Row | None:
    """The first row, or None."""
    found = connection.execute(query).mappings().first()
    return None if found is None else dict(found)


def every(connection: Connection, query: Query) -> list[Row]:
    """All rows."""
    return [dict(row) for row in connection.execute(query).mappings()]


def from_row(kind: type[T], row: Mapping[str, Any], **others: Any) -> T:
    """A dataclass from the columns with its fields' names, and from other values."""
    names = (field.name for field in fields(kind))  # pyright: ignore[reportArgumentType]
    return kind(**{name: row[name] for name in names if name in row} | others)


def add(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row; returns its id."""
    key = connection.execute(insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return key[0]


def chunks(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """The rows in lists of at most `size`, since the number of parameters of a statement is limited."""
    waiting = iter(rows)
    while chunk := list(islice(waiting, size)):
        yield chunk


def upsert(connection: Connection, table: Table, *, is_replaced: bool = True) -> Insert:
    """An INSERT that replaces a row with the same primary key, or else keeps it."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table)
    key = list(table.primary_key)
    others = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    if not is_replaced or not others:
        return statement.on_conflict_do_nothing(index_elements=key)
    return statement.on_conflict_do_update(index_elements=key, set_=others)


def add_many(connection: Connection, statement: Insert, rows: Sequence[Row]) -> None:
    """Insert many rows of plain texts and numbers, without JSON.

    This skips SQLAlchemy's processing of each value, which takes longer than inserting a short row.
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

"""The metadata of the tables, and the columns that many of them have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

NAME = 200
"""Characters of a name."""
INTEGER_END, BIG_INTEGER_END = 2**31, 2**63
"""The numbers of an Integer column are smaller than the first, those of a BigInteger column than the second. PostgreSQL
fails when it compares a column with a number that the column cannot hold."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def row_id() -> Column[int]:
    """The key of a row."""
    return Column("id", Integer, primary_key=True, autoincrement=True)


def row_version() -> Column[int]:
    """Counts the changes of a row, so that nobody overwrites a change they have not seen."""
    return Column("version", Integer, nullable=False)


def moment(name: str, *, nullable: bool = False) -> Column[str]:
    """A time in the format of `rows.now`."""
    return Column(name, String(40), nullable=nullable)


def columns(kind: type[TypeEngine[Any]] | TypeEngine[Any], *names: str, nullable: bool = False) -> list[Column[Any]]:
    """Columns of one type."""
    return [Column(name, kind, nullable=nullable) for name in names]


def definition_table(name: str, *items: SchemaItem) -> Table:
    """A table of definitions: rows with a version."""
    return Table(name, metadata, row_id(), *items, row_version(), moment("created_at"), moment("updated_at"))


def named_table(name: str, *others: Column[Any]) -> Table:
    """A table of definitions that have a name in a project."""
    about = Column("name", String(NAME), nullable=False), *columns(Text, "title", "description")
    return definition_table(name, of_project(), *about, *others, UniqueConstraint("project_id", "name"))


def of_project() -> Column[int]:
    """The project that owns a row."""
    return Column("project_id", Integer, ForeignKey("projects.id"), nullable=False)


def of_user() -> Column[int]:
    """The user who owns a row; deleting the user deletes it."""
    return Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False)


def of_run(*numbers: str) -> list[Column[Any]]:
    """The run that owns a row (deleting the run deletes it), and numbers within the run."""
    run = Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False)
    return [run, *columns(Integer, *numbers)]


def of_review() -> list[Column[Any]]:
    """The review that owns a row (deleting the review deletes it), and the item's number."""
    review = Column("review_id", Integer, ForeignKey("reviews.id", ondelete="CASCADE"), nullable=False)
    return [review, Column("item", Integer, nullable=False)]

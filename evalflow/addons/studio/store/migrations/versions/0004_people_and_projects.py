"""People, projects and what they own. What was there before belongs to the project `default`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and move bots, datasets and runs to the project `default`."""
    projects = op.create_table(
        "projects",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        *_versioned(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    first: dict[str, Any] = {"name": "default", "description": "", "budget": {}, "version": 1}
    op.bulk_insert(projects, [{**first, "created_at": now, "updated_at": now}])
    for table in ("bots", "datasets", "runs"):
        _move_to_project(table)
    _create_people()
    _create_keys()
    _create_records()


def _versioned() -> Iterator[sa.Column[Any]]:
    yield sa.Column("version", sa.Integer(), nullable=False)
    for name in ("created_at", "updated_at"):
        yield sa.Column(name, sa.String(40), nullable=False)


def _move_to_project(table: str) -> None:
    op.add_column(table, sa.Column("project_id", sa.Integer(), nullable=True))
    op.execute(sa.text(f"UPDATE {table} SET project_id = (SELECT id FROM projects)"))  # noqa: S608 - our own names
    with op.batch_alter_table(table) as batch:
        batch.alter_column("project_id", existing_type=sa.Integer(), nullable=False)
        batch.create_foreign_key(op.f(f"fk_{table}_project_id"), "projects", ["project_id"], ["id"])
        if table == "runs":
            batch.create_index(op.f("ix_runs_project_id_id"), ["project_id", "id"])
        else:
            batch.drop_constraint(op.f(f"uq_{table}_name"), type_="unique")
            batch.create_unique_constraint(op.f(f"uq_{table}_project_id_name"), ["project_id", "name"])


def _of(table: str, name: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint]:
    """A column that refers to `projects` or `users`, and its key; `table` is the one that has the column."""
    column = f"{name}_id"
    key = sa.ForeignKeyConstraint([column], [f"{name}s.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE")
    return sa.Column(column, sa.Integer(), nullable=False), key


def _create_people() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("full_name", sa.Text(), nullable=False),
        sa.Column("email", sa.String(320), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("is_owner", sa.Boolean(), nullable=False),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        *_versioned(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(500), nullable=False),
        sa.Column("subject", sa.String(500), nullable=False),
        *_of("identities", "user"),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_table(
        "members",
        *_of("members", "project"),
        *_of("members", "user"),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", name=op.f("pk_members")),
    )


def _create_keys() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        *_of("sessions", "user"),
        sa.Column("address", sa.String(200), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("seen_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_sessions_key_hash")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        *_of("tokens", "user"),
        *_of("tokens", "project"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("used_at", sa.String(40), nullable=True),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_tokens_key_hash")),
    )
    for table in ("sessions", "tokens"):
        op.create_index(op.f(f"ix_{table}_user_id"), table, ["user_id"])
    op.create_table(
        "one_time_codes",
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name=op.f("pk_one_time_codes")),
    )
    op.create_table(
        "failed_sign_ins",
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name=op.f("pk_failed_sign_ins")),
    )


def _create_records() -> None:
    op.create_table(
        "connections",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("api_key_env", sa.String(200), nullable=True),
        sa.Column("networks", sa.JSON(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        *_versioned(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
        sa.UniqueConstraint("name", name=op.f("uq_connections_name")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("address", sa.String(200), nullable=False),
        sa.Column("project", sa.String(200), nullable=True),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    for column in ("by", "project"):
        op.create_index(op.f(f"ix_audit_{column}_id"), "audit", [column, "id"])
    op.create_table(
        "spending",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        *_of("spending", "project"),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("run", sa.Integer(), nullable=True),
        sa.Column("source", sa.String(200), nullable=False),
        sa.Column("usd", sa.Float(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("is_settled", sa.Boolean(), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_spending_run"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spending")),
    )
    op.create_index(op.f("ix_spending_project_id_month"), "spending", ["project_id", "month"])
    op.create_index(op.f("ix_spending_run_id"), "spending", ["run", "id"])
    op.add_column("runs", sa.Column("need", sa.JSON(), nullable=True))

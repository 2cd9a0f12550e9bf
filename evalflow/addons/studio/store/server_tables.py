"""The tables of people, projects, access, and the audit."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from evalflow.addons.studio.store.schema import NAME, columns, definition_table, metadata, moment, of_user, row_id

users = definition_table(
    "users",
    Column("name", String(NAME), nullable=False, unique=True),
    Column("full_name", Text, nullable=False),
    Column("email", String(320), nullable=True),
    *columns(Boolean, "is_owner", "is_disabled"),
    Column("stays_signed_in", Boolean, nullable=False, default=False),
)

identities = Table(
    "identities",
    metadata,
    *columns(String(500), "issuer", "subject"),
    of_user(),
    PrimaryKeyConstraint("issuer", "subject"),
)

members = Table(
    "members",
    metadata,
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    of_user(),
    Column("role", String(20), nullable=False),
    PrimaryKeyConstraint("project_id", "user_id"),
)

sessions = Table(
    "sessions",
    metadata,
    row_id(),
    Column("key_hash", String(64), nullable=False, unique=True),
    of_user(),
    Column("address", String(NAME), nullable=False),
    Column("agent", Text, nullable=False),
    moment("created_at"),
    moment("seen_at"),
    moment("confirmed_at"),
    moment("expires_at"),
    Index(None, "user_id"),
)

passkeys = Table(
    "passkeys",
    metadata,
    row_id(),
    Column("credential", String(1400), nullable=False, unique=True),
    of_user(),
    Column("public_key", Text, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    moment("created_at"),
    moment("used_at", nullable=True),
    Index(None, "user_id"),
)

tokens = Table(
    "tokens",
    metadata,
    row_id(),
    Column("key_hash", String(64), nullable=False, unique=True),
    of_user(),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("role", String(20), nullable=False),
    moment("created_at"),
    moment("used_at", nullable=True),
    moment("expires_at"),
    Index(None, "user_id"),
)

one_time_codes = Table(
    "one_time_codes",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("content", JSON, nullable=False),
    moment("expires_at"),
)

failed_sign_ins = Table(
    "failed_sign_ins",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("last_at", Float, nullable=False),
)

connections = definition_table(
    "connections",
    Column("name", String(NAME), nullable=False, unique=True),
    Column("address", Text, nullable=False),
    Column("api_key_env", String(NAME), nullable=True),
    Column("networks", JSON, nullable=False),
    Column("description", Text, nullable=False),
)

# Names instead of foreign keys: a row outlives the user, the project and the object that it is about.
audit = Table(
    "audit",
    metadata,
    row_id(),
    moment("at"),
    *columns(String(NAME), "by", "address"),
    Column("project", String(NAME), nullable=True),
    *columns(String(40), "action", "kind"),
    Column("name", Text, nullable=False),
    Column("fields", JSON, nullable=False),
    Index(None, "by", "id"),
    Index(None, "project", "id"),
)

spending = Table(
    "spending",
    metadata,
    row_id(),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("month", String(7), nullable=False),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("source", String(NAME), nullable=False),
    Column("usd", Float, nullable=False),
    *columns(BigInteger, "requests", "tokens"),
    Column("is_settled", Boolean, nullable=False),
    moment("at"),
    Index(None, "project_id", "month"),
    Index(None, "run", "id"),
)

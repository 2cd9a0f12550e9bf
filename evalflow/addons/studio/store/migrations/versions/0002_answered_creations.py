"""Stored responses to creations, by idempotency key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of stored responses."""
    op.create_table(
        "creations",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_creations")),
    )
    with op.batch_alter_table("creations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_creations_at"), ["at"], unique=False)

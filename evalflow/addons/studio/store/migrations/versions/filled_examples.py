"""Add the number of answer examples that a run has filled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "filled_examples"
down_revision = "first"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add `runs.filled_examples`, empty for the runs so far."""
    op.add_column("runs", sa.Column("filled_examples", sa.Integer(), nullable=True))

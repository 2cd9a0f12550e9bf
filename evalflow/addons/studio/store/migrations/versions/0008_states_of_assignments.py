"""An index of the states of assignments, so that the few that were given up are found without reading all."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index(op.f("ix_assignments_review_id_state"), "assignments", ["review_id", "state"])

"""The index of scores by value has the judge too, so that what passes is counted without reading the rows."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the index."""
    op.drop_index("ix_scores_by_score", "scores")
    op.create_index("ix_scores_by_score", "scores", ["run", "metric", "score", "position", "n", "judge"])

"""The first revision. It does nothing: a new database is created from `tables`, at the newest revision."""

from __future__ import annotations

revision = "first"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing."""

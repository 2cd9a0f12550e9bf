"""The first tables. A new database is made from `tables` and gets the newest revision, so that nothing is done here."""

from __future__ import annotations

revision = "first"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing."""

"""Titles as people type them, beside the names of bots, metrics, datasets, judges and projects."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
_TITLED = {"bot": "bots", "metric": "metrics", "dataset": "datasets", "judge": "judges", "project": "projects"}


def upgrade() -> None:
    """Add the columns; what there is has its name as its title, also in the trash."""
    for table in _TITLED.values():
        op.add_column(table, sa.Column("title", sa.Text(), nullable=False, server_default=""))
        named = sa.table(table, sa.column("name"), sa.column("title"))
        op.execute(sa.update(named).values(title=named.c.name))
    connection = op.get_bind()
    trash = sa.table("trash", sa.column("id"), sa.column("kind"), sa.column("content", sa.JSON()))
    for row in connection.scalars(sa.select(trash.c.id).where(trash.c.kind.in_(_TITLED))).all():
        content = connection.scalar(sa.select(trash.c.content).where(trash.c.id == row))  # it may be large
        if content and "row" in content:  # it is empty once it was brought back
            connection.execute(sa.update(trash).where(trash.c.id == row).values(content=_titled(content)))


def _titled(content: dict[str, Any]) -> dict[str, Any]:
    made = {**content, "row": {**content["row"], "title": content["row"]["name"]}}
    if "metrics" in content:
        made["metrics"] = [{**metric, "title": metric["name"]} for metric in content["metrics"]]
    return made

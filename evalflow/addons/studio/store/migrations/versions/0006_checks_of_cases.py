"""Which checks each case names and whether it has an answer example, so that both are found without reading bodies."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
_AT_ONCE = 500


def upgrade() -> None:
    """Create the table and the column, and fill them from the bodies of the cases."""
    op.create_table(
        "case_checks",
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_case_checks_case_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("case_id", "name", name=op.f("pk_case_checks")),
    )
    op.create_index(op.f("ix_case_checks_name_case_id"), "case_checks", ["name", "case_id"])
    # With a default the large table need not be copied.
    op.add_column("cases", sa.Column("has_example", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index(op.f("ix_cases_dataset_id_has_example"), "cases", ["dataset_id", "has_example"])
    _fill()


def _fill() -> None:
    connection, last = op.get_bind(), 0
    cases = sa.table("cases", sa.column("id"), sa.column("body", sa.JSON()), sa.column("has_example"))
    checks = sa.table("case_checks", sa.column("case_id"), sa.column("name"), sa.column("is_enabled"))
    query = sa.select(cases.c.id, cases.c.body).order_by(cases.c.id).limit(_AT_ONCE)
    while found := connection.execute(query.where(cases.c.id > last)).all():
        last = found[-1][0]
        named = [one for case, body in found for one in _named(case, body)]
        if named:
            connection.execute(sa.insert(checks), named)
        shown = [case for case, body in found if body.get("demo_answer") is not None]
        if shown:
            connection.execute(sa.update(cases).where(cases.c.id.in_(shown)).values(has_example=sa.true()))


def _named(case: int, body: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, bool] = {}
    for check in body.get("checks") or ():
        name = str(check["identifier"])
        found[name] = found.get(name, False) or bool(check.get("enabled", True))
    return [{"case_id": case, "name": name, "is_enabled": enabled} for name, enabled in found.items()]

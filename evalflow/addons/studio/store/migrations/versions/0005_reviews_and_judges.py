"""Reviews by people, tasks, comments, exclusions; judges and checks of a project; drafts; what was deleted."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables; labels belong to the project `default` and are blind, cases are no drafts."""
    _create_reviews()
    _create_talk()
    _create_definitions()
    op.add_column("cases", sa.Column("is_draft", sa.Boolean(), nullable=True))
    op.execute(sa.update(sa.table("cases", sa.column("is_draft"))).values(is_draft=sa.false()))
    with op.batch_alter_table("cases") as batch:
        batch.alter_column("is_draft", existing_type=sa.Boolean(), nullable=False)
    _extend_labels()


def _text(name: str, length: int | None = None, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length) if length else sa.Text(), nullable=nullable)


def _json(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.JSON(), nullable=False) for name in names]


def _number(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _of_answer() -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=True) for name in ("run", "position")]


def _of(table: str, column: str, others: str, deleted: str | None = None) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{others}.id"], name=op.f(f"fk_{table}_{column}"), ondelete=deleted)


def _of_project(table: str, *columns: sa.Column[Any], versioned: bool = True) -> list[Any]:
    """A table of the project's rows with an id, and with a version and times if `versioned`."""
    times = [*_number("version"), _text("created_at", 40), _text("updated_at", 40)] if versioned else []
    return [
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        *_number("project_id"),
        *columns,
        *times,
        _of(table, "project_id", "projects"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    ]


def _named(table: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint("project_id", "name", name=op.f(f"uq_{table}_project_id_name"))


def _create_reviews() -> None:
    op.create_table(
        "reviews",
        *_of_project(
            "reviews",
            *(_text("name", 200), sa.Column("run", sa.Integer(), nullable=True), _text("run_id", 200)),
            *(_text("state", 20), *_json("metrics", "draw", "people", "shown", "guidelines"), _text("created_by", 200)),
        ),
        _of("reviews", "run", "runs", "SET NULL"),
        _named("reviews"),
    )
    op.create_table(
        "review_items",
        *(*_number("review_id", "item"), sa.Column("position", sa.Integer(), nullable=True)),
        *(_text("dataset"), _text("case_id"), _text("target"), *_number("target_repeat"), _text("answer_hash", 200)),
        *(_text("group"), _text("stratum"), sa.Column("pi", sa.Float(), nullable=False), *_number("wanted")),
        *_json("content"),
        _of("review_items", "review_id", "reviews", "CASCADE"),
        sa.PrimaryKeyConstraint("review_id", "item", name=op.f("pk_review_items")),
    )
    op.create_table(
        "assignments",
        *(*_number("review_id", "item"), _text("by", 200), _text("state", 20)),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("expires_at", "opened_at", "seconds")),
        *(*_json("draft"), sa.Column("is_flagged", sa.Boolean(), nullable=False)),
        _of("assignments", "review_id", "reviews", "CASCADE"),
        sa.PrimaryKeyConstraint("review_id", "item", "by", name=op.f("pk_assignments")),
    )
    op.create_index(op.f("ix_assignments_review_id_by_state"), "assignments", ["review_id", "by", "state"])


def _create_talk() -> None:
    """Tasks, comments, exclusions and views of runs."""
    op.create_table(
        "tasks",
        *_of_project(
            "tasks",
            *(_text("title"), _text("description"), _text("cause", 20), _text("status", 20), _text("priority", 20)),
            *(
                *_json("assignees", "example"),
                *_of_answer(),
                *(_text(name, nullable=True) for name in ("dataset", "case_id", "metric")),
            ),
            _text("created_by", 200),
        ),
        _of("tasks", "run", "runs", "SET NULL"),
    )
    op.create_index(op.f("ix_tasks_project_id_status_id"), "tasks", ["project_id", "status", "id"])
    op.create_table(
        "comments",
        *_of_project(
            "comments",
            sa.Column("task_id", sa.Integer(), nullable=True),
            *_of_answer(),
            *(_text("metric", nullable=True), _text("text"), _text("by", 200), _text("at", 40)),
            versioned=False,
        ),
        _of("comments", "task_id", "tasks", "CASCADE"),
        _of("comments", "run", "runs", "CASCADE"),
    )
    op.create_index(op.f("ix_comments_task_id_id"), "comments", ["task_id", "id"])
    op.create_index(op.f("ix_comments_run_position"), "comments", ["run", "position"])
    op.create_table(
        "exclusions",
        *(*_number("run", "position"), _text("metric"), _text("reason"), _text("by", 200), _text("at", 40)),
        _of("exclusions", "run", "runs", "CASCADE"),
        sa.PrimaryKeyConstraint("run", "position", "metric", name=op.f("pk_exclusions")),
    )
    op.create_table(
        "run_views",
        *(*_number("run"), _text("by", 200), _text("at", 40)),
        _of("run_views", "run", "runs", "CASCADE"),
        sa.PrimaryKeyConstraint("run", "by", name=op.f("pk_run_views")),
    )


def _create_definitions() -> None:
    judges = (_text("name", 200), _text("description"), *_json("config"))
    op.create_table("judges", *_of_project("judges", *judges), _named("judges"))
    checks = (_text("name", 200), _text("title"), _text("description"), _text("type", 40), *_json("params", "examples"))
    op.create_table("checks", *_of_project("checks", *checks), _named("checks"))
    trash = (_text("kind", 40), _text("name"), *_json("content"), _text("by", 200), _text("at", 40))
    op.create_table("trash", *_of_project("trash", *trash, versioned=False))


def _extend_labels() -> None:
    for column in (
        sa.Column("project_id", sa.Integer(), nullable=True),
        *(sa.Column(name, sa.Integer(), nullable=True) for name in ("review_id", "item", "target_repeat", "rubric")),
        *(_text("missing", 20, nullable=True), _text("kind", 20, nullable=True)),
        *(sa.Column(name, sa.Boolean(), nullable=True) for name in ("blind", "seen_before")),
        sa.Column("seconds", sa.Float(), nullable=True),
    ):
        op.add_column("labels", column)
    first = "UPDATE labels SET project_id = (SELECT id FROM projects WHERE name = 'default')"
    op.execute(sa.text(first))
    labels = sa.table("labels", sa.column("kind"), sa.column("blind"), sa.column("seen_before"))
    op.execute(sa.update(labels).values(kind="label", blind=sa.true(), seen_before=sa.false()))
    with op.batch_alter_table("labels") as batch:
        batch.alter_column("value", existing_type=sa.JSON(), nullable=True)
        batch.alter_column("project_id", existing_type=sa.Integer(), nullable=False)
        batch.alter_column("kind", existing_type=sa.String(20), nullable=False)
        for name in ("blind", "seen_before"):
            batch.alter_column(name, existing_type=sa.Boolean(), nullable=False)
        batch.create_foreign_key(op.f("fk_labels_project_id"), "projects", ["project_id"], ["id"])
        batch.create_foreign_key(op.f("fk_labels_review_id"), "reviews", ["review_id"], ["id"], ondelete="CASCADE")
        batch.create_index(op.f("ix_labels_review_id_item"), ["review_id", "item"])

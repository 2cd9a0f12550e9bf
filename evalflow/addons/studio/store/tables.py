"""The tables of what is evaluated, scored and labelled. A test checks that `migrations/` creates the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from evalflow.addons.studio.store.schema import (
    NAME,
    columns,
    definition_table,
    metadata,
    moment,
    named_table,
    of_project,
    of_review,
    of_run,
    row_id,
    row_version,
)
from evalflow.records import ScoreRecord

_TYPES: Mapping[object, type[TypeEngine[Any]]] = {str: Text, int: Integer, float: Float, object: Text}
_NOT_OF_A_SCORE = frozenset(
    {
        *("run_id", "dataset", "index", "case_id", "group", "tags", "target", "target_repeat"),  # belong to the answer
        *("finish_reason", "extracted"),  # so do these
        *("metric_version", "steps", "input_tokens", "output_tokens", "cached", "bill", "finished_at", "remedy"),
    }
)


def _score_columns() -> Iterator[Column[Any]]:
    """The columns for a score's fields: JSON for values of any type, short texts for fixed choices."""
    for name, hint in get_type_hints(ScoreRecord).items():
        if name not in _NOT_OF_A_SCORE:
            kind, *_ = [choice for choice in get_args(hint) if choice is not NoneType] or [hint]
            is_nullable = hint is object or NoneType in get_args(hint)
            is_choice = isinstance(kind, str) or get_origin(kind) is Literal
            yield Column(name, String(10) if is_choice else _TYPES[kind], nullable=is_nullable)


projects = definition_table(
    "projects",
    Column("name", String(NAME), nullable=False, unique=True),
    *columns(Text, "title", "description"),
    Column("budget", JSON, nullable=False),
)

bots = named_table(
    "bots",
    Column("config", JSON, nullable=False),
)

metrics = definition_table(
    "metrics",
    Column("bot_id", Integer, ForeignKey("bots.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(NAME), nullable=False),
    Column("title", Text, nullable=False),
    *columns(JSON, "definition", "prompts"),
    UniqueConstraint("bot_id", "name"),
)

datasets = named_table(
    "datasets",
    Column("generates", String(10), nullable=False),
)

cases = Table(
    "cases",
    metadata,
    row_id(),
    Column("dataset_id", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("position", BigInteger, nullable=False),
    *columns(Text, "key", "question"),
    Column("body", JSON, nullable=False),
    Column("is_draft", Boolean, nullable=False),
    row_version(),
    moment("updated_at"),
    Column("has_example", Boolean, nullable=False),
    UniqueConstraint("dataset_id", "key"),
    UniqueConstraint("dataset_id", "position"),
    Index(None, "dataset_id", "has_example"),
)

case_tags = Table(
    "case_tags",
    metadata,
    Column("case_id", Integer, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("tag", Text, nullable=False),
    PrimaryKeyConstraint("case_id", "tag"),
    Index(None, "tag", "case_id"),
)

# The checks that a case names. A check that it names repeatedly is enabled if any of its uses is.
case_checks = Table(
    "case_checks",
    metadata,
    Column("case_id", Integer, ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("is_enabled", Boolean, nullable=False),
    PrimaryKeyConstraint("case_id", "name"),
    Index(None, "name", "case_id"),
)

runs = Table(
    "runs",
    metadata,
    row_id(),
    of_project(),
    Column("run_id", String(NAME), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("bot_id", Integer, ForeignKey("bots.id", ondelete="SET NULL"), nullable=True),
    Column("bot", String(NAME), nullable=False),
    *columns(String(20), "state", "origin"),
    *columns(JSON, "composition", "arguments"),
    Column("folder", Text, nullable=False),
    Column("task", String(20), nullable=False),
    Column("cancelling", Boolean, nullable=False),
    *columns(JSON, "progress", "facts"),
    Column("exit_code", Integer, nullable=True),
    Column("message", Text, nullable=False),
    Column("cost_usd", Float, nullable=True),
    Column("need", JSON, nullable=True),
    Column("loaded", Integer, nullable=False),
    Column("filled_examples", Integer, nullable=True),
    Column("worker", String(NAME), nullable=True),
    Column("heartbeat", Float, nullable=True),
    Column("pid", Integer, nullable=True),
    Column("creation_key", String(NAME), nullable=True, unique=True),
    Column("created_by", String(NAME), nullable=False, default=""),
    row_version(),
    moment("created_at"),
    moment("started_at", nullable=True),
    moment("finished_at", nullable=True),
    Index(None, "state", "id"),
    Index(None, "bot_id", "id"),
    Index(None, "project_id", "id"),
)

answers = Table(
    "answers",
    metadata,
    *of_run("position"),
    *columns(Text, "dataset", "case_id", "target"),
    Column("target_repeat", Integer, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("question", Text, nullable=False),
    *columns(Text, "answer", "reference", "error", nullable=True),
    PrimaryKeyConstraint("run", "position"),
)

answer_tags = Table(
    "answer_tags",
    metadata,
    *of_run("position"),
    Column("tag", Text, nullable=False),
    PrimaryKeyConstraint("run", "tag", "position"),
)

scores = Table(
    "scores",
    metadata,
    *of_run("position", "n"),
    *_score_columns(),
    PrimaryKeyConstraint("run", "position", "n"),
    # Each index covers its filters, so that finding a page reads matching rows only.
    Index("ix_scores_by_metric", "run", "metric", "position", "n", "status", "score", "judge"),
    Index("ix_scores_by_status", "run", "status", "position", "n", "score", "metric", "judge"),
    Index("ix_scores_by_score", "run", "metric", "score", "position", "n", "judge"),
)

score_steps = Table(
    "score_steps",
    metadata,
    *of_run("position", "n"),
    Column("steps", Text, nullable=False),
    PrimaryKeyConstraint("run", "position", "n"),
)

labels = Table(
    "labels",
    metadata,
    row_id(),
    of_project(),
    Column("review_id", Integer, ForeignKey("reviews.id", ondelete="CASCADE"), nullable=True),
    Column("item", Integer, nullable=True),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("dataset", Text, nullable=True),
    Column("case_id", Text, nullable=False),
    Column("target", Text, nullable=True),
    Column("target_repeat", Integer, nullable=True),
    Column("metric", Text, nullable=False),
    Column("value", JSON, nullable=True),
    Column("missing", String(20), nullable=True),
    Column("by", String(NAME), nullable=False),
    Column("answer_hash", String(NAME), nullable=True),
    Column("weight", Float, nullable=False),
    Column("comment", Text, nullable=True),
    Column("kind", String(20), nullable=False),
    *columns(Boolean, "blind", "seen_before"),
    Column("rubric", Integer, nullable=True),
    Column("seconds", Float, nullable=True),
    Column("at", String(40), nullable=True),
    row_version(),
    Index(None, "metric", "id"),
    Index(None, "run", "id"),
    Index(None, "review_id", "item"),
)

reviews = definition_table(
    "reviews",
    of_project(),
    Column("name", String(NAME), nullable=False),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("run_id", String(NAME), nullable=False),
    Column("state", String(20), nullable=False),
    *columns(JSON, "metrics", "draw", "people", "shown", "guidelines"),
    Column("created_by", String(NAME), nullable=False),
    UniqueConstraint("project_id", "name"),
)

review_items = Table(
    "review_items",
    metadata,
    *of_review(),
    Column("position", Integer, nullable=True),
    *columns(Text, "dataset", "case_id", "target"),
    Column("target_repeat", Integer, nullable=False),
    Column("answer_hash", String(NAME), nullable=False),
    *columns(Text, "group", "stratum"),
    Column("pi", Float, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("content", JSON, nullable=False),
    PrimaryKeyConstraint("review_id", "item"),
)

assignments = Table(
    "assignments",
    metadata,
    *of_review(),
    Column("by", String(NAME), nullable=False),
    Column("state", String(20), nullable=False),
    *columns(Float, "expires_at", "opened_at", "seconds"),
    Column("draft", JSON, nullable=False),
    Column("is_flagged", Boolean, nullable=False),
    PrimaryKeyConstraint("review_id", "item", "by"),
    Index(None, "review_id", "by", "state"),
    Index(None, "review_id", "state"),
)

tasks = definition_table(
    "tasks",
    of_project(),
    *columns(Text, "title", "description"),
    *columns(String(20), "cause", "status", "priority"),
    *columns(JSON, "assignees", "example"),
    Column("run", Integer, ForeignKey("runs.id", ondelete="SET NULL"), nullable=True),
    Column("position", Integer, nullable=True),
    *columns(Text, "dataset", "case_id", "metric", nullable=True),
    Column("created_by", String(NAME), nullable=False),
    Index(None, "project_id", "status", "id"),
)

# A comment is on a task, or on an answer of a run: on one of its scores if `metric` is given.
comments = Table(
    "comments",
    metadata,
    row_id(),
    of_project(),
    Column("task_id", Integer, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=True),
    Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), nullable=True),
    Column("position", Integer, nullable=True),
    Column("metric", Text, nullable=True),
    Column("text", Text, nullable=False),
    Column("by", String(NAME), nullable=False),
    moment("at"),
    Index(None, "task_id", "id"),
    Index(None, "run", "position"),
)

exclusions = Table(
    "exclusions",
    metadata,
    *of_run("position"),
    *columns(Text, "metric", "reason"),
    Column("by", String(NAME), nullable=False),
    moment("at"),
    PrimaryKeyConstraint("run", "position", "metric"),
)

# Who opened a run's results, and so may have seen the judge's scores before labelling its answers.
run_views = Table(
    "run_views",
    metadata,
    *of_run(),
    Column("by", String(NAME), nullable=False),
    moment("at"),
    PrimaryKeyConstraint("run", "by"),
)

judges = named_table(
    "judges",
    Column("config", JSON, nullable=False),
)

checks = named_table(
    "checks",
    Column("type", String(40), nullable=False),
    *columns(JSON, "params", "examples"),
)

# Deleted things that can be restored.
trash = Table(
    "trash",
    metadata,
    row_id(),
    of_project(),
    Column("kind", String(40), nullable=False),
    Column("name", Text, nullable=False),
    Column("content", JSON, nullable=False),
    Column("by", String(NAME), nullable=False),
    moment("at"),
)

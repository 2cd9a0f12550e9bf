"""Where connections are used."""

from __future__ import annotations

from sqlalchemy import Connection, literal, select

from evalflow.store.rows import Row, every
from evalflow.store.tables import bots, judges, metrics, projects, runs


def configurations(connection: Connection) -> list[Row]:
    """All that may name a connection or an address, of all projects: bots, metrics, judges and queued runs.

    Each with project, kind, name, `bot` (its own name, or that of the bot it belongs to) and `content`.
    """
    project = projects.c.name.label("project")
    of_bots = select(project, literal("bot").label("kind"), bots.c.name, bots.c.name.label("bot"))
    of_metrics = select(project, literal("metric").label("kind"), metrics.c.name, bots.c.name.label("bot"))
    of_judges = select(project, literal("judge").label("kind"), judges.c.name, judges.c.name.label("bot"))
    of_runs = select(project, literal("run").label("kind"), runs.c.run_id.label("name"), runs.c.bot)
    queries = (
        of_bots.add_columns(bots.c.config.label("content")).select_from(bots),
        of_metrics.add_columns(metrics.c.definition.label("content")).select_from(metrics.join(bots)),
        of_judges.add_columns(judges.c.config.label("content")).select_from(judges),
        of_runs.add_columns(runs.c.composition.label("content")).select_from(runs).where(runs.c.state == "queued"),
    )
    owners = (bots.c.project_id, bots.c.project_id, judges.c.project_id, runs.c.project_id)
    return [
        row
        for query, owner in zip(queries, owners, strict=True)
        for row in every(connection, query.join(projects, projects.c.id == owner))
    ]

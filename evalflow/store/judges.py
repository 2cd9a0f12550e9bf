"""Where judges are used."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from evalflow.store.tables import runs


def runs_by_judge(connection: Connection, project: int) -> dict[str, int]:
    """The number of runs of a project by the judge that they chose."""
    judge = runs.c.composition["judge"].as_string().label("judge")
    query = select(judge, func.count()).where(runs.c.project_id == project).group_by(judge)
    return {row[0]: row[1] for row in connection.execute(query) if row[0]}

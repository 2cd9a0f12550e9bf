"""Figures of the whole server for monitoring: counts, times and cost, without names or texts of what is evaluated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from evalflow.addons.studio.store import Database, people, runs
from evalflow.addons.studio.work.access import ForbiddenError, requires
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """Figures of all stored runs, of every project.

    Attributes:
        runs: How many there are by state; those in state `queued` are the queue.
        oldest_s: Seconds since the oldest run in the queue was created; 0 without any.
        silence_s: Seconds since the last heartbeat of each worker that has a run.
        scores: Finished scores by status.
        failed_answers: Answers in state error.
        calls: Requests that judges and bots answered.
        cost_usd: What they cost, as far as prices are known.
    """

    runs: Mapping[str, int]
    oldest_s: float
    silence_s: Mapping[str, float]
    scores: Mapping[str, int]
    failed_answers: int
    calls: int
    cost_usd: float


def server_figures(database: Database) -> ServerFigures:
    """The figures as they are now. Raises InfrastructureError if the database does not answer."""
    with database.reading() as connection:
        states, totals = runs.states(connection), runs.totals(connection)
        oldest, heartbeats = runs.oldest_queued(connection), runs.heartbeats(connection)
    waited_s = (datetime.now(UTC) - datetime.fromisoformat(oldest)).total_seconds() if oldest else 0.0
    return ServerFigures(
        runs=states,
        oldest_s=max(waited_s, 0.0),
        silence_s={worker: max(time.time() - at, 0.0) for worker, at in heartbeats.items()},
        scores={status: int(totals[status]) for status in runs.STATUSES},
        failed_answers=int(totals["failed_answers"]),
        calls=int(totals["calls"]),
        cost_usd=totals["cost_usd"],
    )


@requires("account")
def expect_owner(space: Workspace) -> None:
    """Check that the person owns the server; a token of the owner needs the role admin."""
    actor = space.identify()
    if actor.is_owner:
        return
    user = space.read(people.user, actor.name)
    if user is None or not user.is_owner or "admin" not in actor.roles.values():
        raise ForbiddenError(Problem("only the owner of this server may do this", hint="ask the owner of this server"))

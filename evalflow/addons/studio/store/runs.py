"""Runs and their workers. Each change of state is one UPDATE that checks the state before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Connection, case, delete, func, not_, or_, select, true, update

from evalflow.addons.studio.store.rows import add, every_as, now, one_as
from evalflow.addons.studio.store.tables import runs

State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Task = Literal["run", "resume", "retry", "load"]
"""A worker's task: start the run, resume it, retry its errors, or only load its scores."""
ENDED = ("done", "failed", "cancelled", "interrupted")


@dataclass(frozen=True)
class StoredRun:
    """A row of the table of runs; see `work.runs.Run` for what the columns mean."""

    id: int
    project_id: int
    run_id: str
    title: str
    bot_id: int | None
    bot: str
    state: State
    origin: str
    composition: Mapping[str, Any]
    arguments: Sequence[str]
    folder: str
    task: Task
    cancelling: bool
    progress: Mapping[str, Any]
    facts: Mapping[str, Any]
    exit_code: int | None
    message: str
    cost_usd: float | None
    need: Mapping[str, Any] | None
    loaded: int
    filled_examples: int | None
    worker: str | None
    heartbeat: float | None
    pid: int | None
    creation_key: str | None
    created_by: str
    version: int
    created_at: str
    started_at: str | None
    finished_at: str | None

    @property
    def path(self) -> Path:
        """The run's folder; the row has it relative to the workspace, which may be moved, and is worked in."""
        return Path(self.folder).absolute()


def create(connection: Connection, values: Mapping[str, Any]) -> int:
    """Create a run; returns its row's id."""
    blank: dict[str, Any] = {
        "task": "run",
        "cancelling": False,
        "progress": {},
        "facts": {},
        "message": "",
        "loaded": 0,
        "version": 1,
        "created_at": now(),
    }
    return add(connection, runs, {**blank, **values})


def get(connection: Connection, run_id: str) -> StoredRun | None:
    """The run with that id."""
    return one_as(StoredRun, connection, select(runs).where(runs.c.run_id == run_id))


def by_key(connection: Connection, key: str) -> StoredRun | None:
    """The run that was created under an idempotency key."""
    return one_as(StoredRun, connection, select(runs).where(runs.c.creation_key == key))


def page(
    connection: Connection,
    project: int,
    before: int | None,
    limit: int,
    bot: str | None = None,
    state: str | None = None,
    text: str | None = None,
) -> list[StoredRun]:
    """Runs of a project, newest first.

    `before`: only runs with a smaller row id. `text`: each of its words must be in the title, the bot, the id or the
    stored search text, ignoring the case of ASCII letters.
    """
    query = select(runs).where(runs.c.project_id == project).order_by(runs.c.id.desc()).limit(limit)
    wanted = {runs.c.bot: bot, runs.c.state: state}
    query = query.where(*(column == value for column, value in wanted.items() if value is not None))
    for word in (text or "").lower().split():
        searched = runs.c.title, runs.c.bot, runs.c.run_id, runs.c.facts["searched"].as_string()
        query = query.where(or_(*(func.lower(one).contains(word, autoescape=True) for one in searched)))
    return every_as(StoredRun, connection, query if before is None else query.where(runs.c.id < before))


def delete_run(connection: Connection, run_id: str, expected: int | None = None) -> bool:
    """Delete an ended run and its scores if it has the expected version; returns whether it did."""
    fits = runs.c.state.in_(ENDED) & _has_version(expected)
    return connection.execute(delete(runs).where(runs.c.run_id == run_id, fits)).rowcount == 1


def queue(connection: Connection, run_id: str, task: Task, expected: int | None = None) -> bool:
    """Queue an ended run again if it has the expected version; returns whether it did."""
    values = {"state": "queued", "task": task, "cancelling": False, "message": "", "finished_at": None, "loaded": 0}
    return _set(connection, run_id, runs.c.state.in_(ENDED) & _has_version(expected), **values)


def cancel(connection: Connection, run_id: str, expected: int | None = None) -> bool:
    """Cancel a run: a queued one at once, a running one through its worker. Returns whether there was one to cancel."""
    waits = runs.c.state == "queued"
    values = {
        "state": case((waits, "cancelled"), else_=runs.c.state),
        "finished_at": case((waits, now()), else_=runs.c.finished_at),
        "cancelling": not_(waits),
    }
    return _set(connection, run_id, runs.c.state.in_(("queued", "running")) & _has_version(expected), **values)


def queued(connection: Connection) -> list[StoredRun]:
    """The queued runs in fair order: nobody waits for all the runs of somebody else.

    The person who queued it decides: first whoever has the fewest runs in progress, in all and in the project; then
    whoever's last run started longest ago; then the run that has waited longest.
    """
    waiting = every_as(StoredRun, connection, select(runs).where(runs.c.state == "queued").order_by(runs.c.id))
    if len({(run.created_by, run.project_id) for run in waiting}) < 2:
        return waiting
    busy = func.sum(case((runs.c.state == "running", 1), else_=0))
    query = select(runs.c.created_by, runs.c.project_id, busy, func.max(runs.c.started_at))
    query = query.group_by(runs.c.created_by, runs.c.project_id)
    of_person, of_project, last = Counter[str](), Counter[int](), dict[tuple[str, int], str]()
    for person, project, in_progress, started in connection.execute(query):
        of_person[person] += int(in_progress)
        of_project[project] += int(in_progress)
        last[person, project] = started or ""

    def turn(run: StoredRun) -> tuple[int, int, str, int]:
        own = run.created_by, run.project_id
        return of_person[run.created_by], of_project[run.project_id], last[own], run.id

    return sorted(waiting, key=turn)


def claim(connection: Connection, row: int, worker: str, moment: float) -> StoredRun | None:
    """Assign a queued run to this worker; None if it is no longer queued. `moment`: now, in seconds."""
    values = {"state": "running", "worker": worker, "heartbeat": moment, "pid": None, "cancelling": False}
    started = func.coalesce(runs.c.started_at, now())
    taken = update(runs).where(runs.c.id == row, runs.c.state == "queued")
    if connection.execute(taken.values(**values, started_at=started)).rowcount != 1:
        return None
    return one_as(StoredRun, connection, select(runs).where(runs.c.id == row))


def refuse(connection: Connection, row: int, exit_code: int, message: str) -> None:
    """End a queued run instead of starting it."""
    values = {"state": "failed", "exit_code": exit_code, "message": message, "finished_at": now()}
    refused = update(runs).where(runs.c.id == row, runs.c.state == "queued")
    connection.execute(refused.values(**values, version=runs.c.version + 1))


def release(connection: Connection, run_id: str, worker: str) -> bool:
    """Put a worker's run back into the queue, to be resumed; if it is being cancelled, end it.

    Returns whether it was the worker's.
    """
    mine = (runs.c.worker == worker) & (runs.c.state == "running")
    state = case((runs.c.cancelling, "cancelled"), else_="queued")
    return _set(connection, run_id, mine, state=state, worker=None, pid=None)


def running(connection: Connection) -> list[StoredRun]:
    """All runs in state running."""
    return every_as(StoredRun, connection, select(runs).where(runs.c.state == "running").order_by(runs.c.id))


def take_over(connection: Connection, run: StoredRun, worker: str, moment: float) -> bool:
    """Take over a run from a dead worker. Returns False if another worker was faster."""
    seen = (runs.c.worker == run.worker) & (runs.c.heartbeat == run.heartbeat)
    return _set(connection, run.run_id, (runs.c.state == "running") & seen, worker=worker, heartbeat=moment)


def note(connection: Connection, run_id: str, worker: str, **values: Any) -> bool:
    """Save the progress of a worker's run. Returns whether it is still this worker's run."""
    return _set(connection, run_id, (runs.c.worker == worker) & (runs.c.state == "running"), **values)


def count_filled(connection: Connection, run_id: str, worker: str, cases: int, heartbeat: float) -> bool:
    """Add to the number of answer examples that a worker's run has filled; returns as `note`."""
    filled = func.coalesce(runs.c.filled_examples, 0) + cases
    return note(connection, run_id, worker, filled_examples=filled, heartbeat=heartbeat)


def change(connection: Connection, run_id: str, expected: int, **values: Any) -> bool:
    """Change a run if it still has the expected version; returns whether it had."""
    return _set(connection, run_id, _has_version(expected), **values)


def _has_version(version: int | None) -> ColumnElement[bool]:
    return true() if version is None else runs.c.version == version


def _set(connection: Connection, run_id: str, where: ColumnElement[bool], **values: Any) -> bool:
    changed = {**values, "version": runs.c.version + 1}
    return connection.execute(update(runs).where(runs.c.run_id == run_id, where).values(**changed)).rowcount == 1


STATUSES = ("scored", "undefined", "skipped", "error")


def states(connection: Connection) -> dict[str, int]:
    """How many runs are in each state."""
    query = select(runs.c.state, func.count().label("number")).group_by(runs.c.state)
    counts = {row.state: row.number for row in connection.execute(query)}
    return {state: counts.get(state, 0) for state in get_args(State)}


def oldest_queued(connection: Connection) -> str | None:
    """When the oldest queued run was created."""
    return connection.scalar(select(func.min(runs.c.created_at)).where(runs.c.state == "queued"))


def heartbeats(connection: Connection) -> dict[str, float]:
    """The last heartbeat of each worker that has a run."""
    query = (
        select(runs.c.worker, func.max(runs.c.heartbeat).label("at"))
        .where(runs.c.state == "running")
        .group_by(runs.c.worker)
    )
    return {row.worker: row.at for row in connection.execute(query)}


def totals(connection: Connection) -> dict[str, float]:
    """Sums over all runs: scores by status, failed_answers, calls and cost_usd."""
    progress = runs.c.progress
    wanted = {status: progress["counts", status].as_integer() for status in STATUSES}
    wanted |= {"failed_answers": progress["answers", "error"].as_integer(), "calls": progress["calls"].as_integer()}
    values = {**wanted, "cost_usd": progress["cost_usd"].as_float()}
    sums = [func.coalesce(func.sum(value), 0).label(name) for name, value in values.items()]
    return {name: float(value) for name, value in connection.execute(select(*sums)).mappings().one().items()}

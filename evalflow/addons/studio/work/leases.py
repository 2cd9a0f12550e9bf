"""Leases: parts of a project's monthly budget, reserved for runs and trials.

A lease is taken before anything is sent, and counts as fully spent until it is settled, so that concurrent people and
workers together stay within the budget. It belongs to the month in which it was taken.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from math import ceil, inf
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from evalflow.addons.studio.store import definitions, runs, spending
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.space import Workspace
from evalflow.calls.budget import UNITS, Amount, Budget, Lease, LeaseNote, Unit, read_note
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError, Problem, UserError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from evalflow.app.core.inspect import Estimate

Number = int | float
HEADROOM = 2
"""A run leases its estimate times this: prompts may be longer than estimated, and calls are retried."""


def this_month() -> str:
    """The current month in UTC, such as 2026-11."""
    return f"{datetime.now(UTC):%Y-%m}"


def renewal(month: str) -> date:
    """The first day of the next month."""
    first = date.fromisoformat(f"{month}-01")
    return (first + timedelta(days=31)).replace(day=1)


@dataclass(frozen=True, slots=True)
class ProjectBudget:
    """A project's budget in a month.

    Attributes:
        month: Such as 2026-11, in UTC.
        renews_on: When the next month begins: 2026-12-01, in UTC.
        limits: For each month; null: no limit.
        spent: Spent by runs and trials that have ended.
        leased: Reserved by runs and trials in progress.
        left: Free to lease; null without a limit.
        version: The project's.
    """

    project: str
    month: str
    renews_on: date
    limits: BudgetConfig
    spent: Amount
    leased: Amount
    left: Mapping[Unit, Number | None]
    version: int


def read_budget(connection: Connection, project: int) -> ProjectBudget:
    """The budget of a project in the current month."""
    row = definitions.by_id(connection, "project", project)
    assert row is not None  # callers have read something of the project
    month, limits = this_month(), BudgetConfig(**row["budget"])
    spent, leased = spending.totals(connection, project, month)
    left: dict[Unit, Number | None] = {}
    for unit in UNITS:
        limit: Number | None = getattr(limits, unit)
        left[unit] = None if limit is None else max(0, limit - getattr(spent, unit) - getattr(leased, unit))
    return ProjectBudget(row["name"], month, renewal(month), limits, spent, leased, left, row["version"])


NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Need:
    """The need of a run or a trial: its likely maximum (None: unknown), and the least with which it can proceed."""

    likely: Amount | None = None
    least: Amount = NOTHING


_NEED = TypeAdapter(Need)


def need_of_run(run: StoredRun) -> Need:
    """The need saved in a run's row."""
    return _NEED.validate_python(run.need or {})


def need_of(estimate: Estimate, own: BudgetConfig) -> Need:
    """Compute a run's need from its estimate and its own budget."""
    most = (HEADROOM * estimate.requests, HEADROOM * estimate.reserved_tokens, HEADROOM * estimate.reserved_usd)
    limits = (own.requests, own.tokens, own.usd)
    requests, tokens, usd = (one if limit is None else min(one, limit) for one, limit in zip(most, limits, strict=True))
    return Need(Amount(ceil(requests), ceil(tokens), usd))


@dataclass(frozen=True, slots=True)
class Offer:
    """A budget's answer to a need: limits (None: no limit), and the units that are `short`.

    Attributes:
        waits: Whether the missing amounts may become free when open leases are settled.
    """

    need: Need
    limits: Mapping[Unit, Number | None]
    short: Sequence[Unit] = ()
    waits: bool = False


def offer(budget: ProjectBudget, need: Need) -> Offer:
    """Compute what can be leased now: what is needed, or whatever is left."""
    limits: dict[Unit, Number | None] = {}
    short: list[Unit] = []
    may_come = True
    for unit in UNITS:
        limit, left = getattr(budget.limits, unit), budget.left[unit]
        least: Number = getattr(need.least, unit)
        wanted = max(inf if need.likely is None else getattr(need.likely, unit), least)
        if limit is None or left is None or wanted == 0:
            limits[unit] = None if limit is None else 0
            continue
        limits[unit] = min(wanted, left)
        if left <= 0 or left < least:
            short.append(unit)
            unspent = limit - getattr(budget.spent, unit)
            may_come = may_come and unspent > 0 and unspent >= least
    return Offer(need, limits, short, bool(short) and may_come)


def shortfall(budget: ProjectBudget, need: Need) -> list[str]:
    """A notice if less is left than a run may need."""
    offered = offer(budget, need)
    if offered.short:
        return [refusal(budget, offered).what]
    parts = [
        f"{amount_in_words(unit, wanted)}, and {amount_in_words(unit, limit)} is left"
        for unit in UNITS
        if (limit := offered.limits[unit]) is not None and limit < (wanted := getattr(need.likely, unit))
    ]
    what = (
        f"the run may need {'; '.join(parts)} of the project's budget for {budget.month}: it stops when that is spent"
    )
    return [what] if parts else []


def refusal(budget: ProjectBudget, offered: Offer) -> Problem:
    """The error for an offer that is too small, with figures."""
    parts: list[str] = []
    for unit in offered.short:
        used, leased = (amount_in_words(unit, getattr(one, unit)) for one in (budget.spent, budget.leased))
        held = f", {leased} are held by what is running" if getattr(budget.leased, unit) else ""
        least = getattr(offered.need.least, unit)
        needed = f", and the next call may take {amount_in_words(unit, least)}" if least else ""
        parts.append(f"{used} of {amount_in_words(unit, getattr(budget.limits, unit))} are spent{held}{needed}")
    what = f"the budget of project {budget.project!r} for {budget.month} does not cover this: {'; '.join(parts)}"
    renewed = f"{budget.renews_on:%-d %B %Y} (UTC)"
    hint = "wait until that has ended; " if offered.waits else ""
    return Problem(what, hint=f"{hint}a new month begins on {renewed}, and the owner of the server may raise it")


def amount_in_words(unit: Unit, value: Number) -> str:
    """Format an amount, such as $4.20 or 1,200 tokens."""
    if unit != "usd":
        return f"{value:,} {unit}"
    return f"${value:,.4g}" if value < 1 else f"${value:,.2f}"


def take(
    connection: Connection, budget: ProjectBudget, project: int, offered: Offer, source: str, run: int | None = None
) -> Lease:
    """Open a lease of the offered amount, in the transaction that read the budget."""
    limits = offered.limits
    held = Amount(int(limits["requests"] or 0), int(limits["tokens"] or 0), limits["usd"] or 0.0)
    number = spending.take(connection, project, budget.month, source, held, run)
    return Lease.model_validate({"id": number, "allow_unpriced": budget.limits.allow_unpriced, **limits})


@dataclass(frozen=True, slots=True)
class NextRun:
    """A queued run, and its project's budget and offer; None if it spends nothing."""

    run: StoredRun
    budget: ProjectBudget | None = None
    offer: Offer | None = None

    @property
    def problem(self) -> Problem | None:
        """Why it cannot start; None if it can."""
        return refusal(self.budget, self.offer) if self.budget and self.offer and self.offer.short else None

    def take(self, connection: Connection) -> None:
        """Open its lease."""
        if self.budget and self.offer:
            take(connection, self.budget, self.run.project_id, self.offer, self.run.run_id, self.run.id)


def next_run(connection: Connection) -> NextRun | None:
    """The next queued run that need not wait for others to settle their leases."""
    budgets: dict[int, ProjectBudget] = {}
    for run in runs.queued(connection):
        if run.task == "load":
            return NextRun(run)
        if run.project_id not in budgets:
            budgets[run.project_id] = read_budget(connection, run.project_id)
        offered = offer(budgets[run.project_id], need_of_run(run))
        if not offered.waits:
            return NextRun(run, budgets[run.project_id], offered)
    return None


def open_lease(connection: Connection, run: StoredRun) -> Lease | None:
    """The open lease of a run, if no process has used it yet."""
    limits = read_budget(connection, run.project_id).limits
    opened = spending.open_lease(connection, run.id)
    if opened is None or read_note(run.path, opened.id) != LeaseNote(NOTHING):
        return None
    held = {unit: None if getattr(limits, unit) is None else getattr(opened.amount, unit) for unit in UNITS}
    return Lease(id=opened.id, folder=run.path, **held, allow_unpriced=limits.allow_unpriced)


def settle(connection: Connection, run: StoredRun, *, is_alive: bool) -> LeaseNote | None:
    """Settle the lease of a run with the spending that its process noted; returns this note.

    Without a note, or while the process is alive, the whole lease counts as spent, and None is returned.
    """
    opened = spending.open_lease(connection, run.id)
    note = read_note(run.path, opened.id) if opened and not is_alive else None
    if opened:
        spending.settle(connection, opened.id, note and note.used)
    return note


def after_lease(connection: Connection, run: StoredRun, wanted: Amount) -> dict[str, object]:
    """The new columns of a run that has used up its lease: queued again, or a message if the budget is exhausted."""
    before = need_of_run(run)
    likely = before.likely and before.likely + before.likely
    need = Need(likely, wanted)
    budget = read_budget(connection, run.project_id)
    offered = offer(budget, need)
    if offered.short and not offered.waits:
        return {"message": message(refusal(budget, offered))}
    again = {"state": "queued", "pid": None, "exit_code": None, "message": "", "finished_at": None}
    return {**again, "need": asdict(need)}


def message(problem: Problem) -> str:
    """The message of a run whose need exceeds its project's budget."""
    return f"{problem}; then resume the run: finished work is kept"


TRIAL = Amount(requests=100, tokens=1_000_000, usd=1.0)
"""The most that a trial may spend."""


@contextmanager
@requires("edit")
def trial_budget(space: Workspace, source: str) -> Generator[Budget]:
    """Lease the budget of a trial; it is settled when the block ends. `source` names the purpose.

    Raises UserError if the project's budget is exhausted, or the trial needs more than the lease.
    """
    with space.database.writing() as connection:
        budget = read_budget(connection, space.project_id)
        offered = offer(budget, Need(TRIAL))
        if offered.short:
            raise UserError(refusal(budget, offered))
        lease = take(connection, budget, space.project_id, offered, source)
    spent = Budget(BudgetConfig(), lease=lease)
    try:
        yield spent
    except BudgetError as error:
        raise UserError(Problem(str(error).partition("\n")[0], hint="try it with less, or see the budget")) from None
    finally:
        with space.database.writing(in_turn=False) as connection:
            spending.settle(connection, lease.id, spent.sent)

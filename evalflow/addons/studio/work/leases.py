"""Leases: the parts of a project's monthly budget that runs and trials may spend.

A lease is taken before anything is sent, and counts as spent in full until it is settled; so all leases together stay
within the budget, however many people and workers take them. It belongs to the month in which it was taken.
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
"""A run leases so many times its estimate: prompts may be longer and calls be repeated."""


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
        limits: Of each month; null: no limit.
        spent: By runs and trials that have ended.
        leased: What runs and trials in progress may spend in addition.
        left: What can be leased now; null without a limit.
        version: Of the project.
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
    assert row is not None  # what is asked about belongs to it
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
    """What a run or a trial needs: what it likely takes at most (None: unknown), and what it cannot do without."""

    likely: Amount | None = None
    least: Amount = NOTHING


_NEED = TypeAdapter(Need)


def need_of_run(run: StoredRun) -> Need:
    """What a run needs, as its row has it."""
    return _NEED.validate_python(run.need or {})


def need_of(estimate: Estimate, own: BudgetConfig) -> Need:
    """What a run needs by its estimate and its own budget."""
    most = (HEADROOM * estimate.requests, HEADROOM * estimate.reserved_tokens, HEADROOM * estimate.reserved_usd)
    limits = (own.requests, own.tokens, own.usd)
    requests, tokens, usd = (one if limit is None else min(one, limit) for one, limit in zip(most, limits, strict=True))
    return Need(Amount(ceil(requests), ceil(tokens), usd))


@dataclass(frozen=True, slots=True)
class Offer:
    """What a budget offers for a need: limits (None: no limit), and those that are `short`.

    Attributes:
        waits: Whether what is short may come free when open leases are settled.
    """

    need: Need
    limits: Mapping[Unit, Number | None]
    short: Sequence[Unit] = ()
    waits: bool = False


def offer(budget: ProjectBudget, need: Need) -> Offer:
    """What can be leased now: what is needed, or else what is left."""
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
    """A notice if less is left than what a run may need."""
    found = offer(budget, need)
    if found.short:
        return [refusal(budget, found).what]
    parts = [
        f"{amount_in_words(unit, wanted)}, and {amount_in_words(unit, limit)} is left"
        for unit in UNITS
        if (limit := found.limits[unit]) is not None and limit < (wanted := getattr(need.likely, unit))
    ]
    what = (
        f"the run may need {'; '.join(parts)} of the project's budget for {budget.month}: it stops when that is spent"
    )
    return [what] if parts else []


def refusal(budget: ProjectBudget, found: Offer) -> Problem:
    """Why an offer is too small, in figures, and what to do."""
    parts: list[str] = []
    for unit in found.short:
        used, leased = (amount_in_words(unit, getattr(one, unit)) for one in (budget.spent, budget.leased))
        held = f", {leased} are held by what is running" if getattr(budget.leased, unit) else ""
        least = getattr(found.need.least, unit)
        needed = f", and the next call may take {amount_in_words(unit, least)}" if least else ""
        parts.append(f"{used} of {amount_in_words(unit, getattr(budget.limits, unit))} are spent{held}{needed}")
    what = f"the budget of project {budget.project!r} for {budget.month} does not cover this: {'; '.join(parts)}"
    renewed = f"{budget.renews_on:%-d %B %Y} (UTC)"
    hint = "wait until that has ended; " if found.waits else ""
    return Problem(what, hint=f"{hint}a new month begins on {renewed}, and the owner of the server may raise it")


def amount_in_words(unit: Unit, value: Number) -> str:
    """Such as $4.20, or 1,200 tokens."""
    if unit != "usd":
        return f"{value:,} {unit}"
    return f"${value:,.4g}" if value < 1 else f"${value:,.2f}"


def take(
    connection: Connection, budget: ProjectBudget, project: int, found: Offer, source: str, run: int | None = None
) -> Lease:
    """Open a lease of what was offered, in the transaction that has read the budget."""
    limits = found.limits
    held = Amount(int(limits["requests"] or 0), int(limits["tokens"] or 0), limits["usd"] or 0.0)
    number = spending.take(connection, project, budget.month, source, held, run)
    return Lease.model_validate({"id": number, "allow_unpriced": budget.limits.allow_unpriced, **limits})


@dataclass(frozen=True, slots=True)
class NextRun:
    """A queued run, and what its project's budget offers; None for one that spends nothing."""

    run: StoredRun
    budget: ProjectBudget | None = None
    found: Offer | None = None

    @property
    def problem(self) -> Problem | None:
        """Why it cannot start; None if it can."""
        return refusal(self.budget, self.found) if self.budget and self.found and self.found.short else None

    def take(self, connection: Connection) -> None:
        """Open its lease."""
        if self.budget and self.found:
            take(connection, self.budget, self.run.project_id, self.found, self.run.run_id, self.run.id)


def next_run(connection: Connection) -> NextRun | None:
    """The run whose turn it is, of those that need not wait until others have settled their leases."""
    budgets: dict[int, ProjectBudget] = {}
    for run in runs.queued(connection):
        if run.task == "load":
            return NextRun(run)
        if run.project_id not in budgets:
            budgets[run.project_id] = read_budget(connection, run.project_id)
        found = offer(budgets[run.project_id], need_of_run(run))
        if not found.waits:
            return NextRun(run, budgets[run.project_id], found)
    return None


def open_lease(connection: Connection, run: StoredRun) -> Lease | None:
    """The open lease of a run that no process has used yet; None if there is none."""
    limits = read_budget(connection, run.project_id).limits
    opened = spending.open_lease(connection, run.id)
    if opened is None or read_note(run.path, opened.id) != LeaseNote(NOTHING):
        return None
    held = {unit: None if getattr(limits, unit) is None else getattr(opened.amount, unit) for unit in UNITS}
    return Lease(id=opened.id, folder=run.path, **held, allow_unpriced=limits.allow_unpriced)


def settle(connection: Connection, run: StoredRun, *, is_alive: bool) -> LeaseNote | None:
    """Settle the lease of a run to what its process has noted; None if there is none, or nobody knows.

    Then, and while the process is alive, all of it counts as spent.
    """
    opened = spending.open_lease(connection, run.id)
    note = read_note(run.path, opened.id) if opened and not is_alive else None
    if opened:
        spending.settle(connection, opened.id, note and note.used)
    return note


def after_lease(connection: Connection, run: StoredRun, wanted: Amount) -> dict[str, object]:
    """What becomes of a run that has used up its lease: it is queued again, or fails if nothing can be left for it."""
    before = need_of_run(run)
    likely = before.likely and before.likely + before.likely
    need = Need(likely, wanted)
    budget = read_budget(connection, run.project_id)
    found = offer(budget, need)
    if found.short and not found.waits:
        return {"message": message(refusal(budget, found))}
    again = {"state": "queued", "pid": None, "exit_code": None, "message": "", "finished_at": None}
    return {**again, "need": asdict(need)}


def message(problem: Problem) -> str:
    """The message of a run that its project's budget does not cover."""
    return f"{problem}; then resume the run: what is done is kept"


TRIAL = Amount(requests=100, tokens=1_000_000, usd=1.0)
"""What a trial may spend at most."""


@contextmanager
@requires("edit")
def trial_budget(space: Workspace, source: str) -> Generator[Budget]:
    """The budget of a trial: a lease that is settled when the block ends. `source` names what it is for.

    UserError if nothing is left of the project's budget, or the trial needs more.
    """
    with space.database.writing() as connection:
        budget = read_budget(connection, space.project_id)
        found = offer(budget, Need(TRIAL))
        if found.short:
            raise UserError(refusal(budget, found))
        lease = take(connection, budget, space.project_id, found, source)
    spent = Budget(BudgetConfig(), lease=lease)
    try:
        yield spent
    except BudgetError as error:
        raise UserError(Problem(str(error).partition("\n")[0], hint="try it with less, or see the budget")) from None
    finally:
        with space.database.writing(in_turn=False) as connection:
            spending.settle(connection, lease.id, spent.sent)

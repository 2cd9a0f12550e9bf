"""The monthly budget of a project: what is left of it, and what a run spends of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from evalflow.addons.studio.store import spending
from evalflow.addons.studio.work import leases
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.leases import Number, ProjectBudget
from evalflow.addons.studio.work.projects import update_project
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import Workspace
from evalflow.calls.budget import UNITS, Amount, Unit, read_note
from evalflow.config.explain import problems_of
from evalflow.config.schema import BudgetConfig
from evalflow.errors import UserError


@requires("read")
def budget_left(space: Workspace) -> ProjectBudget:
    """The project's budget in this month, and what is left of it."""
    return space.read(leases.read_budget, space.project_id)


@requires("own")
def set_budget(space: Workspace, values: Mapping[str, object], expected: int) -> ProjectBudget:
    """Set the project's monthly budget. It holds from the next run or trial on; what is going on keeps its lease.

    `values` are those of a run's `budget`; `expected` is the version of the project that the change is based on.
    """
    try:
        limits = BudgetConfig.model_validate(values)
    except ValidationError as error:
        raise UserError(problems_of(error, BudgetConfig, "", None, ())) from None
    update_project(space, expected, {"budget": limits.model_dump()})
    return budget_left(space)


@dataclass(frozen=True, slots=True)
class RunSpending:
    """What a run spends.

    Attributes:
        spent: What its processes have spent; calls in progress count at their maximum.
        leased: What its process may spend in total; null without a limit of the project; empty if no process works on
            the run.
        used: What the process has spent of that.
        waits: Why a queued run waits for the budget; empty if it does not.
    """

    spent: Amount
    leased: Mapping[Unit, Number | None]
    used: Amount
    waits: str = ""


@requires("read")
def run_spending(space: Workspace, run: str) -> RunSpending:
    """The amounts that a run has spent, and may spend of the project's budget."""
    row = run_row(space, run)
    with space.database.reading() as connection:
        budget = leases.read_budget(connection, space.project_id)
        spent = spending.of_run(connection, row.id)
        opened = spending.open_lease(connection, row.id)
    if opened is None:
        waits = ""
        if row.state == "queued" and row.task != "load":
            offered = leases.offer(budget, leases.need_of_run(row))
            waits = str(leases.refusal(budget, offered)) if offered.waits else ""
        return RunSpending(spent, {}, Amount(), waits)
    note = read_note(row.path, opened.id)
    used = note.used if note else Amount()
    leased: dict[Unit, Number | None] = {
        unit: None if getattr(budget.limits, unit) is None else getattr(opened.amount, unit) for unit in UNITS
    }
    return RunSpending(spent + used, leased, used)

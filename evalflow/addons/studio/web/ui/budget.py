"""The monthly budget of a project on pages: the remaining amount, and a run's spending."""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Edited, Saving, load_again
from evalflow.addons.studio.web.ui.parts import button, facts, polled, section, text
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work.leases import ProjectBudget, amount_in_words
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.spending import RunSpending, budget_left, run_spending, set_budget
from evalflow.calls.budget import UNITS

_FIELDS = {
    "usd": forms.About("US dollars a month", "Empty: no limit."),
    "requests": forms.About("Requests a month", "Repeated calls count. Empty: no limit."),
    "tokens": forms.About("Tokens a month", "Sent and received. Empty: no limit."),
}


def left_in_words(budget: ProjectBudget) -> str:
    """The remaining part of each limit, such as "$4.20 of $50.00"; empty without limits."""
    parts = [
        f"{amount_in_words(unit, left)} of {amount_in_words(unit, getattr(budget.limits, unit))}"
        for unit, left in budget.left.items()
        if left is not None
    ]
    return ", ".join(parts)


def run_budget(workspace: Workspace, run: str) -> None:
    """A line with a run's use of the budget that it may spend; empty without a limit."""
    line = text("", "p", "muted small num")

    async def show() -> None:
        spending = await to_thread.run_sync(run_spending, workspace, run)
        used = _used_in_words(spending)
        line.set_text(spending.waits or (used and f"Of the project's budget: {used}"))

    polled(1.0, show)


def _used_in_words(spending: RunSpending) -> str:
    parts = [
        f"{amount_in_words(unit, getattr(spending.used, unit))} of {amount_in_words(unit, leased)}"
        for unit, leased in spending.leased.items()
        if leased is not None
    ]
    return ", ".join(parts)


async def budget_section(workspace: Workspace) -> None:
    """The project's budget and spending; the server's owner can change the budget."""
    budget = await to_thread.run_sync(budget_left, workspace)
    about = f"For all runs and trials of {budget.month}; the next month begins on {budget.renews_on:%-d %B} (UTC)."
    with section("Monthly budget", about):
        amounts = (("Spent", budget.spent), ("Held by what is running", budget.leased))
        used = [(name, ", ".join(amount_in_words(unit, getattr(of, unit)) for unit in UNITS)) for name, of in amounts]
        facts([*used, ("Left", left_in_words(budget) or "no limit")])
        if not may("own"):
            return
        _budget_form(workspace, budget)


def _budget_form(workspace: Workspace, budget: ProjectBudget) -> None:
    async def save() -> None:
        values = {**budget.limits.model_dump(), **{unit: field.value for unit, field in fields.items()}}
        await saving.save(partial(set_budget, workspace, values), values, fields, pressed, load_again)

    with forms.form():
        fields: dict[str, forms.Field] = {
            unit: forms.number_field(about, getattr(budget.limits, unit)) for unit, about in _FIELDS.items()
        }
        with ui.element("div").classes("actions"):
            pressed = button("Save the budget", save, kind="primary")
    edited = Edited(partial(budget_left, workspace), lambda project_budget: project_budget.limits.model_dump(), budget)
    saving = Saving(edited, f"/projects/{workspace.project}")

"""/projects/NAME/budget: the monthly budget of a project; /runs/ID/budget: what a run spends of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from evalflow.app.studio import spending
from evalflow.app.studio.leases import ProjectBudget
from evalflow.web.api.deps import Expected, Name, RequestBody, Space, tagged
from evalflow.web.api.projects import Named

router = APIRouter(prefix="/projects/{project}/budget", tags=["projects"])
run_router = APIRouter(prefix="/runs/{run}/budget", tags=["runs"])
Count = Annotated[int, Field(ge=0, le=10**15)]


class MonthlyBudget(RequestBody):
    """The limits of each month; null: no limit."""

    usd: Annotated[float, Field(ge=0, le=1e12)] | None = Field(default=None, description="US dollars.")
    requests: Count | None = Field(default=None, description="Calls, repeated ones included.")
    tokens: Count | None = Field(default=None, description="Prompt and completion tokens together.")
    allow_unpriced: bool = Field(
        default=False, description="Whether models without a price are allowed beside `usd`; they count as free."
    )


@router.get("")
def read_budget(space: Named, response: Response) -> ProjectBudget:
    """The budget of this month, and what is left of it; the ETag is that of the project."""
    return tagged(response, spending.budget_left(space))


@router.put("")
def put_budget(space: Named, limits: MonthlyBudget, expected: Expected, response: Response) -> ProjectBudget:
    """Set the monthly budget. It holds from the next run on; runs that are going on keep what they were given."""
    return tagged(response, spending.set_budget(space, limits.model_dump(), expected))


@run_router.get("")
def read_run_budget(space: Space, run: Name) -> spending.RunSpending:
    """What a run has spent, and may spend, of its project's budget."""
    return spending.run_spending(space, run)

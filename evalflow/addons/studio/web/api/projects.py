"""/projects with their members and monthly budgets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space, Title
from evalflow.addons.studio.work import projects, spending
from evalflow.addons.studio.work.access import Role
from evalflow.addons.studio.work.leases import ProjectBudget
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/projects", tags=["projects"])
members_router = APIRouter(prefix="/projects/{project}/members", tags=["projects"])


class NewProject(RequestBody):
    """A project to create."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and _; it never changes.")
    title: Title = None
    description: str = Field(default="", max_length=10_000)


class ProjectChange(RequestBody):
    """Changes to a project; fields that are left out are unchanged."""

    title: Title = None
    description: str | None = Field(default=None, max_length=10_000)


class MemberRole(RequestBody):
    """The rights of a member."""

    role: Role = Field(
        description="viewer reads; annotator labels what is assigned to them; editor defines, runs, reviews and "
        "calibrates; admin also deletes runs and manages members and tokens."
    )


def _named(space: Space, project: Name) -> Space:
    return space.in_project(project)


Named = Annotated[Space, Depends(_named)]
"""The workspace in the project that the path names."""


@router.get("")
def read_projects(space: Space, paging: Paging) -> Page[projects.Project]:
    """The projects that you may see, by name."""
    return paging.of(projects.list_projects(space), lambda one: (one.name,))


@router.post("", status_code=201)
def post_project(space: Space, new: NewProject, headers: Headers) -> projects.Project:
    """Create a project; its pages and routes are those below /p/NAME/."""
    made = projects.create_project(space, new.name, new.description, new.title)
    return headers.locate(made, made.name)


@router.get("/{project}")
def read_project(space: Space, project: Name, headers: Headers) -> projects.Project:
    """One project."""
    return headers.tag(projects.get_project(space, project))


@router.patch("/{project}")
def patch_project(space: Named, change: ProjectChange, expected: Expected, headers: Headers) -> projects.Project:
    """Change a project."""
    return headers.tag(projects.update_project(space, expected, change.model_dump(exclude_none=True)))


@router.delete("/{project}", status_code=204)
def remove_project(space: Named, expected: Expected) -> None:
    """Delete a project without bots, datasets and runs."""
    projects.delete_project(space, expected)


@members_router.get("")
def read_members(space: Named, paging: Paging) -> Page[projects.Member]:
    """The members of a project, by name."""
    return paging.of(projects.list_members(space), lambda one: (one.name,))


@members_router.put("/{user}")
def put_member(space: Named, user: Name, member: MemberRole) -> projects.Member:
    """Make a user a member, or give a member another role; it takes effect at once."""
    return projects.set_role(space, user, member.role)


@members_router.delete("/{user}", status_code=204)
def remove_member(space: Named, user: Name) -> None:
    """End a membership, and delete the member's tokens of the project."""
    projects.remove_member(space, user)


budget_router = APIRouter(prefix="/projects/{project}/budget", tags=["projects"])
Count = Annotated[int, Field(ge=0, le=10**15)]


class MonthlyBudget(RequestBody):
    """The limits of each month; null: no limit."""

    usd: Annotated[float, Field(ge=0, le=1e12)] | None = Field(default=None, description="US dollars.")
    requests: Count | None = Field(default=None, description="Calls, repeated ones included.")
    tokens: Count | None = Field(default=None, description="Prompt and completion tokens together.")
    allow_unpriced: bool = Field(
        default=False, description="Whether models without a price are allowed beside `usd`; they count as free."
    )


@budget_router.get("")
def read_budget(space: Named, headers: Headers) -> ProjectBudget:
    """The budget of this month, and what is left of it; the ETag is that of the project."""
    return headers.tag(spending.budget_left(space))


@budget_router.put("")
def put_budget(space: Named, limits: MonthlyBudget, expected: Expected, headers: Headers) -> ProjectBudget:
    """Set the monthly budget. It holds from the next run on; runs that are under way keep what they were given."""
    return headers.tag(spending.set_budget(space, limits.model_dump(), expected))

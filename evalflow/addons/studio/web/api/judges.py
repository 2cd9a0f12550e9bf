"""/judges: judges that are defined once and chosen by name."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space, Title
from evalflow.addons.studio.work import judges
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/judges", tags=["judges"])


class JudgeChange(RequestBody):
    """The new definition of a judge."""

    config: dict[str, Any] = Field(
        description="kind (openai, panel, cascade or embedded) and its keys; members may be names of judges."
    )
    description: str = Field(default="", max_length=10_000)
    title: Title = None


class NewJudge(JudgeChange):
    """A judge to define."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and _; it never changes.")


@router.get("")
def read_judges(space: Space, paging: Paging) -> Page[StoredJudge]:
    """All judges: those defined here by name, then those that conf/ declares."""
    return paging.of(judges.list_judges(space), lambda one: (one.origin == "conf", one.name))


@router.post("", status_code=201)
def post_judge(space: Space, new: NewJudge, headers: Headers) -> StoredJudge:
    """Define a judge."""
    made = judges.create_judge(space, new.name, new.config, new.description, new.title)
    return headers.locate(made, made.name)


@router.get("/{judge}")
def read_judge(space: Space, judge: Name, headers: Headers) -> StoredJudge:
    """One judge."""
    return headers.tag(judges.get_judge(space, judge))


@router.put("/{judge}")
def put_judge(space: Space, judge: Name, change: JudgeChange, expected: Expected, headers: Headers) -> StoredJudge:
    """Replace a judge's configuration and description; runs that exist keep the judge that they started with."""
    return headers.tag(judges.update_judge(space, judge, expected, change.config, change.description, change.title))


@router.delete("/{judge}", status_code=204)
def remove_judge(space: Space, judge: Name, expected: Expected) -> None:
    """Delete a judge that no metric names."""
    judges.delete_judge(space, judge, expected)

"""/datasets/{dataset}/cases: what there is to evaluate."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.bulk import delete_cases, tag_cases
from evalflow.app.workspace.cases import StoredCase, add_cases, get_case, list_cases, update_case
from evalflow.web.api.deps import Expected, Name, Space, tagged
from evalflow.web.api.paging import Cursor, Limit, Page

router = APIRouter(prefix="/datasets/{dataset}", tags=["cases"])
AT_ONCE = 10_000
"""Cases of one request; files of more are uploaded."""
Id = Annotated[int, Path(ge=0, lt=2**63)]
Tag = Annotated[str, Field(min_length=1, max_length=200)]


class NewCases(BaseModel):
    """Cases to add, all or none."""

    model_config = ConfigDict(extra="forbid")

    items: list[dict[str, Any]] = Field(
        max_length=AT_ONCE,
        description="Each under its fields' names: question or messages, reference, contexts, tags, ...",
    )


class Tagging(BaseModel):
    """Tags to give and to take."""

    model_config = ConfigDict(extra="forbid")

    cases: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(
        max_length=AT_ONCE, description="Their ids in the store."
    )
    add: list[Tag] = Field(default=[], max_length=50)
    remove: list[Tag] = Field(default=[], max_length=50)


class Deletion(BaseModel):
    """Cases to delete."""

    model_config = ConfigDict(extra="forbid")

    cases: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(
        max_length=AT_ONCE, description="Their ids in the store."
    )


class Count(BaseModel):
    """How many there were."""

    count: int


@router.get("/cases")
def read_cases(
    space: Space,
    dataset: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    tag: Annotated[str | None, Query(max_length=200, description="Only those with this tag, or one below it.")] = None,
    text: Annotated[
        str | None, Query(max_length=500, description="Only those with this in the question or id.")
    ] = None,
) -> Page[StoredCase]:
    """The cases of a dataset that was defined here, in their order."""
    found = list_cases(space, dataset, cursor, limit, tag=tag, text=text)
    return Page[StoredCase](items=found.items, next=found.next)


@router.post("/cases", status_code=201)
def post_cases(space: Space, dataset: Name, new: NewCases) -> Count:
    """Add cases, all or none."""
    return Count(count=add_cases(space, dataset, new.items))


@router.get("/cases/{case}")
def read_case(space: Space, dataset: Name, case: Id, response: Response) -> StoredCase:
    """One case."""
    found = get_case(space, dataset, case)
    tagged(response, found.version)
    return found


@router.put("/cases/{case}")
def put_case(
    space: Space, dataset: Name, case: Id, body: dict[str, Any], expected: Expected, response: Response
) -> StoredCase:
    """Change a case, whole."""
    changed = update_case(space, dataset, case, expected, body)
    tagged(response, changed.version)
    return changed


@router.post("/cases/delete")
def post_deletion(space: Space, dataset: Name, deletion: Deletion) -> Count:
    """Delete cases."""
    return Count(count=delete_cases(space, dataset, deletion.cases))


@router.post("/cases/tag")
def post_tagging(space: Space, dataset: Name, tagging: Tagging) -> Count:
    """Give tags to many cases, and take others from them."""
    return Count(count=tag_cases(space, dataset, tagging.cases, add=tagging.add, remove=tagging.remove))

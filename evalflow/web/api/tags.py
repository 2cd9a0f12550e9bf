"""/tags: names on cases, with how many have them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel

from evalflow.app.workspace.cases import case_tags
from evalflow.app.workspace.scores import run_tags
from evalflow.web.api.deps import Space
from evalflow.web.api.paging import Cursor, Limit, Page, page_of

router = APIRouter(prefix="/tags", tags=["tags"])
Of = Annotated[str | None, Query(max_length=200)]


class TagCount(BaseModel):
    """A tag, and how many have it or one below it."""

    tag: str
    count: int


@router.get("")
def read_tags(
    space: Space, dataset: Of = None, run: Of = None, cursor: Cursor = None, limit: Limit = 500
) -> Page[TagCount]:
    """The tags of a dataset's cases, or of a run's answers."""
    if (dataset is None) == (run is None):
        raise HTTPException(422, "say whose tags: dataset=NAME or run=ID")
    found = case_tags(space, dataset) if dataset is not None else run_tags(space, run or "")
    return page_of(
        [TagCount(tag=tag, count=count) for tag, count in sorted(found)], lambda one: (one.tag,), cursor, limit
    )

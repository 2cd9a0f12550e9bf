"""/tags: those of a dataset, of a run, or of the project; and a new name for one everywhere."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from evalflow.addons.studio.web.api.deps import Cursor, Limit, RequestBody, Space, WantedPage
from evalflow.addons.studio.work import tags
from evalflow.addons.studio.work.cases import dataset_tags
from evalflow.addons.studio.work.scores import run_tags
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/tags", tags=["tags"])
Of = Annotated[str | None, Query(max_length=200)]


class TagCount(BaseModel):
    """A tag, and how many cases have it or a sub-tag of it."""

    tag: str
    count: int


class Renaming(RequestBody):
    """A new name for a tag, and so for its sub-tags.

    Attributes:
        merge: Whether to make one tag of both if the new name is in use; without it, that is refused.
        dry_run: Whether only to tell what would change.
    """

    old: str = Field(max_length=1000)
    new: str = Field(max_length=1000, description='Levels are separated by ">".')
    merge: bool = False
    dry_run: bool = False


@router.get("")
def read_tags(
    space: Space, dataset: Of = None, run: Of = None, cursor: Cursor = None, limit: Limit = 500
) -> Page[TagCount]:
    """The tags of a dataset's cases, of a run's answers, or without either of all cases of the project."""
    if dataset is not None and run is not None:
        raise HTTPException(422, "name a dataset or a run, not both")
    if run is not None:
        tag_counts = run_tags(space, run)
    else:
        tag_counts = tags.project_tags(space) if dataset is None else dataset_tags(space, dataset)
    return WantedPage(cursor, limit).of(
        [TagCount(tag=tag, count=count) for tag, count in sorted(tag_counts)], lambda one: (one.tag,)
    )


@router.post("/rename")
def post_renaming(space: Space, wanted: Renaming) -> tags.TagRename:
    """Rename a tag on every case of the project, with its sub-tags; runs keep the tags that they had."""
    if wanted.dry_run:
        return tags.plan_rename(space, wanted.old, wanted.new)
    return tags.rename_tag(space, wanted.old, wanted.new, merge=wanted.merge)

"""/comments."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from evalflow.addons.studio.web.api.deps import Headers, Paging, RequestBody, Space
from evalflow.addons.studio.work import comments
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/comments", tags=["comments"])


class NewComment(RequestBody):
    """A comment on a task, or on an answer: on its score by `metric` if that is given."""

    text: str = Field(min_length=1, max_length=comments.LONGEST_COMMENT)
    task: int | None = None
    run: str | None = Field(default=None, max_length=200)
    position: int | None = Field(default=None, description="An answer's position in the run, from 0.")
    metric: str | None = Field(default=None, max_length=500)


@router.get("")
def read_comments(
    space: Space,
    paging: Paging,
    task: int | None = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    position: int | None = None,
    metric: Annotated[str | None, Query(max_length=500)] = None,
) -> Page[comments.Comment]:
    """The comments on a task, or on an answer with its scores; the oldest first."""
    return comments.list_comments(space, comments.CommentedOn(task, run, position, metric), *paging)


@router.post("", status_code=201)
def post_comment(space: Space, new: NewComment, headers: Headers) -> comments.Comment:
    """Comment on something."""
    on = comments.CommentedOn(new.task, new.run, new.position, new.metric)
    made = comments.add_comment(space, on, new.text)
    return headers.locate(made, made.id)


@router.get("/{comment}")
def read_comment(space: Space, comment: int) -> comments.Comment:
    """One comment."""
    return comments.get_comment(space, comment)


@router.delete("/{comment}", status_code=204)
def remove_comment(space: Space, comment: int) -> None:
    """Delete your own comment, or as an admin anybody's."""
    comments.delete_comment(space, comment)

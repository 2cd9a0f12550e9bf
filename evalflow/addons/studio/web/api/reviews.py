"""/reviews."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space, json_lines
from evalflow.addons.studio.work import (
    review_calibration,
    review_desk,
    review_guidelines,
    review_results,
    reviews,
)
from evalflow.addons.studio.work.review_desk import CANNOT_TELL, DeskItem, OwnProgress
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/reviews", tags=["reviews"])
_Item = Annotated[int, Path(ge=0, lt=INTEGER_END, description="The answer's number in the review.")]
_Names = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=500)]
_LABELS: dict[int | str, dict[str, Any]] = {
    200: {"description": "A label a line.", "content": {"application/jsonl": {}, "text/csv": {}}}
}


class NewReview(RequestBody):
    """A review to create."""

    name: str = Field(max_length=reviews.LONGEST_NAME)
    run: str = Field(max_length=200)
    metrics: _Names = Field(default=[], description="Metrics of the run; none if the answers of two runs are compared.")
    size: int = Field(ge=1, le=reviews.MOST_ITEMS, description="How many answers to draw.")
    people: _Names = Field(description="User names; `local` on a server without accounts.")
    overlap: float = Field(default=reviews.DEFAULT_OVERLAP, ge=0, le=1, description="The share for two people.")
    method: Literal["random", "strata", "groups"] = "random"
    by: Literal["score", "tag"] | None = Field(default=None, description="What strata are made by.")
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    guidelines: dict[str, str] | None = Field(default=None, description="By metric.")
    against: str = Field(
        default="",
        max_length=200,
        description="The run whose answers these are compared with: people say which of two answers is better.",
    )
    contexts: bool = Field(default=True, description="Whether people see the contexts.")
    reference: bool = Field(default=True, description="Whether people see the reference.")


class ReviewChange(RequestBody):
    """Changes to a review; fields that are left out are unchanged."""

    people: _Names | None = None
    guidelines: dict[str, str] | None = Field(default=None, description="By metric; those left out are unchanged.")
    state: Literal["open", "closed"] | None = None
    allow_ties: bool = Field(
        default=False, description="Close it although people are tied; a tie then counts as the mean of its labels."
    )
    again: Literal[True] | None = Field(
        default=None, description="Give answers that were labelled by older guidelines out again; opens the review."
    )


class DeskDraft(RequestBody):
    """The entries of a person so far."""

    values: dict[str, Any] = Field(default={})
    cannot_tell: _Names = Field(default=[])
    comment: str = Field(default="", max_length=review_desk.LONGEST_COMMENT)
    flagged: bool = False
    seconds: float = Field(default=0, ge=0, description="The whole time that they have worked on it.")


class DeskLabels(DeskDraft):
    """The entries that a person submits."""

    rubrics: dict[str, int] | None = Field(
        default=None, description="By metric, the versions of the guidelines that they have read; null: the newest."
    )


class Decline(RequestBody):
    """Why a person hands an answer back."""

    reason: str = Field(default="", max_length=review_desk.LONGEST_COMMENT)


class Resolution(RequestBody):
    """The truth about an answer on a metric."""

    metric: str = Field(max_length=500)
    value: bool | float | str
    reason: str = Field(default="", max_length=review_results.LONGEST_REASON)


class NextItem(BaseModel):
    """The next answer; null if none is left."""

    item: DeskItem | None


@router.get("")
def read_reviews(space: Space, paging: Paging) -> Page[reviews.ReviewEntry]:
    """Reviews by name; those who may only label see the ones that name them."""
    return paging.of(sorted(reviews.list_reviews(space), key=lambda one: one.name), lambda one: (one.name,))


@router.post("", status_code=201)
def post_review(space: Space, new: NewReview, headers: Headers) -> reviews.Review:
    """Draw answers of a run for people to label."""
    given = new.model_dump(exclude={"run", "contexts", "reference"})
    shown = reviews.Shown(new.contexts, new.reference)
    made = reviews.create_review(space, reviews.ReviewRequest(**given, run_id=new.run, shown=shown))
    return headers.locate(made, made.name)


@router.get("/{review}")
def read_review(space: Space, review: Name, headers: Headers) -> reviews.Review:
    """One review."""
    return headers.tag(reviews.get_review(space, review))


@router.patch("/{review}")
def patch_review(
    space: Space, review: Name, change: ReviewChange, expected: Expected, headers: Headers
) -> reviews.Review:
    """Change people or guidelines, close or open a review, or give answers out again; one of these in a request."""
    if change.people is not None:
        updated = reviews.change_people(space, review, expected, change.people)
    elif change.guidelines is not None:
        updated = review_guidelines.revise_guidelines(space, review, expected, change.guidelines)
    elif change.again:
        updated = review_guidelines.give_out_again(space, review, expected)
    elif change.state == "closed":
        updated = review_results.close_review(space, review, expected, allow_ties=change.allow_ties)
    else:
        updated = reviews.reopen_review(space, review, expected)
    return headers.tag(updated)


@router.delete("/{review}", status_code=204)
def remove_review(space: Space, review: Name, expected: Expected) -> None:
    """Delete a review with its labels."""
    reviews.delete_review(space, review, expected)


@router.post("/{review}/next")
def post_next(space: Space, review: Name) -> NextItem:
    """The next answer to label, reserved for 15 minutes."""
    return NextItem(item=review_desk.next_item(space, review))


@router.get("/{review}/mine")
def read_own_progress(space: Space, review: Name) -> OwnProgress:
    """How far the person who asks is."""
    return review_desk.own_progress(space, review)


@router.post("/{review}/items/{item}/open")
def post_open(space: Space, review: Name, item: _Item) -> DeskItem:
    """An answer that the person who asks has begun or submitted."""
    return review_desk.open_item(space, review, item)


@router.put("/{review}/items/{item}/draft", status_code=204)
def put_draft(space: Space, review: Name, item: _Item, draft: DeskDraft) -> None:
    """Save what the person has entered so far."""
    entered = draft.model_dump(include={"values", "cannot_tell", "comment"})
    review_desk.save_draft(space, review, item, entered, draft.seconds, flagged=draft.flagged)


@router.post("/{review}/items/{item}/submit", status_code=204)
def post_labels(space: Space, review: Name, item: _Item, said: DeskLabels) -> None:
    """Submit a value for each metric, or name it in `cannot_tell`."""
    values = {**said.values, **dict.fromkeys(said.cannot_tell, CANNOT_TELL)}
    about: dict[str, Any] = {"flagged": said.flagged, "seconds": said.seconds, "rubrics": said.rubrics}
    review_desk.submit_item(space, review, item, values, said.comment, **about)


@router.post("/{review}/items/{item}/decline", status_code=204)
def post_decline(space: Space, review: Name, item: _Item, decline: Decline) -> None:
    """Hand an answer back, for another person."""
    review_desk.decline_item(space, review, item, decline.reason)


@router.get("/{review}/progress")
def read_progress(space: Space, review: Name) -> review_results.ReviewProgress:
    """How far each person is, and how well they agree."""
    return review_results.progress(space, review)


@router.get("/{review}/disagreements")
def read_disagreements(space: Space, review: Name, paging: Paging) -> Page[review_results.Disagreement]:
    """The answers with labels that differ: ties first, then others that are not resolved."""
    disagreements = review_results.disagreements(space, review)
    return paging.of(disagreements, lambda one: (one.is_resolved, not one.is_tied, one.item, one.metric))


@router.put("/{review}/items/{item}/resolution", status_code=204)
def put_resolution(space: Space, review: Name, item: _Item, said: Resolution) -> None:
    """Decide what is true of an answer on a metric."""
    review_results.resolve(space, review, item, said.metric, said.value, said.reason)


@router.get("/{review}/labels", response_class=Response, responses=_LABELS)
def export_labels(
    space: Space, review: Name, form: Annotated[Literal["jsonl", "csv"], Query(alias="format")] = "jsonl"
) -> Response:
    """The labels with all hand-over columns, as `calibrate --labels` reads them."""
    if form == "csv":
        return Response(review_results.labels_csv(space, review), media_type="text/csv")
    return json_lines(review_results.review_labels(space, review), "labels")


@router.put("/{review}/calibration")
def put_calibration(space: Space, review: Name) -> review_calibration.SavedCalibration:
    """Calibrate the run with the labels of a closed review, as `calibrate --labels` does with their export."""
    return review_calibration.save_calibration(space, review)

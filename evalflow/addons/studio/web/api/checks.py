"""/checks: the built-in ones, and those that cases share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from evalflow.addons.studio.web.api.deps import CaseCount, Expected, Headers, Name, Paging, RequestBody, Space
from evalflow.addons.studio.work import check_uses, checks
from evalflow.addons.studio.work.cases import case_ids
from evalflow.addons.studio.work.check_trial import CheckTrial, TrialState, example_row, try_checks, try_examples
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/checks", tags=["checks"])


class CheckChange(RequestBody):
    """A check without its name, which stays."""

    type: str = Field(max_length=40)
    params: dict[str, Any]
    title: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    examples: Annotated[list[checks.CheckExample], Field(max_length=checks.MOST_EXAMPLES)] = Field(default=[])


class NewCheck(CheckChange):
    """A check to define."""

    name: str = Field(max_length=100, description="Lower-case letters, digits and _.")


class Enabling(RequestBody):
    """The cases of a dataset, or those that match a filter, that get a check or lose it."""

    dataset: str = Field(max_length=200)
    tag: str | None = Field(default=None, max_length=200)
    text: str | None = Field(default=None, max_length=500, description="Only cases with this in the question or id.")
    draft: bool | None = Field(default=None, description="Only drafts, or only active cases.")
    remove: bool = False


class ExampleTrial(BaseModel):
    """What a check says of one of its examples: passed or failed, as it should if `passes`; or why it was not tried."""

    answer: str
    passes: bool
    state: TrialState
    reason: str


@router.get("")
def read_checks(space: Space, paging: Paging) -> Page[checks.Check]:
    """The checks that cases share, by name."""
    return paging.of(checks.list_checks(space), lambda check: (check.name,))


@router.post("", status_code=201)
def post_check(space: Space, new: NewCheck, headers: Headers) -> checks.Check:
    """Define a check."""
    made = checks.create_check(space, _draft(new, new.name))
    return headers.locate(made, made.name)


@router.get("/types")
def read_types(space: Space, paging: Paging) -> Page[checks.BuiltInCheck]:
    """The built-in checks, by identifier."""
    return paging.of(checks.list_check_types(space), lambda check: (check.identifier,))


@router.post("/try")
def post_trials(space: Space, case: dict[str, Any]) -> list[CheckTrial]:
    """Try the checks of a case on its `demo_answer`; free, since no judge is asked."""
    return try_checks(space, case)


@router.get("/{check}")
def read_check(space: Space, check: Name, headers: Headers) -> checks.Check:
    """One check."""
    return headers.tag(checks.get_check(space, check))


@router.get("/{check}/trials")
def read_trials(space: Space, check: Name) -> list[ExampleTrial]:
    """What the check says of each of its examples; free, since no judge is asked."""
    definition = checks.get_check(space, check)
    trials = try_examples(space, definition.type, definition.params, [example_row(one) for one in definition.examples])
    return [
        ExampleTrial(answer=one.answer, passes=one.passes, state=trial.state, reason=trial.reason)
        for one, trial in zip(definition.examples, trials, strict=True)
    ]


@router.put("/{check}")
def put_check(space: Space, check: Name, change: CheckChange, expected: Expected, headers: Headers) -> checks.Check:
    """Replace a check."""
    return headers.tag(checks.update_check(space, expected, _draft(change, check)))


@router.delete("/{check}", status_code=204)
def remove_check(space: Space, check: Name, expected: Expected) -> None:
    """Delete a check that no case uses."""
    checks.delete_check(space, check, expected)


@router.post("/{check}/cases")
def post_enabling(space: Space, check: Name, wanted: Enabling) -> CaseCount:
    """Enable a check on many cases, or remove it from them."""
    ids = case_ids(space, wanted.dataset, tag=wanted.tag, text=wanted.text, draft=wanted.draft)
    if wanted.remove:
        return CaseCount(count=check_uses.remove_check(space, wanted.dataset, ids, check).count)
    return CaseCount(count=check_uses.enable_check(space, wanted.dataset, ids, check))


def _draft(body: CheckChange, name: str) -> checks.CheckDraft:
    return checks.CheckDraft(name, body.type, body.params, body.title, body.description, body.examples)

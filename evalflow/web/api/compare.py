"""/compare: run B against run A, as the command `compare` tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from evalflow.app.core.comparison import LARGEST_MARGIN, SMALLEST_MARGIN, How, Kind
from evalflow.app.studio import comparing
from evalflow.web.api.deps import Page, Space

router = APIRouter(prefix="/compare", tags=["compare"])
RunId = Annotated[str, Query(max_length=200)]


class DifferenceOut(BaseModel):
    """How B differs from A in one number; null where there is none."""

    dataset: str
    metric: str
    statistic: str = Field(description="mean, pass_rate, or the name of a figure.")
    also: Sequence[str] = Field(description="Other statistics that are this very number.")
    judge: str | None
    tag: str | None
    also_tags: Sequence[str] = Field(description="Other tags of exactly these cases.")
    n: int = Field(description="Cases that both have scored.")
    clusters: int
    value_a: float | None
    value_b: float | None
    difference: float | None = Field(description="B minus A.")
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    p_adjusted: float | None
    method: str
    detectable_difference: float | None = Field(description="What these cases would find four times in five.")
    verdict: Literal["better", "worse", "cannot_tell"]
    not_worse: bool | None = Field(default=None, description="By more than the margin; null where nobody can tell.")


class FlipsOut(BaseModel):
    """The cases that changed, the worst first."""

    worsened: int = Field(description="Passed in A and fail in B.")
    improved: int
    cases: Sequence[dict[str, Any]]


class ComparisonOut(BaseModel):
    """What was compared, and what came of it."""

    runs: dict[str, dict[str, Any]] = Field(description="A, then B.")
    family: dict[str, Any] = Field(description="The tests that were adjusted together.")
    rows: Sequence[DifferenceOut]
    flips: Sequence[FlipsOut]
    notes: Sequence[str] = Field(description="What was left out, or allowed.")


class ObstacleOut(BaseModel):
    """Why two runs cannot be compared as they are."""

    kind: Kind = Field(description="What `allow` takes.")
    what: str


class CandidateOut(BaseModel):
    """A run that another one can be held against."""

    run_id: str
    title: str
    obstacles: Sequence[ObstacleOut]


@router.get("")
def read_comparison(
    space: Space,
    a: RunId,
    b: RunId,
    allow: Annotated[Sequence[Kind], Query(max_length=4, description="What may differ all the same.")] = (),
    adjust: Annotated[Literal["holm", "bh", "by"], Query(description="For the number of comparisons.")] = "holm",
    margin: Annotated[
        float | None,
        Query(ge=SMALLEST_MARGIN, le=LARGEST_MARGIN, allow_inf_nan=False, description="How much worse is acceptable."),
    ] = None,
    tags: Annotated[bool, Query(description="Also a row for each tag.")] = False,
    classes: Annotated[bool, Query(description="Also the figures of each class or label.")] = False,
) -> ComparisonOut:
    """Hold run B against run A, case by case."""
    found = comparing.compare_runs(space, a, b, How(allow, adjust, margin, tags, classes)).document()
    return ComparisonOut.model_validate(found)


@router.get("/candidates")
def read_candidates(space: Space, run: RunId) -> Page[CandidateOut]:
    """The runs that this one can be held against: first those that can be compared as they are, the newest first."""
    found = comparing.candidates(space, run)
    return Page[CandidateOut](items=[_candidate(one) for one in found])


def _candidate(found: comparing.ComparableRun) -> CandidateOut:
    obstacles = [ObstacleOut(kind=one.kind, what=one.what) for one in found.obstacles]
    return CandidateOut(run_id=found.run.run_id, title=found.run.title, obstacles=obstacles)

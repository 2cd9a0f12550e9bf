"""/runs/{run}/scores: what a run found."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.score_types import PassRate, Score, ScoreFilter
from evalflow.app.workspace.scores import get_score, list_scores, pass_rates
from evalflow.web.api.deps import Name, Space
from evalflow.web.api.paging import Cursor, Limit, Page

router = APIRouter(prefix="/runs/{run}", tags=["scores"])
Text = Annotated[str | None, Query(max_length=500)]
Number = Annotated[float | None, Query(allow_inf_nan=False)]


class Thresholds(BaseModel):
    """Other thresholds than the run's, by metric."""

    model_config = ConfigDict(extra="forbid")

    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default={}, max_length=200)


@router.get("/scores")
def read_scores(
    space: Space,
    run: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    metric: Text = None,
    status: Literal["scored", "undefined", "error", "skipped"] | None = None,
    tag: Annotated[str | None, Query(max_length=200, description="Of cases with this tag, or one below it.")] = None,
    text: Annotated[str | None, Query(max_length=500, description="With this in question, answer or case id.")] = None,
    low: Number = None,
    high: Number = None,
    passed: bool | None = None,
    sort: Annotated[
        Literal["input", "score", "-score"], Query(description="The order of the data; or of one metric, by score.")
    ] = "input",
) -> Page[Score]:
    """Fetch results: each score with its case, answer and reason."""
    wanted = ScoreFilter(metric=metric, status=status, tag=tag, text=text, low=low, high=high, passed=passed)
    found = list_scores(space, run, wanted, cursor, limit, sort=sort)
    return Page[Score](items=found.items, next=found.next)


@router.get("/scores/{score}")
def read_score(space: Space, run: Name, score: Name) -> Score:
    """One score with the judge's steps."""
    return get_score(space, run, score)


@router.post("/pass-rates")
def post_pass_rates(space: Space, run: Name, other: Thresholds) -> Page[PassRate]:
    """What shares pass, by these thresholds or else the run's; nothing is run again."""
    return Page[PassRate](items=pass_rates(space, run, other.thresholds))

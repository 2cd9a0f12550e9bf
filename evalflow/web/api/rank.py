"""/rank: several runs in order, like the command `rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from evalflow.app.core.comparison import Kind
from evalflow.app.studio import comparing
from evalflow.web.api.deps import Space

router = APIRouter(prefix="/rank", tags=["rank"])
MOST_RUNS = 50


class RankedOut(BaseModel):
    """A run's value, its rank, and the ranks that it may have."""

    run: str
    value: float
    ci_low: float | None = Field(description="95 % interval of the value alone.")
    ci_high: float | None
    rank: int
    rank_low: int = Field(description="The best rank that it may have; all ranges hold together with 95 % confidence.")
    rank_high: int
    n_left_out: int = Field(description="Its scored cases that another run did not score.")


class RankingOut(BaseModel):
    """The runs by one metric, the best first."""

    dataset: str
    metric: str
    judge: str | None
    by: Literal["mean", "pass_rate", "pairs", "verdicts"] = Field(
        description="pairs and verdicts: strengths (Bradley-Terry), from scores or from a pairwise metric."
    )
    higher_is_better: bool
    n: int = Field(description="Cases that all runs scored.")
    clusters: int
    confidence: float
    method: str
    sentences: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[RankedOut]


class ItemsOut(BaseModel):
    """The cases of one metric: which separate the runs, and which may have a wrong key."""

    dataset: str
    metric: str
    runs: int
    n: int
    counts: dict[str, int]
    sentences: Sequence[str]
    cases: Sequence[dict[str, Any]]


class StandingsOut(BaseModel):
    """The rankings of some runs."""

    runs: dict[str, dict[str, Any]]
    rankings: Sequence[RankingOut]
    items: Sequence[ItemsOut]
    notes: Sequence[str] = Field(description="What was left out or allowed.")


@router.get("", response_model=StandingsOut)
def read_ranking(
    space: Space,
    run: Annotated[Sequence[str], Query(min_length=1, max_length=MOST_RUNS, description="Ids of the runs.")],
    metric: Annotated[str | None, Query(max_length=200, description="Only this metric.")] = None,
    pairwise: Annotated[bool, Query(description="Also by strength, from every two runs' scores of a case.")] = False,
    items: Annotated[bool, Query(description="Also a table of cases.")] = False,
    allow: Annotated[Sequence[Kind], Query(max_length=4, description="Obstacles to ignore.")] = (),
) -> Mapping[str, Any]:
    """Rank runs on the cases that all of them scored."""
    return comparing.rank(space, run, metric=metric, pairwise=pairwise, items=items, allow=allow).document()

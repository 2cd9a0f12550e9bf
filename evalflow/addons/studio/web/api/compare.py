"""/compare and /rank: runs compared and in order, like the commands `compare` and `rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from evalflow.addons.studio.web.api.deps import Space
from evalflow.addons.studio.work import comparing
from evalflow.addons.studio.work.space import Page
from evalflow.app.core.changed import Kind, Obstacle
from evalflow.app.core.comparison import LARGEST_MARGIN, SMALLEST_MARGIN, ComparisonOptions
from evalflow.summary.changed import Attribution
from evalflow.summary.verdicts import Verdict

router = APIRouter(prefix="/compare", tags=["compare"])
RunId = Annotated[str, Query(max_length=200)]


class DifferenceOut(BaseModel):
    """How B differs from A in one number; null if unknown."""

    dataset: str
    metric: str
    statistic: str = Field(description="mean, pass_rate, or the name of a figure.")
    also: Sequence[str] = Field(description="Other statistics with the same number.")
    judge: str | None
    tag: str | None
    also_tags: Sequence[str] = Field(description="Other tags of the same cases.")
    n: int = Field(description="Cases scored in both runs.")
    clusters: int
    value_a: float | None
    value_b: float | None
    difference: float | None = Field(description="B minus A.")
    std_error: float | None
    ci_low: float | None = Field(description="The 95 % interval of this difference by itself, not adjusted.")
    ci_high: float | None
    p_value: float | None = Field(description="Not adjusted.")
    p_adjusted: float | None = Field(description="Adjusted over all rows, as `family` says; the verdict follows it.")
    method: str
    detectable_difference: float | None = Field(
        description="The true difference that this many cases find with a power of 80 %."
    )
    verdict: Verdict = Field(description="higher or lower, not better or worse, if not only the answers may differ.")
    attribution: Attribution = Field(description="What the difference speaks of; see `changed`.")
    n_labels: int = Field(description="Cases that people labelled in each run; in the one with fewer.")
    uncorrected: str = Field(
        default="", description="Why these labels do not correct the difference; empty if they do."
    )
    judged: dict[str, float | None] | None = Field(
        description="The judge's own difference, if people's labels corrected this one; else null."
    )
    not_worse: bool | None = Field(default=None, description="Not worse by more than the margin; null if undecided.")
    cases_needed: int | None = Field(default=None, description="Cases that would decide that; null if unknown.")


class FlipsOut(BaseModel):
    """The cases that changed, each once by its worst drop, else its largest rise; the worst first, at most 200."""

    worsened: int = Field(description="Cases that passed in A and fail in B, in any metric.")
    improved: int = Field(description="Cases that failed in A and pass in B, in any metric; none to fail.")
    rescored: int = Field(description="Cases with another score of a metric without pass or fail, and no flip.")
    cases: Sequence[dict[str, Any]] = Field(description="`others` are a case's other metrics that changed.")


class ComparisonOut(BaseModel):
    """A comparison."""

    runs: dict[str, dict[str, Any]] = Field(description="A, then B.")
    family: dict[str, Any] = Field(description="The tests that were adjusted together.")
    rows: Sequence[DifferenceOut]
    flips: Sequence[FlipsOut]
    sentence: str = Field(description="What the comparison says.")
    changed: Sequence[dict[str, Any]] = Field(
        description="What differs between the runs, and how far the judges of the same answers agree with people."
    )
    preferences: Sequence[dict[str, Any]] = Field(description="Which answers people prefer, in reviews of both runs.")
    adjusted_means: Sequence[dict[str, Any]] = Field(description="B's means, adjusted by A's scores of more cases.")
    notes: Sequence[str] = Field(description="What was left out or allowed.")


class CandidateOut(BaseModel):
    """A run that another one can be compared with."""

    run_id: str
    title: str
    obstacles: Sequence[Obstacle]


@router.get("", response_model=ComparisonOut)
def read_comparison(
    space: Space,
    a: RunId,
    b: RunId,
    allow: Annotated[Sequence[Kind], Query(max_length=4, description="Obstacles to ignore.")] = (),
    adjust: Annotated[
        Literal["holm", "bh", "by"], Query(description="Correction for the number of comparisons.")
    ] = "holm",
    margin: Annotated[
        float | None,
        Query(ge=SMALLEST_MARGIN, le=LARGEST_MARGIN, allow_inf_nan=False, description="The acceptable loss."),
    ] = None,
    tags: Annotated[bool, Query(description="Also a row for each tag.")] = False,
    classes: Annotated[bool, Query(description="Also the figures of each class.")] = False,
) -> Mapping[str, Any]:
    """Compare run B with run A, case by case."""
    return comparing.compare_runs(space, a, b, ComparisonOptions(allow, adjust, margin, tags, classes)).document()


@router.get("/candidates")
def read_candidates(space: Space, run: RunId) -> Page[CandidateOut]:
    """Runs to compare this one with: those without obstacles first, then the newest first."""
    candidates = comparing.candidates(space, run)
    return Page(
        [CandidateOut(run_id=one.run.run_id, title=one.run.title, obstacles=one.obstacles) for one in candidates]
    )


rank_router = APIRouter(prefix="/rank", tags=["rank"])
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
    raw_value: float | None = Field(description="What the judge alone says, if people's labels correct the value.")
    raw_low: float | None
    raw_high: float | None


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
    n_labels: int = Field(description="Cases that people labelled in each run; in the one with the fewest.")
    uncorrected: str = Field(description="Why these labels do not correct the values; empty if they do.")
    attribution: Attribution = Field(description="What the order speaks of: unless `answers`, no run is the best.")
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


@rank_router.get("", response_model=StandingsOut)
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

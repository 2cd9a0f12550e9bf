"""/bots/{bot}/metrics and /metrics (the library)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Response
from pydantic import BaseModel, Field

from evalflow.addons.studio.web.api.deps import Name, Paging, RequestBody, Space, Title
from evalflow.addons.studio.work.metric_trial import preview_metric, try_metric, write_steps
from evalflow.addons.studio.work.metrics import (
    MetricDefinition,
    MetricDraft,
    copy_metric,
    get_library,
    list_library,
    list_metrics,
    replace_metrics,
)
from evalflow.addons.studio.work.sent_prompts import PromptPreview
from evalflow.addons.studio.work.space import Page
from evalflow.addons.studio.work.trial_process import WrittenSteps

bot_router = APIRouter(prefix="/bots/{bot}/metrics", tags=["metrics"])
_ETAG = re.compile(r'"((?:[a-z][a-z0-9_]{0,99}:\d{1,18}(?:,(?!"))?)*)"\Z')
MOST_METRICS = 200
"""Maximum number of metrics of a bot."""


class Metrics(RequestBody):
    """All metrics of a bot."""

    items: list[MetricDraft] = Field(max_length=MOST_METRICS)


class MetricCopy(RequestBody):
    """A copy of a metric."""

    source: str = Field(max_length=200, description="The name of the metric to copy.")
    name: str = Field(max_length=200)
    title: Title = None
    of: str | None = Field(default=None, max_length=200, description="The bot whose metric it is; null: the library.")


class Previewed(RequestBody):
    """A metric that is being defined, and a case to try it on."""

    metric: MetricDraft
    case: dict[str, Any] = Field(description="By field name, with an answer: question, answer, ...")


class TriedScore(BaseModel):
    """A score of the case, as a run would have it."""

    metric: str
    judge: str | None
    status: Literal["scored", "undefined", "error", "skipped"]
    score: float | None
    value: Any = Field(description="On the metric's own scale.")
    reason: str | None
    steps: Sequence[Any] = Field(description="What the judge replied, step by step.")
    error: str | None
    path: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_s: float | None


class MetricTried(BaseModel):
    """The answer that was scored, and its scores; several if the metric has checks."""

    status: Literal["answered", "absent", "error"]
    answer: str | None
    actual: Any = Field(description="A reply of the bot that is not text.")
    error: str | None
    scores: Sequence[TriedScore]


def _expected(
    if_match: Annotated[str | None, Header(description='The ETag of GET; `""` if there was no metric.')] = None,
) -> dict[str, int]:
    if if_match is None:
        raise HTTPException(428, "send If-Match with the ETag of GET, so that nobody's change is lost")
    match = _ETAG.match(if_match.strip())
    if match is None:
        raise HTTPException(400, 'If-Match must be an ETag that GET returned, such as "faithfulness:3,tone:1"')
    pairs = (entry.partition(":") for entry in match[1].split(",") if entry)
    return {name: int(version) for name, _, version in pairs}


@bot_router.get("")
def read_metrics(space: Space, bot: Name, response: Response) -> Page[MetricDefinition]:
    """All metrics of a bot, by name."""
    return _all(list_metrics(space, bot), response)


@bot_router.put("")
def put_metrics(
    space: Space,
    bot: Name,
    metrics: Metrics,
    expected: Annotated[dict[str, int], Depends(_expected)],
    response: Response,
) -> Page[MetricDefinition]:
    """Replace all metrics of a bot; if one is wrong, nothing changes."""
    return _all(replace_metrics(space, bot, metrics.items, expected), response)


@bot_router.post("/preview")
async def post_preview(space: Space, bot: Name, asked: Previewed) -> PromptPreview:
    """The prompts that the judge would get for a case; nothing is sent or saved, and no key is needed."""
    return await space.render(lambda: preview_metric(space, bot, asked.metric, asked.case))


@bot_router.post("/steps")
async def post_steps(space: Space, bot: Name, metric: MetricDraft) -> WrittenSteps:
    """Have the judge write the steps of a G-Eval metric from its criteria: one paid call; nothing is saved."""
    return await space.ask(lambda: write_steps(space, bot, metric))


@bot_router.post("/try")
async def post_trial(space: Space, bot: Name, asked: Previewed) -> MetricTried:
    """Score one case as a run would; this pays for the judge, and for the bot if the case has no answer."""
    trial = await space.ask(lambda: try_metric(space, bot, asked.metric, asked.case))
    answer = trial.answer
    scores = [TriedScore.model_validate(score, from_attributes=True) for score in trial.scores]
    return MetricTried(
        status=answer.status, answer=answer.answer, actual=answer.actual, error=answer.error, scores=scores
    )


@bot_router.post("", status_code=201)
def post_metric_copy(space: Space, bot: Name, copy: MetricCopy) -> MetricDefinition:
    """Copy a metric of the library, or of another bot."""
    return copy_metric(space, copy.source, bot, copy.name, of=copy.of, title=copy.title)


def _all(metrics: list[MetricDefinition], response: Response) -> Page[MetricDefinition]:
    response.headers["ETag"] = '"' + ",".join(f"{metric.name}:{metric.version}" for metric in metrics) + '"'
    return Page(metrics)


router = APIRouter(prefix="/metrics", tags=["metrics"])


@router.get("")
def read_library(space: Space, paging: Paging) -> Page[MetricDefinition]:
    """The metrics that conf/ declares."""
    return paging.of(sorted(list_library(space), key=lambda metric: metric.name), lambda metric: (metric.name,))


@router.get("/{metric}")
def read_metric(space: Space, metric: Name) -> MetricDefinition:
    """One metric of the library, with the prompts that it uses."""
    return get_library(space, metric)

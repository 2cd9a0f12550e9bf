"""/bots/{bot}/metrics: how a bot is evaluated, saved and retrieved as a whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.metric_trial import PromptPreview, preview_metric, try_metric, write_steps
from evalflow.app.workspace.metrics import Metric, MetricDraft, copy_metric, list_metrics, replace_metrics
from evalflow.records import Usage
from evalflow.web.api.deps import Name, Space
from evalflow.web.api.paging import Page

router = APIRouter(prefix="/bots/{bot}/metrics", tags=["metrics"])
_ETAG = re.compile(r'"((?:[a-z][a-z0-9_]{0,99}:\d{1,18}(?:,(?!"))?)*)"\Z')
MANY = 200
"""Metrics of a bot."""


class MetricIn(BaseModel):
    """A metric as it is to be."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)
    definition: dict[str, Any] = Field(description="The content of a metric's YAML.")
    prompts: dict[str, str] | None = Field(default=None, description="Templates of its own, as NAME/FILE.jinja.")


class Metrics(BaseModel):
    """All metrics of a bot."""

    model_config = ConfigDict(extra="forbid")

    items: list[MetricIn] = Field(max_length=MANY)


class MetricCopy(BaseModel):
    """A metric to add like another one."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(max_length=200, description="The name of what is copied.")
    name: str = Field(max_length=200)
    of: str | None = Field(default=None, max_length=200, description="The bot whose metric it is; null: the library.")


class Previewed(BaseModel):
    """A metric that is being defined, and a case to see its prompts with."""

    model_config = ConfigDict(extra="forbid")

    metric: MetricIn
    case: dict[str, Any] = Field(description="Under its fields' names, with an answer: question, answer, ...")


class Written(BaseModel):
    """Steps that a judge wrote, and what that took."""

    steps: Sequence[str]
    judge: str
    usage: Usage | None
    cost_usd: float | None = Field(description="null where a price is unknown.")
    latency_s: float | None


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


class Tried(BaseModel):
    """What became of the case: the answer that was scored, and its scores, several where the metric has checks."""

    status: Literal["answered", "absent", "error"]
    answer: str | None
    actual: Any = Field(description="What the bot gave where that is no text.")
    error: str | None
    scores: Sequence[TriedScore]


def _expected(
    if_match: Annotated[str | None, Header(description='The ETag of GET; `""` where there was no metric.')] = None,
) -> dict[str, int]:
    """The versions that the change was made from, which the ETag spells out."""
    if if_match is None:
        raise HTTPException(428, "send If-Match with the ETag of GET, so that nobody's change is lost")
    found = _ETAG.match(if_match.strip())
    if found is None:
        raise HTTPException(400, 'If-Match is an ETag as it came, such as "faithfulness:3,tone:1"')
    pairs = (entry.partition(":") for entry in found[1].split(",") if entry)
    return {name: int(version) for name, _, version in pairs}


@router.get("")
def read_metrics(space: Space, bot: Name, response: Response) -> Page[Metric]:
    """Retrieve the configuration: all metrics of a bot, by name."""
    return _answer(list_metrics(space, bot), response)


@router.put("")
def put_metrics(
    space: Space,
    bot: Name,
    metrics: Metrics,
    expected: Annotated[dict[str, int], Depends(_expected)],
    response: Response,
) -> Page[Metric]:
    """Save the configuration: the bot's metrics become exactly these, or nothing is done."""
    return _answer(replace_metrics(space, bot, [_draft(metric) for metric in metrics.items], expected), response)


@router.post("/preview")
async def post_preview(space: Space, bot: Name, asked: Previewed) -> PromptPreview:
    """The very prompts that a judge would be sent for a case; nothing is sent or kept, and no key is needed."""
    return await space.render(lambda: preview_metric(space, bot, _draft(asked.metric), asked.case))


@router.post("/steps")
async def post_steps(space: Space, bot: Name, metric: MetricIn) -> Written:
    """Have the judge write the steps of a G-Eval by its criteria; it is one call, which is paid for, and not kept."""
    found = await space.ask(lambda: write_steps(space, bot, _draft(metric)))
    return Written(
        steps=found.steps, judge=found.judge, usage=found.usage, cost_usd=found.cost_usd, latency_s=found.latency_s
    )


@router.post("/try")
async def post_trial(space: Space, bot: Name, asked: Previewed) -> Tried:
    """Score one case as a run would: the judge's calls are paid for, and the bot's where the case has no answer."""
    found = await space.ask(lambda: try_metric(space, bot, _draft(asked.metric), asked.case))
    said = found.answer
    scores = [TriedScore(**{name: getattr(score, name) for name in TriedScore.model_fields}) for score in found.scores]
    return Tried(status=said.status, answer=said.answer, actual=said.actual, error=said.error, scores=scores)


@router.post("", status_code=201)
def post_copy(space: Space, bot: Name, copy: MetricCopy) -> Metric:
    """Add a metric like one of the library, or of another bot."""
    return copy_metric(space, copy.source, bot, copy.name, of=copy.of)


def _draft(metric: MetricIn) -> MetricDraft:
    return MetricDraft(metric.name, metric.definition, metric.prompts)


def _answer(metrics: list[Metric], response: Response) -> Page[Metric]:
    response.headers["ETag"] = '"' + ",".join(f"{metric.name}:{metric.version}" for metric in metrics) + '"'
    return Page[Metric](items=metrics)

"""/bots, /bots/{bot}/metrics and /bots/{bot}/try."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.studio.bots import (
    LONGEST_QUESTION,
    Bot,
    copy_bot,
    create_bot,
    delete_bot,
    get_bot,
    list_bots,
    try_bot,
    update_bot,
)
from evalflow.app.studio.metric_trial import PromptPreview, preview_metric, try_metric, write_steps
from evalflow.app.studio.metrics import MetricDefinition, MetricDraft, copy_metric, list_metrics, replace_metrics
from evalflow.records import Usage
from evalflow.web.api.deps import Cursor, Expected, Limit, Name, Page, Space, created, page_of, tagged

router = APIRouter(prefix="/bots", tags=["bots"])


class NewBot(BaseModel):
    """A bot to define."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200, description="Lower-case letters, digits and _.")
    description: str = Field(default="", max_length=10_000)
    config: dict[str, Any] = Field(description="A target's configuration: kind (openai, http, recorded) and its keys.")


class BotCopy(BaseModel):
    """A bot to define like another one."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)
    changes: dict[str, Any] = Field(default={}, description="Keys of the configuration with other values.")


class BotChange(BaseModel):
    """What is to change of a bot; what is not there stays."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, max_length=200)
    description: str | None = Field(default=None, max_length=10_000)
    config: dict[str, Any] | None = Field(default=None, description="The whole configuration.")


@router.get("")
def read_bots(space: Space, cursor: Cursor = None, limit: Limit = 50) -> Page[Bot]:
    """All bots: those defined here by name, then those that conf/ declares."""
    return page_of(list_bots(space), lambda bot: (bot.origin == "conf", bot.name), cursor, limit)


@router.post("", status_code=201)
def post_bot(space: Space, new: NewBot, request: Request, response: Response) -> Bot:
    """Define a bot."""
    bot = create_bot(space, new.name, new.config, new.description)
    created(request, response, bot.name, bot.version)
    return bot


@router.get("/{bot}")
def read_bot(space: Space, bot: Name, response: Response) -> Bot:
    """One bot."""
    found = get_bot(space, bot)
    tagged(response, found.version)
    return found


@router.post("/{bot}/copies", status_code=201)
def post_copy(space: Space, bot: Name, copy: BotCopy, response: Response) -> Bot:
    """Define a bot like this one, which may be of conf/."""
    made = copy_bot(space, bot, copy.name, copy.changes)
    tagged(response, made.version)
    return made


@router.patch("/{bot}")
def patch_bot(space: Space, bot: Name, change: BotChange, expected: Expected, response: Response) -> Bot:
    """Change a bot."""
    changed = update_bot(
        space, bot, expected, config=change.config, description=change.description, new_name=change.name
    )
    tagged(response, changed.version)
    return changed


@router.delete("/{bot}", status_code=204)
def remove_bot(space: Space, bot: Name, expected: Expected) -> None:
    """Delete a bot and its metrics; its runs stay."""
    delete_bot(space, bot, expected)


metrics_router = APIRouter(prefix="/bots/{bot}/metrics", tags=["metrics"])
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


class MetricTried(BaseModel):
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


@metrics_router.get("")
def read_metrics(space: Space, bot: Name, response: Response) -> Page[MetricDefinition]:
    """Retrieve the configuration: all metrics of a bot, by name."""
    return _answer(list_metrics(space, bot), response)


@metrics_router.put("")
def put_metrics(
    space: Space,
    bot: Name,
    metrics: Metrics,
    expected: Annotated[dict[str, int], Depends(_expected)],
    response: Response,
) -> Page[MetricDefinition]:
    """Save the configuration: the bot's metrics become exactly these, or nothing is done."""
    return _answer(replace_metrics(space, bot, [_draft(metric) for metric in metrics.items], expected), response)


@metrics_router.post("/preview")
async def post_preview(space: Space, bot: Name, asked: Previewed) -> PromptPreview:
    """The very prompts that a judge would be sent for a case; nothing is sent or kept, and no key is needed."""
    return await space.render(lambda: preview_metric(space, bot, _draft(asked.metric), asked.case))


@metrics_router.post("/steps")
async def post_steps(space: Space, bot: Name, metric: MetricIn) -> Written:
    """Have the judge write the steps of a G-Eval by its criteria; it is one call, which is paid for, and not kept."""
    found = await space.ask(lambda: write_steps(space, bot, _draft(metric)))
    return Written(
        steps=found.steps, judge=found.judge, usage=found.usage, cost_usd=found.cost_usd, latency_s=found.latency_s
    )


@metrics_router.post("/try")
async def post_trial(space: Space, bot: Name, asked: Previewed) -> MetricTried:
    """Score one case as a run would: the judge's calls are paid for, and the bot's where the case has no answer."""
    found = await space.ask(lambda: try_metric(space, bot, _draft(asked.metric), asked.case))
    said = found.answer
    scores = [TriedScore(**{name: getattr(score, name) for name in TriedScore.model_fields}) for score in found.scores]
    return MetricTried(status=said.status, answer=said.answer, actual=said.actual, error=said.error, scores=scores)


@metrics_router.post("", status_code=201)
def post_metric_copy(space: Space, bot: Name, copy: MetricCopy) -> MetricDefinition:
    """Add a metric like one of the library, or of another bot."""
    return copy_metric(space, copy.source, bot, copy.name, of=copy.of)


def _draft(metric: MetricIn) -> MetricDraft:
    return MetricDraft(metric.name, metric.definition, metric.prompts)


def _answer(metrics: list[MetricDefinition], response: Response) -> Page[MetricDefinition]:
    response.headers["ETag"] = '"' + ",".join(f"{metric.name}:{metric.version}" for metric in metrics) + '"'
    return Page[MetricDefinition](items=metrics)


trial_router = APIRouter(prefix="/bots/{bot}", tags=["bots"])


class Question(BaseModel):
    """What a user asks."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)


class Tried(BaseModel):
    """What a bot said; in state error, why it did not."""

    status: Literal["answered", "absent", "error"]
    answer: str | None
    actual: Any = Field(description="What it gave where that is no text.")
    contexts: int | None = Field(description="How many it gave along; null: none were asked for.")
    error: str | None
    latency_s: float | None
    cost_usd: float | None


@trial_router.post("/try")
async def post_question(space: Space, bot: Name, asked: Question) -> Tried:
    """Ask a bot; nothing is kept, and nothing is taken from what was kept."""
    found = await to_thread.run_sync(get_bot, space, bot)
    said = await space.ask(lambda: try_bot(bot, found.config, asked.question))
    return Tried(
        status=said.status,
        answer=said.answer,
        actual=said.actual,
        contexts=None if said.contexts is None else len(said.contexts),
        error=said.error,
        latency_s=said.latency_s,
        cost_usd=said.cost_usd,
    )

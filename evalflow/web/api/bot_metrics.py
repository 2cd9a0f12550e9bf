"""/bots/{bot}/metrics: how a bot is evaluated, saved and retrieved as a whole."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.metric_trial import PromptPreview, preview_metric
from evalflow.app.workspace.metrics import Metric, MetricDraft, copy_metric, list_metrics, replace_metrics
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
    drafts = [MetricDraft(metric.name, metric.definition, metric.prompts) for metric in metrics.items]
    return _answer(replace_metrics(space, bot, drafts, expected), response)


@router.post("/preview")
def post_preview(space: Space, bot: Name, asked: Previewed) -> PromptPreview:
    """The very prompts that a judge would be sent for a case; nothing is sent or kept, and no key is needed."""
    draft = MetricDraft(asked.metric.name, asked.metric.definition, asked.metric.prompts)
    return preview_metric(space, bot, draft, asked.case)


@router.post("", status_code=201)
def post_copy(space: Space, bot: Name, copy: MetricCopy) -> Metric:
    """Add a metric like one of the library, or of another bot."""
    return copy_metric(space, copy.source, bot, copy.name, of=copy.of)


def _answer(metrics: list[Metric], response: Response) -> Page[Metric]:
    response.headers["ETag"] = '"' + ",".join(f"{metric.name}:{metric.version}" for metric in metrics) + '"'
    return Page[Metric](items=metrics)

"""/bots and /bots/{bot}/try."""

from __future__ import annotations

from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field

from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space, Title
from evalflow.addons.studio.work import bots
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/bots", tags=["bots"])


class NewBot(RequestBody):
    """A bot to define."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and _.")
    title: Title = None
    description: str = Field(default="", max_length=10_000)
    config: dict[str, Any] = Field(description="A target's configuration: kind (openai, http, recorded) and its keys.")


class BotCopy(RequestBody):
    """A copy of a bot."""

    name: str = Field(max_length=200)
    title: Title = None
    changes: dict[str, Any] = Field(default={}, description="Keys of the configuration with other values.")


class BotChange(RequestBody):
    """Changes to a bot; fields that are left out are unchanged."""

    name: str | None = Field(default=None, max_length=200)
    title: Title = None
    description: str | None = Field(default=None, max_length=10_000)
    config: dict[str, Any] | None = Field(default=None, description="The whole configuration.")


class Question(RequestBody):
    """A question to a bot."""

    question: str = Field(min_length=1, max_length=bots.LONGEST_QUESTION)


class Tried(BaseModel):
    """A bot's answer; `error` says why there is none."""

    status: Literal["answered", "absent", "error"]
    answer: str | None
    actual: Any = Field(description="A reply that is not text.")
    contexts: int | None = Field(description="How many passages came with it; null: the bot returns none.")
    error: str | None
    latency_s: float | None
    cost_usd: float | None


@router.get("")
def read_bots(space: Space, paging: Paging) -> Page[bots.Bot]:
    """All bots: those defined here by name, then those that conf/ declares."""
    return paging.of(bots.list_bots(space), lambda bot: (bot.origin == "conf", bot.name))


@router.post("", status_code=201)
def post_bot(space: Space, new: NewBot, headers: Headers) -> bots.Bot:
    """Define a bot."""
    bot = bots.create_bot(space, new.name, new.config, new.description, new.title)
    return headers.locate(bot, bot.name)


@router.get("/{bot}")
def read_bot(space: Space, bot: Name, headers: Headers) -> bots.Bot:
    """One bot."""
    return headers.tag(bots.get_bot(space, bot))


@router.post("/{bot}/copies", status_code=201)
def post_copy(space: Space, bot: Name, copy: BotCopy, headers: Headers) -> bots.Bot:
    """Copy a bot, which may be declared in conf/."""
    return headers.tag(bots.copy_bot(space, bot, copy.name, copy.changes, copy.title))


@router.patch("/{bot}")
def patch_bot(space: Space, bot: Name, change: BotChange, expected: Expected, headers: Headers) -> bots.Bot:
    """Change a bot."""
    changed = bots.update_bot(
        *(space, bot, expected),
        config=change.config,
        description=change.description,
        new_name=change.name,
        title=change.title,
    )
    return headers.tag(changed)


@router.delete("/{bot}", status_code=204)
def remove_bot(space: Space, bot: Name, expected: Expected) -> None:
    """Delete a bot and its metrics; its runs stay."""
    bots.delete_bot(space, bot, expected)


@router.post("/{bot}/try")
async def post_question(space: Space, bot: Name, asked: Question) -> Tried:
    """Ask a bot; nothing is cached or saved."""
    definition = await to_thread.run_sync(bots.get_bot, space, bot)
    answer = await space.ask(lambda: bots.try_bot(space, bot, definition.config, asked.question))
    return Tried(
        status=answer.status,
        answer=answer.answer,
        actual=answer.actual,
        contexts=None if answer.contexts is None else len(answer.contexts),
        error=answer.error,
        latency_s=answer.latency_s,
        cost_usd=answer.cost_usd,
    )

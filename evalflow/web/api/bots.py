"""/bots: what is evaluated."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.bots import Bot, copy_bot, create_bot, delete_bot, get_bot, list_bots, update_bot
from evalflow.web.api.deps import Expected, Name, Space, created, tagged
from evalflow.web.api.paging import Cursor, Limit, Page, page_of

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

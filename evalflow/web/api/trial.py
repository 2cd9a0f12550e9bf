"""/bots/{bot}/try: a question to a bot, before anything is run with it."""

from __future__ import annotations

from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.bots import get_bot
from evalflow.app.workspace.trial import LONGEST_QUESTION, try_bot
from evalflow.web.api.deps import Name, Space

router = APIRouter(prefix="/bots/{bot}", tags=["bots"])


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


@router.post("/try")
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

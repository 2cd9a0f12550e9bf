"""The configuration of simulated users: who plays the user of cases that have a scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalflow.config.judges import TypedReplyConfig
from evalflow.config.schema import SimulatorConfig, Word
from evalflow.config.targets import SpendLimits


class ConversationLimits(SpendLimits):
    """What one simulated conversation may take, looked at after each call; it ends at the first limit it reaches.

    Attributes:
        turns: Answers of the target, without those that the opening of a case has already.
        tokens: Tokens of both sides together; null: no limit.
        usd: US dollars of both sides together; null: no limit.
        seconds: Seconds of the calls of both sides together; null: no limit.
    """

    turns: int = Field(default=10, ge=1, le=100)


class ScriptedSimulatorConfig(SimulatorConfig):
    """The same messages in every case, without a model.

    Attributes:
        replies: What the user says, in order; the conversation ends when all has been answered.
        limits: What one conversation may take.
    """

    kind: Literal["scripted"]  # pyright: ignore[reportIncompatibleVariableOverride]
    replies: list[Word] = Field(min_length=1)
    limits: ConversationLimits = ConversationLimits()

    @property
    def turns(self) -> int:
        return min(self.limits.turns, len(self.replies) + 1)  # one more where the case has an opening


class OpenAISimulatorConfig(TypedReplyConfig, SimulatorConfig):
    """A model behind an OpenAI-compatible endpoint plays the user.

    Attributes:
        prompt: The name of a .jinja file, which tells the model what to say next.
        limits: What one conversation may take.
        batch: Never: a conversation would take a batch for each of its turns.
    """

    batch: Literal[False] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    prompt: str = "simulator/turn.jinja"
    limits: ConversationLimits = ConversationLimits()

    @property
    def turns(self) -> int:
        return self.limits.turns

"""The configuration of simulated users, which play the user in cases with a scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalflow.config.judges import TypedReplyConfig
from evalflow.config.schema import BaseSimulatorConfig, Word
from evalflow.config.targets import SpendLimits


class ConversationLimits(SpendLimits):
    """Limits of one simulated conversation, checked after each call; it ends at the first limit it reaches.

    Attributes:
        turns: Answers of the target, not counting those already in the case.
        tokens: Tokens of both sides together; null: no limit.
        usd: US dollars of both sides together; null: no limit.
        seconds: Seconds of the calls of both sides together; null: no limit.

    Example:
        >>> ConversationLimits(turns=6, usd=0.05).usd
        0.05
    """

    turns: int = Field(default=10, ge=1, le=100)


class SimulatorConfig(BaseSimulatorConfig):
    """Keys that every simulated user has.

    Attributes:
        limits: What one conversation may take.

    Example:
        >>> class NurseConfig(SimulatorConfig):
        ...     patience: int = 3
        >>> NurseConfig(kind="nurse", limits={"turns": 5}).turns
        5
    """

    limits: ConversationLimits = ConversationLimits()

    @property
    def turns(self) -> int:
        return self.limits.turns


class ScriptedSimulatorConfig(SimulatorConfig):
    """The same messages in every case, without a model.

    Attributes:
        replies: The user's messages in order; the conversation ends when all have been answered.
    """

    kind: Literal["scripted"]  # pyright: ignore[reportIncompatibleVariableOverride]
    replies: list[Word] = Field(min_length=1)

    @property
    def turns(self) -> int:
        return min(self.limits.turns, len(self.replies) + 1)  # one more if the case has an opening


class OpenAISimulatorConfig(TypedReplyConfig, SimulatorConfig):
    """A model behind an OpenAI-compatible endpoint plays the user.

    Attributes:
        prompt: The name of a .jinja file that tells the model what to say next.
        batch: Always false: a conversation would need one batch per turn.
    """

    batch: Literal[False] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    prompt: str = "simulator/turn.jinja"

"""Simulated users: a model or a script writes the user's next message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evalflow.calls.client import CallSession
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.config.simulators import OpenAISimulatorConfig, ScriptedSimulatorConfig
from evalflow.errors import CallError, UserError
from evalflow.llm.chat import identity
from evalflow.llm.judge import DECISIVE, OpenAIJudge
from evalflow.llm.registry import CONTRACTS
from evalflow.prompts import Prompts, not_given
from evalflow.prompts import messages as rendered
from evalflow.records import Ask, Case, Message, SimulatedTurn

VARIABLES = ("scenario", "persona", "goal", "facts", "brief", "messages")
"""The variables of a simulator's prompt."""
SPOKE_AS_BOT = "the message speaks for the assistant"
_LABEL = re.compile(r"^[\s*_>#\[(]*(assistant|chatbot|bot)\b[\s*_\])]*:", re.IGNORECASE | re.MULTILINE)


class UserTurn(BaseModel):
    """The user's next action."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(description="why, in one short sentence")
    state: Literal["goes_on", "goal_reached", "gave_up"]
    message: str = Field(description="what the user says next; empty if the conversation is over")

    @field_validator("message")
    @classmethod
    def _own_words(cls, message: str) -> str:
        if _LABEL.search(message):
            raise ValueError(f"{SPOKE_AS_BOT}; write only what the user says, without labels")
        return message

    @model_validator(mode="after")
    def _has_message(self) -> UserTurn:
        if self.state == "goes_on" and not self.message.strip():
            raise ValueError("the message is empty; say something, or end the conversation by the state")
        return self


class ModelSimulator:
    """A model plays the user. It sees the brief and the conversation as data, in one prompt, and gives a `UserTurn`."""

    def __init__(self, config: OpenAISimulatorConfig, name: str, prompts: Prompts, session: CallSession) -> None:
        self.name = name
        self.limits = config.limits
        self._template = prompts.get(config.prompt)
        self._where = f"simulator.prompt, {config.prompt}"
        used = prompts.variables(config.prompt)
        if problems := [*not_given(used, VARIABLES, self._where, "a simulator")]:
            raise UserError(problems)
        shared = config.model_dump(include=set(OpenAIJudgeConfig.model_fields) & set(type(config).model_fields))
        judge = OpenAIJudgeConfig.model_validate(shared)
        self._model = OpenAIJudge(judge, name, session, contracts=CONTRACTS, role="simulator")
        decisive = tuple(key for key in DECISIVE if key in shared)
        self.identity = identity("simulator", config, decisive, prompts.digest([config.prompt]))

    async def speak(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> SimulatedTurn:
        fields = {name: getattr(case, name) for name in VARIABLES}
        prompt = rendered(self._template, {**fields, "messages": messages}, self._where)
        reply = await self._model.ask(
            Ask(
                metric="simulator",
                step="turn",
                task=None,
                messages=prompt,
                reply_model=UserTurn,
                variables={},
                repeat=repeat,
            )
        )
        user = reply.parsed
        assert isinstance(user, UserTurn)
        if user.state == "goes_on" and user.message.strip() == _last_words(messages):
            raise CallError("schema", f"{SPOKE_AS_BOT}: it repeats its last answer", user.message, reply.spend)
        return SimulatedTurn(state=user.state, message=user.message, reason=user.reason, spend=reply.spend)

    async def close(self) -> None:
        await self._model.close()


def _last_words(messages: Sequence[Message]) -> str | None:
    last = messages[-1] if messages else None
    return last.content.strip() if last is not None and last.role == "assistant" else None


class ScriptedSimulator:
    """Sends the same messages in every case."""

    def __init__(self, config: ScriptedSimulatorConfig, name: str, *_: object) -> None:
        self.name = name
        self.limits = config.limits
        self.identity = identity("scripted", config, ("replies",))
        self._replies = config.replies

    async def speak(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> SimulatedTurn:
        if turn >= len(self._replies):
            return SimulatedTurn(state="script_over")
        return SimulatedTurn(state="goes_on", message=self._replies[turn])

    async def close(self) -> None:
        """Nothing to release."""

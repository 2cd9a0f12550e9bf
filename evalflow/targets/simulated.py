"""Simulated conversations: a user, a model or a script, talks to the target until the goal or a limit is reached."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evalflow.calls.client import CallSession
from evalflow.calls.faults import of_exception
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.config.simulators import ConversationLimits, OpenAISimulatorConfig, ScriptedSimulatorConfig
from evalflow.errors import CallError, EvalflowError, TargetError, UserError
from evalflow.llm.chat import identity
from evalflow.llm.judge import DECISIVE, OpenAIJudge
from evalflow.llm.registry import CONTRACTS
from evalflow.prompts import Prompts, not_given
from evalflow.prompts import messages as rendered
from evalflow.protocols import Simulator, Target
from evalflow.records import NOTHING, Answer, Ask, Case, Message, SimulatedTurn, Spend, UserState
from evalflow.targets.conversation import SIMULATION, as_message, begun, totalled
from evalflow.targets.recorded import blank
from evalflow.targets.service import digest

log = logging.getLogger("evalflow")

Ending = Literal[
    "goal_reached", "gave_up", "script_over", "turns", "tokens", "usd", "seconds", "spoke_as_bot", "failed"
]


class SimulatedConversations:
    """Plays a case with a scenario as a conversation between a simulated user and the target; any other is passed on.

    The turns of a case are the opening. If they end with a user's turn, the target answers it first. Every call is
    cached, limited and counted like any other; `simulator` of the answer has what the user's turns took.
    """

    def __init__(self, target: Target, simulator: Simulator) -> None:
        self.name = target.name
        limits = simulator.limits.model_dump(mode="json")
        self.identity = digest([target.identity, simulator.identity, limits])
        self._target = target
        self._simulator = simulator

    async def answer(self, case: Case, repeat: int) -> Answer:
        """The last answer, the conversation up to it, and cost and time of all its turns."""
        if case.scenario is None:
            return await self._target.answer(case, repeat)
        talk = _Talk(list(case.messages))
        try:
            ended, reason = await self._play(talk, case, repeat)
        except (CallError, UserError) as error:
            return self._broken(talk, case, repeat, error)
        if not talk.answers:
            what = f"the simulated user ended the conversation ({ended}) before the target was asked"
            return self._broken(talk, case, repeat, TargetError("simulator", what))
        return self._finished(talk, case, ended, reason)

    async def close(self) -> None:
        await self._target.close()
        await self._simulator.close()

    async def _play(self, talk: _Talk, case: Case, repeat: int) -> tuple[Ending, str | None]:
        """How the conversation ended, and why."""
        limits = self._simulator.limits
        target = begun(self._target)
        asked = bool(case.messages) and case.messages[-1].role == "user"
        turn = 0
        while True:
            if not asked:
                user_turn = await self._next_turn(case, talk.messages, turn, repeat)
                talk.spend += user_turn.spend
                turn += 1
                if ended := _end(user_turn, talk, limits):
                    return ended
                talk.messages.append(Message("user", user_turn.message))
            asked = False
            answer = await target.answer(replace(case, messages=tuple(talk.messages)), repeat)
            talk.hear(answer)
            if answer.status == "error":
                return "failed", None
            try:
                reached = limits.reached(talk.total)
            except ValueError as unknown:
                what = f"the endpoints do not say what a reply takes, for simulator.limits.{unknown}"
                raise TargetError("usage", what) from None
            if reached:
                return reached[0], f"{reached[1]} were taken"

    async def _next_turn(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> SimulatedTurn:
        """The user's turn; CallError if the simulator gives none."""
        try:
            user_turn = await self._simulator.speak(case, messages, turn, repeat)
        except (EvalflowError, ExceptionGroup):
            raise
        except Exception as error:
            log.error("%s", of_exception(error), exc_info=error)
            raise CallError("exception", of_exception(error)) from error
        return _checked(user_turn, self._simulator.name)

    def _finished(self, talk: _Talk, case: Case, ended: Ending, reason: str | None) -> Answer:
        answer = talk.last()
        metadata = case.metadata if answer.metadata is None else answer.metadata
        if answer.status == "error":
            answer = replace(answer, error=f"turn {len(talk.answers)}: {answer.error}")
        about = self._about(talk, ended, reason)
        return replace(answer, metadata={**(metadata or {}), SIMULATION: about}, simulator=talk.spend)

    def _broken(self, talk: _Talk, case: Case, repeat: int, error: CallError | UserError) -> Answer:
        """The answer in state `error`: the user could not be simulated, so the conversation says nothing."""
        if isinstance(error, CallError) and error.spend:
            talk.spend += error.spend
        done = talk.last() if talk.answers else blank(case, self.name, repeat)
        spoke = SPOKE_AS_BOT in str(error)
        return replace(
            done,
            status="error",
            answer=None,
            messages=tuple(talk.messages),
            metadata={SIMULATION: self._about(talk, "spoke_as_bot" if spoke else "failed", str(error))},
            error_type="prompt" if isinstance(error, UserError) else "simulator",
            error=f"the simulated user, turn {len(talk.answers) + 1}: {error}",
            simulator=talk.spend,
        )

    def _about(self, talk: _Talk, ended: Ending, reason: str | None) -> dict[str, object]:
        return {"ended": ended, "reason": reason, "turns": len(talk.answers), "simulator": self._simulator.name}


def _checked(user_turn: object, name: str) -> SimulatedTurn:
    """The turn that a simulator returned, which may come from another package; CallError if it is not a valid one."""
    if not isinstance(user_turn, SimulatedTurn):
        raise CallError("malformed", f"the simulator {name} returned {type(user_turn).__name__}, not a SimulatedTurn")
    if user_turn.state not in get_args(UserState):
        what = f"the simulator {name} returned the unknown state {user_turn.state!r}"
        raise CallError("malformed", f"{what}; known: {', '.join(get_args(UserState))}", spend=user_turn.spend)
    if user_turn.state == "goes_on" and not user_turn.message.strip():
        raise CallError("malformed", f"the simulator {name} returned goes_on without a message", spend=user_turn.spend)
    return user_turn


def _end(user_turn: SimulatedTurn, talk: _Talk, limits: ConversationLimits) -> tuple[Ending, str | None] | None:
    """Return how and why the conversation ends with the user's turn; None if it continues."""
    if user_turn.state != "goes_on":
        return user_turn.state, user_turn.reason
    if len(talk.answers) >= limits.turns:
        return "turns", f"the user had more to say after {limits.turns} turns"
    return None


@dataclass(slots=True)
class _Talk:
    """A conversation so far: its messages, the target's answers with the message before each, and the cost."""

    messages: list[Message]
    answers: list[Answer] = field(default_factory=list[Answer])
    prompted_by: list[Message] = field(default_factory=list[Message])
    spend: Spend = NOTHING  # of the simulator

    @property
    def total(self) -> Spend:
        return sum([answer.spend for answer in self.answers if answer.requests or answer.cached], self.spend)

    def hear(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.prompted_by.append(self.messages[-1])
        self.messages = [*answer.messages]
        if answer.status != "error":
            self.messages.append(as_message(answer))

    def last(self) -> Answer:
        return totalled(self.answers, self.prompted_by)


VARIABLES = ("scenario", "persona", "goal", "facts", "brief", "messages")
"""The variables of a simulator's prompt."""
SPOKE_AS_BOT = "the message speaks for the assistant"
_LABEL = re.compile(r"^(?:[^\S\n]|[*_>#\[(])*+(assistant|chatbot|bot)\b[\s*_\])]*+:", re.IGNORECASE | re.MULTILINE)


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

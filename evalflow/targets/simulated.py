"""Simulated conversations: a simulated user talks to the target until the goal or a limit is reached."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from evalflow.calls.faults import of_exception
from evalflow.config.simulators import ConversationLimits
from evalflow.errors import CallError, EvalflowError, TargetError, UserError
from evalflow.protocols import Simulator, Target
from evalflow.records import NOTHING, Answer, Case, Message, SimulatedTurn, Spend, UserState
from evalflow.targets.conversation import SIMULATION, as_message, begun, totalled
from evalflow.targets.recorded import blank
from evalflow.targets.service import digest
from evalflow.targets.simulator import SPOKE_AS_BOT

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
                said = await self._next_turn(case, talk.messages, turn, repeat)
                talk.spend += said.spend
                turn += 1
                if ended := _end(said, talk, limits):
                    return ended
                talk.messages.append(Message("user", said.message))
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
            said = await self._simulator.speak(case, messages, turn, repeat)
        except (EvalflowError, ExceptionGroup):
            raise
        except Exception as error:
            log.error("%s", of_exception(error), exc_info=error)
            raise CallError("exception", of_exception(error)) from error
        return _checked(said, self._simulator.name)

    def _finished(self, talk: _Talk, case: Case, ended: Ending, reason: str | None) -> Answer:
        answer = talk.last()
        metadata = case.metadata if answer.metadata is None else answer.metadata
        if answer.status == "error":
            answer = replace(answer, error=f"turn {len(talk.answers)}: {answer.error}")
        about = self._about(talk, ended, reason)
        return replace(answer, metadata={**(metadata or {}), SIMULATION: about}, simulator=talk.spend)

    def _broken(self, talk: _Talk, case: Case, repeat: int, error: CallError | UserError) -> Answer:
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


def _checked(said: object, name: str) -> SimulatedTurn:
    """The turn that a simulator returned, which may come from another package; CallError if it is not a valid one."""
    if not isinstance(said, SimulatedTurn):
        raise CallError("malformed", f"the simulator {name} returned {type(said).__name__}, not a SimulatedTurn")
    if said.state not in get_args(UserState):
        what = f"the simulator {name} returned the unknown state {said.state!r}"
        raise CallError("malformed", f"{what}; known: {', '.join(get_args(UserState))}", spend=said.spend)
    if said.state == "goes_on" and not said.message.strip():
        raise CallError("malformed", f"the simulator {name} returned goes_on without a message", spend=said.spend)
    return said


def _end(said: SimulatedTurn, talk: _Talk, limits: ConversationLimits) -> tuple[Ending, str | None] | None:
    """Return how and why the conversation ends with the user's turn; None if it continues."""
    if said.state != "goes_on":
        return said.state, said.reason
    if len(talk.answers) >= limits.turns:
        return "turns", f"the user had more to say after {limits.turns} turns"
    return None


@dataclass(slots=True)
class _Talk:
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

"""Conversations between a simulated user and a target: how they go, how they end, and what they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evalflow.config.simulators import ConversationLimits, ScriptedSimulatorConfig
from evalflow.errors import CallError, UserError
from evalflow.records import Answer, Case, Message, SimulatedTurn, Spend, Usage
from evalflow.targets.conversation import ConversationTarget, ending_of
from evalflow.targets.recorded import blank
from evalflow.targets.simulated import SPOKE_AS_BOT, ScriptedSimulator, SimulatedConversations
from evalflow.values.jsonvalues import as_map
from tests.targets.test_conversation import Parrot, said

pytestmark = pytest.mark.anyio
CASE = Case(dataset="d", index=0, id="c", scenario="You need a permit.", goal="Get it.", facts=("You are new.",))
CALL = Spend(requests=1, usage=Usage(100, 10), cost_usd=0.25, latency_s=1.0, paid=(7,))


class Actor:
    """Says what a test gives it, in order; an exception is raised."""

    name, identity = "actor", "a"

    def __init__(self, *turns: Any, **limits: Any) -> None:
        self.turns = list(turns)
        self.limits = ConversationLimits(**limits)
        self.heard: list[tuple[str, ...]] = []
        self.closed = False

    async def speak(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> SimulatedTurn:
        self.heard.append(tuple(message.content for message in messages))
        said = self.turns.pop(0) if self.turns else "and then?"
        if isinstance(said, Exception):
            raise said
        return (
            replace(said, spend=CALL)
            if isinstance(said, SimulatedTurn)
            else SimulatedTurn(state="goes_on", message=said, spend=CALL)
        )

    async def close(self) -> None:
        self.closed = True


UNKNOWN: Any = "done"
REACHED = SimulatedTurn(state="goal_reached", reason="all said")


async def play(actor: Any, case: Case = CASE, parrot: Parrot | None = None) -> Answer:
    return await SimulatedConversations(ConversationTarget(parrot or Parrot()), actor).answer(case, 1)


async def test_both_sides_speak_in_turn_until_the_goal_is_reached() -> None:
    actor, parrot = (
        Actor("Hello?", "And the price?", REACHED),
        Parrot({"metadata": {"tool": "search"}}, {"metadata": {"n": 2}}),
    )
    answer = await play(actor, parrot=parrot)
    assert [m.content for m in answer.messages] == ["Hello?", "1 messages", "And the price?"]
    assert answer.messages[1].metadata == {"tool": "search"}
    assert (answer.answer, answer.status, answer.target_repeat) == ("3 messages", "answered", 1)
    assert answer.metadata == {
        "n": 2,
        "simulation": {"ended": "goal_reached", "reason": "all said", "turns": 2, "simulator": "actor"},
    }
    assert actor.heard == [(), ("Hello?", "1 messages"), ("Hello?", "1 messages", "And the price?", "3 messages")]


async def test_the_costs_of_the_two_sides_are_apart_and_their_total_is_counted() -> None:
    answer = await play(Actor("Hello?", REACHED))
    assert (answer.requests, answer.usage, answer.cost_usd, answer.latency_s) == (1, Usage(10, 2), 0.5, 0.25)
    assert answer.simulator == CALL + CALL
    assert (answer.total.requests, answer.total.cost_usd, answer.all_paid) == (3, 1.0, (7, 7))


async def test_a_case_without_a_scenario_is_asked_as_always() -> None:
    actor = Actor()
    answer = await play(actor, Case(dataset="d", index=0, id="c", messages=said("u:a", "u:b")))
    assert (answer.answer, answer.simulator, answer.metadata, actor.heard) == ("3 messages", None, None, [])


@pytest.mark.parametrize(
    ("opening", "first", "heard"),
    [
        (["u:a", "a:b"], ("a", "b", "Hello?"), ("a", "b")),
        (["a:Hi"], ("Hi", "Hello?"), ("Hi",)),
        (["s:x"], ("x", "Hello?"), ("x",)),
        (["u:a"], ("a",), ("a", "1 messages")),
        (["u:a", "u:b"], ("a",), ("a", "1 messages", "b", "3 messages")),
    ],
)
async def test_the_turns_of_a_case_are_the_opening(opening: list[str], first: tuple[str, ...], heard: Any) -> None:
    actor, parrot = Actor("Hello?", REACHED), Parrot()
    await play(actor, replace(CASE, messages=said(*opening)), parrot)
    assert tuple(message.content for message in parrot.shown[0]) == first
    assert actor.heard[0] == heard


@pytest.mark.parametrize(
    ("limits", "ended", "turns"),
    [
        ({"turns": 3}, "turns", 3),
        ({"tokens": 200}, "tokens", 2),  # 110 + 12 a turn
        ({"usd": 1.5}, "usd", 2),  # 0.25 + 0.5 a turn
        ({"seconds": 3.5}, "seconds", 3),  # 1 + 0.25 a turn
    ],
)
async def test_a_user_who_never_ends_is_ended_by_a_limit(limits: dict[str, Any], ended: str, turns: int) -> None:
    answer = await play(Actor(**limits))
    assert (ending_of(answer.metadata), as_map((answer.metadata or {})["simulation"])["turns"]) == (ended, turns)
    assert answer.status == "answered"
    assert [message.role for message in answer.messages].count("user") == turns


async def test_replies_from_the_cache_count_with_what_they_took() -> None:
    parrot = Parrot(*[{"requests": 0, "cached": True, "cost_usd": 0.0, "saved_usd": 0.5}] * 3)
    answer = await play(Actor(usd=1.5), parrot=parrot)
    assert ending_of(answer.metadata) == "usd"
    assert answer.cached


async def test_a_limit_of_what_nobody_reports_is_an_error() -> None:
    answer = await play(Actor(usd=1.5), parrot=Parrot({"cost_usd": None}))
    assert (answer.status, answer.error_type) == ("error", "simulator")
    assert "simulator.limits.usd" in (answer.error or "")


async def test_a_target_that_fails_ends_it_with_its_own_error() -> None:
    failing = Parrot({}, {"status": "error", "answer": None, "error_type": "timeout", "error": "no reply"})
    answer = await play(Actor("Hello?"), parrot=failing)
    assert (answer.status, answer.error_type, answer.error) == ("error", "timeout", "turn 2: no reply")
    assert ending_of(answer.metadata) == "failed"
    assert answer.requests == 2


@pytest.mark.parametrize(
    ("fault", "ended", "error_type"),
    [
        (
            CallError("schema", f"no valid reply in 3 replies; the last: {SPOKE_AS_BOT}", None, CALL),
            "spoke_as_bot",
            "simulator",
        ),
        (CallError("schema", "the message is empty", None, CALL), "failed", "simulator"),
        (UserError([]), "failed", "prompt"),
    ],
)
async def test_a_user_who_cannot_be_played_is_an_error_with_what_was_said(
    fault: Exception, ended: str, error_type: str
) -> None:
    answer = await play(Actor("Hello?", fault))
    assert (answer.status, answer.error_type, answer.answer) == ("error", error_type, None)
    assert ending_of(answer.metadata) == ended
    assert [message.content for message in answer.messages] == ["Hello?", "1 messages"]
    assert answer.requests == 1
    assert answer.simulator == (CALL + CALL if isinstance(fault, CallError) else CALL)


@pytest.mark.parametrize(
    ("turn", "what"),
    [
        (ValueError("no line left"), "ValueError: no line left (test_simulated.py:"),
        (SimulatedTurn(state="goes_on", message=" "), "the simulator actor returned goes_on without a message"),
        (SimulatedTurn(state=UNKNOWN), "the simulator actor returned the unknown state 'done'; known: goes_on,"),
    ],
)
async def test_a_fault_of_the_simulator_is_an_error_that_names_it(turn: Any, what: str) -> None:
    answer = await play(Actor("Hello?", turn))
    assert (answer.status, answer.error_type, ending_of(answer.metadata)) == ("error", "simulator", "failed")
    assert str(answer.error).startswith(f"the simulated user, turn 2: {what}")
    assert [message.content for message in answer.messages] == ["Hello?", "1 messages"]
    assert answer.simulator == (CALL if isinstance(turn, Exception) else CALL + CALL)


async def test_a_simulator_that_returns_something_else_is_an_error() -> None:
    class Mute(Actor):
        async def speak(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> Any:
            return "Hello?"

    answer = await play(Mute())
    assert answer.error == "the simulated user, turn 1: the simulator actor returned str, not a SimulatedTurn"


async def test_a_conversation_that_ends_before_the_target_spoke_is_an_error() -> None:
    answer = await play(Actor(SimulatedTurn(state="gave_up", reason="no")))
    assert (answer.status, answer.error_type) == ("error", "simulator")
    assert "before the target was asked" in (answer.error or "")


async def test_a_script_ends_when_all_is_answered() -> None:
    config = ScriptedSimulatorConfig(kind="scripted", replies=["One?", "Two?"])
    answer = await play(ScriptedSimulator(config, "script"))
    assert [message.content for message in answer.messages if message.role == "user"] == ["One?", "Two?"]
    assert ending_of(answer.metadata) == "script_over"


def test_what_determines_the_answers_is_part_of_the_identity() -> None:
    def identity(replies: list[str], **limits: Any) -> str:
        config = ScriptedSimulatorConfig(kind="scripted", replies=replies, limits=ConversationLimits(**limits))
        return SimulatedConversations(Parrot(), ScriptedSimulator(config, "s")).identity

    one = identity(["a"])
    assert one == identity(["a"])
    assert len({one, identity(["b"]), identity(["a"], turns=2), Parrot().identity}) == 4


@pytest.mark.parametrize("metadata", [None, {}, {"simulation": "x"}, {"simulation": {"ended": 3}}])
def test_other_metadata_say_nothing_of_an_ending(metadata: Any) -> None:
    assert ending_of(metadata) is None


async def test_closing_closes_both() -> None:
    actor = Actor()
    await SimulatedConversations(Parrot(), actor).close()
    assert actor.closed
    assert blank(CASE, "t", 0).simulator is None

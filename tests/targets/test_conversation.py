"""Scripted dialogues, played turn by turn against a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evalflow.records import Answer, Case, Context, Message, Usage
from evalflow.targets.conversation import ConversationTarget, open_turns
from evalflow.targets.recorded import blank

pytestmark = pytest.mark.anyio


def said(*turns: str) -> tuple[Message, ...]:
    """Messages from `u:Hello` (user) and `a:Hi` (assistant)."""
    roles = {"u": "user", "a": "assistant", "s": "system"}
    return tuple(Message(roles[turn[0]], turn[2:]) for turn in turns)


class Parrot:
    """Says how many messages it was shown, and keeps what it was shown."""

    name, identity = "parrot", "p"

    def __init__(self, *changes: Any) -> None:
        self.shown: list[tuple[Message, ...]] = []
        self.changes = list(changes)

    async def answer(self, case: Case, repeat: int) -> Answer:
        self.shown.append(case.messages)
        told = {"answer": f"{len(case.messages)} messages", "requests": 1, "usage": Usage(10, 2), "cost_usd": 0.5}
        change = self.changes.pop(0) if self.changes else {}
        return replace(blank(case, self.name, repeat), **{**told, "latency_s": 0.25, **change})

    async def close(self) -> None:
        pass


def case(*turns: str) -> Case:
    return Case(dataset="d", index=0, id="c", messages=said(*turns))


Play = Callable[..., Any]


@pytest.mark.parametrize(
    ("turns", "open_at"),
    [
        ([], []),
        (["u:a"], [0]),
        (["u:a", "a:b", "u:c"], [2]),
        (["u:a", "u:b"], [0, 1]),
        (["s:x", "u:a", "u:b", "a:c", "u:d"], [1, 4]),
        (["u:a", "a:b"], [1]),
    ],
)
def test_where_the_target_is_asked(turns: list[str], open_at: list[int]) -> None:
    assert open_turns(said(*turns)) == open_at


async def test_a_conversation_with_its_history_is_asked_once() -> None:
    parrot = Parrot()
    dialogue = case("u:a", "a:b", "u:c")
    answer = await ConversationTarget(parrot).answer(dialogue, 0)
    assert parrot.shown == [dialogue.messages]
    assert (answer.answer, answer.messages, answer.requests) == ("3 messages", dialogue.messages, 1)


async def test_a_scripted_dialogue_is_played_turn_by_turn() -> None:
    parrot = Parrot({"metadata": {"tool": "search"}})
    answer = await ConversationTarget(parrot).answer(case("s:x", "u:a", "u:b", "a:c", "u:d"), 1)
    assert parrot.shown[0] == said("s:x", "u:a")
    played = (*said("s:x", "u:a"), Message("assistant", "2 messages", {"tool": "search"}), *said("u:b", "a:c", "u:d"))
    assert parrot.shown[1:] == [played]
    assert (answer.answer, answer.messages, answer.target_repeat) == ("6 messages", played, 1)


async def test_what_was_retrieved_for_a_turn_stays_with_its_message() -> None:
    found = {"contexts": (Context("Closed on Sundays."),), "metadata": {"tool": "search"}}
    answer = await ConversationTarget(Parrot(found, {"contexts": ()})).answer(case("u:a", "u:b", "u:c"), 0)
    told = [message.metadata for message in answer.messages if message.role == "assistant"]
    assert told == [{"contexts": ["Closed on Sundays."], "tool": "search"}, {"contexts": []}]


async def test_what_the_turns_took_is_added_up() -> None:
    answer = await ConversationTarget(Parrot({"paid": (1,)}, {"paid": (2,)})).answer(case("u:a", "u:b", "u:c"), 0)
    assert answer.paid == (1, 2)
    assert (answer.requests, answer.usage, answer.cost_usd, answer.latency_s) == (3, Usage(30, 6), 1.5, 0.75)
    remembered = {"requests": 0, "cost_usd": 0.0, "saved_usd": 0.5, "cached": True}
    half = await ConversationTarget(Parrot(remembered)).answer(case("u:a", "u:b"), 0)
    assert (half.requests, half.cost_usd, half.saved_usd, half.cached) == (1, 0.5, 0.5, False)
    whole = await ConversationTarget(Parrot(remembered, remembered)).answer(case("u:a", "u:b"), 0)
    assert (whole.requests, whole.saved_usd, whole.cached) == (0, 1.0, True)


async def test_what_one_turn_does_not_say_is_unknown_for_all() -> None:
    answer = await ConversationTarget(Parrot({"usage": None, "cost_usd": None})).answer(case("u:a", "u:b"), 0)
    assert (answer.usage, answer.cost_usd, answer.requests, answer.latency_s) == (None, None, 2, 0.5)


async def test_a_turn_that_fails_ends_the_conversation_and_keeps_what_was_paid() -> None:
    failure = {"status": "error", "error_type": "timeout", "error": "no answer", "answer": None}
    nothing = {"requests": 0, "usage": None, "cost_usd": None, "latency_s": None}
    parrot = Parrot({}, {**failure, **nothing})
    answer = await ConversationTarget(parrot).answer(case("u:a", "u:b", "u:c"), 0)
    assert (answer.status, answer.error_type, answer.error) == ("error", "timeout", "turn 2 of 3: no answer")
    assert len(parrot.shown) == 2
    assert (answer.requests, answer.usage, answer.cost_usd) == (1, Usage(10, 2), 0.5)


async def test_a_prediction_stands_in_the_conversation_as_json() -> None:
    parrot = Parrot({"answer": None, "actual": True})
    await ConversationTarget(parrot).answer(case("u:a", "u:b"), 0)
    assert parrot.shown[1][1] == Message("assistant", "true")


async def test_what_an_agent_did_in_all_turns_is_kept() -> None:
    first, last = [{"role": "assistant", "tool_calls": ["look"]}], [{"role": "assistant", "content": "So."}]
    target = ConversationTarget(Parrot({"actual": first}, {"actual": last}))
    answer = await target.answer(case("u:Hello", "u:And now?"), 0)
    assert answer.actual == [*first, {"role": "user", "content": "And now?"}, *last]
    labels = ConversationTarget(Parrot({"actual": ["a"]}, {"actual": ["b"]}))
    assert (await labels.answer(case("u:Hello", "u:And now?"), 0)).actual == ["b"]

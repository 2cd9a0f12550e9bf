"""The order of a conversation's turns: what is played, and what is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.datasets import irregular
from evalflow.records import Message


def said(roles: str) -> list[Message]:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return [Message(names[role], role) for role in roles]


@pytest.mark.parametrize("roles", ["", "u", "uau", "su", "ssuau", "au", "auau", "uu", "uuauu"])
def test_regular_conversations(roles: str) -> None:
    assert list(irregular(said(roles))) == []


@pytest.mark.parametrize(
    ("roles", "what"),
    [
        ("uaau", "message 2 is the second assistant message in a row"),
        ("ua", "message 1 ends the conversation with the role 'assistant'"),
        ("s", "message 0 ends the conversation with the role 'system'"),
        ("usu", "message 1 is a system message, which can only stand at the beginning"),
        ("utu", "message 1 has the role 'tool'; known: system, user, assistant"),
    ],
)
def test_irregular_ones_say_which_message_it_is(roles: str, what: str) -> None:
    ((number, found),) = irregular(said(roles))
    assert f"message {number} {found}".startswith(what)


def test_the_case_and_its_place_are_named(refused: Any, load: Any) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = [{"id": "fine", "messages": turns[:1]}, {"id": "odd", "messages": [*turns, turns[1], turns[0]]}]
    (problem,) = refused(rows)
    assert problem.where == "mine.jsonl:2"
    assert problem.what == "case 'odd': messages: message 2 is the second assistant message in a row"
    assert problem.hint.endswith("dataset.mine.allow_irregular=true")
    assert [len(case.messages) for case in load(rows, allow_irregular=True)] == [1, 4]


def test_a_column_that_was_mapped_is_named_too(refused: Any) -> None:
    (problem,) = refused([{"chat": [{"role": "assistant", "content": "a"}]}], fields={"messages": "chat"})
    assert problem.what.startswith("the case: messages (column 'chat'): message 0 ends the conversation")


def test_a_conversation_without_a_message_is_refused(refused: Any, load: Any) -> None:
    (problem,) = refused([{"id": "mute", "messages": []}])
    assert problem.what == "case 'mute': messages: there is no message in it"
    assert load([{"messages": [], "question": "a"}])[0].question == "a"
    assert load([{"messages": []}], allow_irregular=True)[0].question is None

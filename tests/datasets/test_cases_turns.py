"""The order of a conversation's turns: what is played, and what is refused with its place."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evalflow.datasets import irregular
from evalflow.errors import Problem
from evalflow.records import Case, Message

Load = Callable[..., list[Case]]
Refused = Callable[..., Sequence[Problem]]


def said(roles: str) -> list[Message]:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "x": "narrator"}
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
        ("uxu", "message 1 has the role 'narrator'; known: system, developer, user, assistant, tool"),
        ("utu", "message 1 is a tool's result, but the turn before it calls no tool"),
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
    assert problem.what == "case 'mute': messages: it has no message"
    assert load([{"messages": [], "question": "a"}])[0].question == "a"
    assert load([{"messages": []}], allow_irregular=True)[0].question is None


BEFORE = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize(
    "history",
    [
        BEFORE,
        json.dumps(BEFORE),
        [["hi", "hello"]],
        [{"inputs": {"question": "hi"}, "outputs": {"answer": "hello"}}],
        [{"type": "human", "data": {"content": "hi"}}, {"type": "ai", "data": {"content": "hello"}}],
    ],
)
@pytest.mark.parametrize("column", ["history", "chat_history", "conversation_history"])
def test_a_history_stands_before_the_question(load: Load, column: str, history: Any) -> None:
    first, second = load([{column: [], "question": "a?"}, {column: history, "question": "b?"}])
    assert [one.content for one in first.messages] == ["a?"]
    assert [one.content for one in second.messages] == ["hi", "hello", "b?"]
    assert (second.question, second.vars) == ("b?", {})


def test_a_history_in_a_cell_of_csv(load: Load) -> None:
    file = 'chat_history,question\n"[{""role"": ""user"", ""content"": ""hi""}, [""x"", null]]",b?\n'
    (case,) = load(file, "mine.csv")
    assert [one.content for one in case.messages] == ["hi", "x", "b?"]


@pytest.mark.parametrize(
    ("history", "messages"),
    [
        (["u: a?"], ["u: a?"]),
        (["u: hi", "a: yes", "u:  a? "], ["u: hi", "a: yes", "u:  a? "]),
        (["u: hi", "a: yes", "u: other"], ["u: hi", "a: yes", "u: other", "u: a?"]),
        (["u: hi", "a: yes", "u: a?", "a: the answer"], ["u: hi", "a: yes", "u: a?"]),
        (["u: a?", "a: another answer"], ["u: a?", "a: another answer", "u: a?"]),
    ],
)
def test_the_question_is_the_question_whatever_the_history_ends_with(
    load: Load, history: list[str], messages: list[str]
) -> None:
    turns = [{"role": {"u": "user", "a": "assistant"}[one[0]], "content": one[3:]} for one in history]
    (case,) = load([{"history": turns, "question": "a?", "answer": "the answer"}])
    assert [f"{one.role[0]}: {one.content}" for one in case.messages] == messages


def test_a_history_without_a_question_is_the_conversation(load: Load, refused: Refused) -> None:
    (case,) = load([{"history": [*BEFORE, {"role": "user", "content": "a?"}]}])
    assert case.question == "a?"
    (problem,) = refused([{"chat_history": BEFORE}])
    assert "ends the conversation with the role 'assistant'" in problem.what


def test_a_history_that_cannot_be_read_names_the_row_the_form_and_the_way_out(refused: Refused) -> None:
    (problem,) = refused([{"question": "a?"}, {"question": "a?", "chat_history": "user: hi"}])
    assert problem.where == "mine.jsonl:2"
    assert problem.what.startswith(
        "history (column 'chat_history'): expected a list of {role, content}, got text; known"
    )
    assert problem.hint == "leave the column out: ++dataset.mine.fields.history=null"


def test_messages_and_another_history_are_refused(load: Load, refused: Refused) -> None:
    turns = [*BEFORE, {"role": "user", "content": "a?"}]
    (problem,) = refused([{"messages": turns[2:], "history": BEFORE}])
    assert problem.what == "history is not the beginning of messages"
    assert load([{"messages": turns, "history": BEFORE}])[0].question == "a?"
    (problem,) = refused([{"messages": turns, "question": "b?"}])
    assert problem.hint.endswith("dataset.mine.fields={history: messages}")


def test_turns_of_tools_are_regular(load: Load) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        {"role": "developer", "content": "Be brief."},
        BEFORE[0],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    (case,) = load([{"messages": turns}])
    assert case.question == "hi"
    (case,) = load([{"messages": [*turns, BEFORE[1], BEFORE[0]]}])
    assert len(case.history) == 5


# --- questions without words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.jsonl", '{"question": "a?"}\n{"question": " \\n", "answer": "b"}\n'),
        ("mine.jsonl", '{"question": "a?"}\n{"history": [["a?", "b"]], "question": ""}\n'),
        ("mine.jsonl", '{"question": "a?"}\n{"messages": [{"role": "user", "content": []}]}\n'),
        ("mine.csv", "question,answer\na?,b\n"),
    ],
)
def test_an_empty_question_is_refused_with_its_row(load: Load, refused: Refused, name: str, content: str) -> None:
    content += ",b\n" if name.endswith("csv") else ""
    (problem,) = refused(content, name)
    assert (problem.what, problem.where) == ("the question is empty", f"{name}:{2 + name.endswith('csv')}")
    assert problem.hint.endswith("dataset.mine.allow_irregular=true")
    assert len(load(content, name, allow_irregular=True)) == 2


def test_a_cell_without_a_question_beside_messages_is_none(load: Load) -> None:
    turns = json.dumps([{"role": "user", "content": "a?"}]).replace('"', '""')
    (case,) = load(f'question,messages\n,"{turns}"\n', "mine.csv")
    assert case.question == "a?"


def test_the_hint_reads_a_conversation_that_ends_with_the_answer(load: Any, refused: Any) -> None:
    talk = [{"role": "user", "content": "Can I park?"}, {"role": "assistant", "content": "Yes"}]
    (problem,) = refused([{"messages": talk}])
    words = [word.removeprefix("++dataset.mine.") for word in shlex.split(problem.hint) if word.startswith("++")]
    fields = {key.removeprefix("fields."): path.strip('";') for key, path in (word.split("=", 1) for word in words)}
    (case,) = load([{"messages": talk}], fields=fields)
    assert (case.question, case.answer) == ("Can I park?", "Yes")

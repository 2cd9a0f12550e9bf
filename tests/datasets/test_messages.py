"""Conversations as chat APIs and frameworks log them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import case_to_row, read
from evalflow.datasets.messages import read_message, read_messages
from evalflow.records import Message

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
LOGGED = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hello."}, {"type": "text", "text": "Rain in Bern?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
    {"role": "tool", "tool_call_id": "c1", "content": "12 mm"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "And tomorrow?"},
]


def sent(value: Any) -> list[dict[str, Any]]:
    return [one.sent for one in read_messages(value)]


def test_messages_of_chat_completions_are_sent_again_as_they_were() -> None:
    found = sent(LOGGED)
    assert found[1] == {"role": "user", "content": "Hello.\nRain in Bern?"}
    assert found[2] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert [found[at] for at in (0, 3, 4, 5)] == [LOGGED[at] for at in (0, 3, 4, 5)]


def test_readers_see_the_calls() -> None:
    _, _, called, result, *_ = read_messages(LOGGED)
    assert (called.text, called.only_calls) == ('[calls weather({"city": "Bern"})]', True)
    assert (result.text, result.only_calls) == ("12 mm", False)


PARALLEL = [
    {"role": "user", "content": "Rain in Bern and Rome?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
    {"role": "tool", "content": "12 mm", "tool_call_id": "c1"},
    {"role": "tool", "content": "none", "tool_call_id": "c2"},
    {"role": "user", "content": "Thanks"},
]
ANTHROPIC = [
    {"role": "user", "content": "Rain in Bern and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Bern"}},
            {"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "Bern"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "12 mm"}]},
            {"type": "tool_result", "tool_use_id": "c2", "content": "none"},
            {"type": "text", "text": "Thanks"},
        ],
    },
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "Rain in Bern and Rome?"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "weather", "arguments": '{"city": "Bern"}'},
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": '{"city": "Bern"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "12 mm"},
    {"type": "function_call_output", "call_id": "c2", "output": "none"},
    {"role": "user", "content": "Thanks"},
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Rain in Bern and Rome?"}]},
    {
        "role": "assistant",
        "content": [
            {"text": "I look."},
            *({"toolUse": {"toolUseId": one, "name": "weather", "input": {"city": "Bern"}}} for one in ("c1", "c2")),
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "c1", "content": [{"text": "12 mm"}]}},
            {"toolResult": {"toolUseId": "c2", "content": [{"json": "none"}]}},
        ],
    },
    {"role": "user", "content": [{"text": "Thanks"}]},
]
AI_SDK = [
    {"role": "user", "content": "Rain in Bern and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            *(
                {"type": "tool-call", "toolCallId": one, "toolName": "weather", "input": {"city": "Bern"}}
                for one in ("c1", "c2")
            ),
        ],
    },
    {
        "role": "tool",
        "content": [
            {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "12 mm"}},
            {"type": "tool-result", "toolCallId": "c2", "output": {"type": "json", "value": "none"}},
        ],
    },
    {"sender": "customer", "text": "Thanks"},
]
LANGCHAIN = [
    {"type": "human", "content": "Rain in Bern and Rome?"},
    {
        "type": "ai",
        "data": {
            "content": "I look.",
            "tool_calls": [{"name": "weather", "args": {"city": "Bern"}, "id": name} for name in ("c1", "c2")],
        },
    },
    {"type": "tool", "data": {"content": "12 mm", "tool_call_id": "c1"}},
    {"lc": 1, "type": "constructor", "id": ["x", "ToolMessage"], "kwargs": {"content": "none", "tool_call_id": "c2"}},
    {"lc": 1, "type": "constructor", "id": ["x", "HumanMessage"], "kwargs": {"content": "Thanks"}},
]


@pytest.mark.parametrize(
    "logged",
    [PARALLEL, ANTHROPIC, RESPONSES, LANGCHAIN, BEDROCK, AI_SDK, json.dumps(RESPONSES), {"messages": LANGCHAIN}],
)
def test_every_api_s_log_reads_alike(logged: Any) -> None:
    assert sent(logged) == PARALLEL


def test_calls_and_results_without_ids_are_paired_in_their_order() -> None:
    older = [
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": "dry"},
        {"role": "model", "parts": [{"functionCall": {"name": "clock", "args": {"zone": "CET"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "clock", "response": {"time": "10:00"}}}]},
    ]
    first, dry, second, late = sent(older)
    assert [first["tool_calls"][0]["id"], dry["tool_call_id"]] == ["call_1", "call_1"]
    assert [second["tool_calls"][0]["id"], late["tool_call_id"]] == ["call_2", "call_2"]
    assert second["tool_calls"][0]["function"] == {"name": "clock", "arguments": '{"zone": "CET"}'}
    assert late["content"] == '{"time": "10:00"}'


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


@pytest.mark.parametrize(
    "part",
    [
        IMAGE,
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ],
)
def test_an_image_is_kept_and_sent_and_shown_as_one(part: Any) -> None:
    (message,) = read_messages([{"role": "user", "content": ["What is it?", part]}])
    assert message.sent["content"] == [{"type": "text", "text": "What is it?"}, IMAGE]
    assert (message.content, message.text) == ("What is it?", "What is it?\n[image]")


def test_thoughts_are_no_words_of_the_conversation() -> None:
    (message,) = read_messages(
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "So"}, {"type": "text", "text": "Yes"}]},
        ]
    )
    assert message == Message("assistant", "Yes", {"thoughts": "Hm.\nSo"})


def test_other_keys_of_a_message_are_its_metadata() -> None:
    (message,) = read_messages(
        [{"from": "gpt", "value": "Yes", "rating": 3, "metadata": {"at": "noon"}, "audio": None}]
    )
    assert message == Message("assistant", "Yes", {"rating": 3, "at": "noon"})


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([["hi", "hello"], ["and?", None]], ["user: hi", "assistant: hello", "user: and?"]),
        ([[None, "Welcome"]], ["assistant: Welcome"]),
        (
            [{"inputs": {"chat_input": "hi", "n": 1}, "outputs": {"answer": "hello", "context": "c"}}],
            ["user: hi", "assistant: hello"],
        ),
        ([{"inputs": {"anything": "hi"}, "outputs": {"text": "hello"}}], ["user: hi", "assistant: hello"]),
        ([{"question": "hi", "answer": "hello"}], ["user: hi", "assistant: hello"]),
        ([{"human": "hi", "ai": "hello"}], ["user: hi", "assistant: hello"]),
        ([["user", "hi"], ["ai", "hello"]], ["user: hi", "assistant: hello"]),
        ([{"role": "CHATBOT", "message": "hi"}], ["assistant: hi"]),
        ([{"from": "human", "value": "hi"}], ["user: hi"]),
        ([{"role": "User", "content": "hi"}], ["user: hi"]),
    ],
)
def test_turns_in_pairs(turns: Any, expected: list[str]) -> None:
    assert [f"{one.role}: {one.content}" for one in read_messages(turns)] == expected


def test_what_a_pair_says_besides_is_kept() -> None:
    asked, said = read_messages(
        [{"inputs": {"query": "hi", "lang": "en", "chat_history": []}, "outputs": {"answer": "a", "context": ["c"]}}]
    )
    assert asked.metadata == {"lang": "en"}
    assert said.metadata == {"contexts": ["c"]}


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("hi", "expected a list of {role, content}, got text"),
        ("[1", "the text is not JSON"),
        ([["a"]], "item 0: the list is not a pair of texts [user, assistant]; known formats: {role, content}"),
        ([{"type": "web_search_call", "id": "w"}], "item 0: the type 'web_search_call' is not a turn"),
        ([{"inputs": {"a": "x", "b": "y"}}], "item 0: inputs: which of a, b is the turn? call it question"),
        ([{"question": 1, "answer": "x"}], "item 0: question: expected text, got a number (1)"),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "item 0: content: part 0: text: expected text, got nothing",
        ),
        ([{"role": "user", "content": [3]}], "item 0: content: part 0: expected text or an object, got a number (3)"),
        ([{"role": "assistant", "tool_calls": [{}]}], "item 0: the tool call has no name"),
    ],
)
def test_other_forms_are_refused_by_item(value: Any, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        read_messages(value)


def test_an_example_answer_is_one_message() -> None:
    assert read_message({"content": "a"}, "assistant") == Message("assistant", "a")
    results = [{"type": "tool_result", "tool_use_id": name, "content": "a"} for name in "ab"]
    with pytest.raises(ValueError, match="expected one message"):
        read_message({"role": "user", "content": results}, "assistant")


texts = st.text(max_size=5)
calls = st.fixed_dictionaries(
    {
        "id": st.text("abc", min_size=1, max_size=3),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.text("abc", min_size=1, max_size=3), "arguments": texts}),
    }
)
logged_parts = st.one_of(texts.map(lambda text: {"type": "text", "text": text}), st.just(IMAGE))
logged = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": texts | st.lists(logged_parts, max_size=3)}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": texts, "tool_calls": st.lists(calls, max_size=2)}),
    st.fixed_dictionaries({"role": st.just("tool"), "content": texts, "tool_call_id": texts}),
)


@given(st.lists(logged, min_size=1, max_size=4))
def test_they_survive_being_written_as_a_row(tmp_path_factory: Any, turns: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("rows")

    def loaded(row: Any, name: str) -> Any:
        path = folder / name
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        (case,) = read("mine", DatasetConfig(path=str(path), format="jsonl", allow_irregular=True))
        return case

    case = loaded({"id": "1", "messages": turns}, "first")
    again = loaded(case_to_row(case), "again")
    assert again == case
    assert [one.sent for one in again.messages] == [one.sent for one in case.messages]

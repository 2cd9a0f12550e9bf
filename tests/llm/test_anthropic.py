"""Requests and replies of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.llm.anthropic import as_completion, as_message, status_of

TOOL: dict[str, Any] = {"name": "Grade", "parameters": {"type": "object"}}


def test_a_request_with_a_tool_and_a_reply_sent_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Grade", "arguments": '{"score": 9}'}}
    found: Any = as_message(
        {
            "model": "m",
            "max_tokens": 9,
            "temperature": 0.0,
            "logprobs": True,
            "messages": [
                {"role": "system", "content": "Be fair."},
                {"role": "user", "content": "Grade it."},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "at most 5"},
            ],
            "tools": [{"type": "function", "function": TOOL}],
            "tool_choice": {"type": "function", "function": {"name": "Grade"}},
        }
    )
    assert found == {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0.0,
        "system": "Be fair.",
        "messages": [
            {"role": "user", "content": "Grade it."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "Grade", "input": {"score": 9}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "at most 5"}]},
        ],
        "tools": [{"name": "Grade", "description": "", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "Grade"},
    }


def test_instructions_of_a_developer_and_images() -> None:
    address = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    parts = [{"type": "text", "text": "What is it?"}, address, data]
    told = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
    found: Any = as_message({"messages": [told, {"role": "user", "content": parts}]})
    assert found["system"] == "Be brief."
    assert found["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]


def test_arguments_that_are_no_object_are_wrapped() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Grade", "arguments": "{"}}
    found: Any = as_message({"messages": [{"role": "assistant", "content": "So:", "tool_calls": [call]}]})
    text, used = found["messages"][0]["content"]
    assert (text, used["input"]) == ({"type": "text", "text": "So:"}, {"value": "{"})


@pytest.mark.parametrize(
    ("stopped", "finished"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"), ("refusal", "content_filter")],
)
def test_a_reply(stopped: str, finished: str) -> None:
    used = {"type": "tool_use", "id": "c1", "name": "Grade", "input": {"reason": "gut", "score": 4}}
    message = {
        "id": "msg_1",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "So"},
            {"type": "text", "text": "."},
            used,
        ],
        "stop_reason": stopped,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3},
    }
    found: Any = as_completion(message)
    choice = found["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == (finished, "So.")
    assert choice["message"]["reasoning_content"] == "Hm."
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"reason": "gut", "score": 4}'
    cached = {"prompt_tokens_details": {"cached_tokens": 2}}
    assert found["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, **cached}


def test_the_status_of_an_error() -> None:
    kinds = ("overloaded_error", "authentication_error", "invalid_request_error")
    assert [status_of({"type": "error", "error": {"type": kind}}) for kind in kinds] == [529, 401, 400]

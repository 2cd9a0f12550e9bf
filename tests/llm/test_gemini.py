"""Requests and replies of Gemini's generateContent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.calls.http import Response
from evalflow.llm.chat import read
from evalflow.llm.gemini import as_completion, as_content, status_of

TOOL: dict[str, Any] = {"name": "Grade", "parameters": {"type": "object"}}


def test_a_request_with_a_tool_and_a_reply_sent_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "Grade", "arguments": '{"score": 9}'}}
    found: Any = as_content(
        {
            "model": "m",
            "max_tokens": 9,
            "temperature": 0.0,
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
    made, result = found["contents"][1]["parts"][0], found["contents"][2]["parts"][0]
    assert [one["role"] for one in found["contents"]] == ["user", "model", "user"]
    assert (made["functionCall"], "thoughtSignature" in made) == ({"name": "Grade", "args": {"score": 9}}, True)
    assert result["functionResponse"] == {"name": "Grade", "response": {"result": "at most 5"}}
    assert found["systemInstruction"] == {"parts": [{"text": "Be fair."}]}
    assert found["generationConfig"] == {"temperature": 0.0, "maxOutputTokens": 9}
    [declared] = found["tools"][0]["functionDeclarations"]
    assert declared == {"name": "Grade", "description": "", "parametersJsonSchema": {"type": "object"}}
    assert found["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["Grade"]}


def test_instructions_of_a_developer_and_images() -> None:
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    told = {"role": "developer", "content": "Be brief."}
    found: Any = as_content({"messages": [told, {"role": "user", "content": parts}]})
    assert found["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert found["contents"][0]["parts"] == [
        {"text": "What is it?"},
        {"fileData": {"fileUri": "https://example.org/a.png"}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]


def test_a_schema_and_probabilities_are_asked_for() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "Grade", "schema": {"type": "object"}}}
    asked: dict[str, Any] = {"messages": [], "response_format": schema, "logprobs": True, "top_logprobs": 5}
    assert as_content(asked)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "responseLogprobs": True,
        "logprobs": 5,
    }


@pytest.mark.parametrize(
    ("ended", "finished"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("RECITATION", "content_filter")],
)
def test_a_reply(ended: str, finished: str) -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "So"}, {"text": "."}]
    likely = [{"token": "So", "logProbability": -0.1}, {"token": "No", "logProbability": -2.5}]
    result = {"chosenCandidates": likely[:1], "topCandidates": [{"candidates": likely}]}
    candidate = {"content": {"parts": parts}, "finishReason": ended, "logprobsResult": result}
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 40}
    found = read_of({"candidates": [candidate], "usageMetadata": counts})
    assert (found.text, found.reasoning, found.reasoning_tokens, found.finish_reason) == ("So.", "Hm.", 40, finished)
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 43)
    assert found.tokens is not None
    assert [one["token"] for one in found.tokens[0]["top_logprobs"]] == ["So", "No"]


def test_a_call_of_a_function() -> None:
    part = {"functionCall": {"name": "Grade", "args": {"score": 4}}}
    found = read_of({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})
    assert (found.finish_reason, found.tool_calls[0].arguments, found.usage) == ("tool_calls", '{"score": 4}', None)


def test_a_blocked_prompt_is_a_reply_that_was_withheld() -> None:
    found = read_of({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (found.text, found.finish_reason) == (None, "content_filter")


def test_the_status_of_an_error() -> None:
    assert [status_of({"code": code}) for code in (8, 16, 3, 13, 2, 429)] == [429, 401, 400, 500, 500, 429]


def read_of(response: dict[str, Any]) -> Any:
    """The completion that judges and targets make of a reply."""
    return read(Response(200, {}, json.dumps(as_completion(response)).encode()), None)

"""Translate chat requests to Anthropic's Messages API, and its replies to chat completions.

So a batch reply is read and cached like one of Anthropic's OpenAI-compatible endpoint, which has no batches. Settings
that this endpoint ignores, such as response_format and logprobs, are left out here as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from evalflow.config.parameters import LIMIT
from evalflow.llm.finish_reasons import finish_reason
from evalflow.values.jsonvalues import as_map, count_at, is_list, is_object, object_at, objects_at, parsed, text_at

_TRANSLATED = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "response_format",
        "logprobs",
        "top_logprobs",
        LIMIT,
    }
)
_STATUS = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


INSTRUCTIONS = ("system", "developer")
"""The roles of instructions in a chat request, which are not turns in the Messages API."""
_DATA = re.compile(r"data:(?P<type>[^;,]+);base64,")


def as_message(body: Mapping[str, object]) -> dict[str, object]:
    """Return the Messages API parameters for the body of a chat request."""
    message = {name: value for name, value in body.items() if name not in _TRANSLATED}
    if LIMIT in body:
        message["max_tokens"] = body[LIMIT]
    system = instructions(body)
    if system:
        message["system"] = "\n\n".join(system)
    message["messages"] = [_turn(turn) for turn in objects_at(body, "messages") if turn["role"] not in INSTRUCTIONS]
    if functions := [object_at(tool, "function") for tool in objects_at(body, "tools", optional=True)]:
        message["tools"] = [
            {"name": tool["name"], "description": tool.get("description", ""), "input_schema": tool["parameters"]}
            for tool in functions
        ]
        forced = forced_function(body)
        message["tool_choice"] = {"type": "tool", "name": forced} if forced else {"type": "auto"}
    return message


def forced_function(body: Mapping[str, object]) -> str | None:
    """Return the function that a chat request forces the model to call; None if the model may choose."""
    choice = body.get("tool_choice")
    return text_at(object_at(choice, "function"), "name") if is_object(choice) else None


def as_completion(message: Mapping[str, object]) -> dict[str, object]:
    """Return the chat completion for a message; ValueError if it is invalid."""
    content = objects_at(message, "content")
    text = "".join(text_at(part, "text") for part in content if part.get("type") == "text")
    thoughts = "".join(text_at(part, "thinking") for part in content if part.get("type") == "thinking")
    calls = [
        {
            "id": text_at(part, "id"),
            "type": "function",
            "function": {"name": text_at(part, "name"), "arguments": json.dumps(part.get("input"), ensure_ascii=False)},
        }
        for part in content
        if part.get("type") == "tool_use"
    ]
    reply: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        reply["tool_calls"] = calls
    if thoughts:
        reply["reasoning_content"] = thoughts
    usage = object_at(message, "usage")
    sent = sum(count_at(usage, f"{kind}input_tokens") for kind in ("", "cache_creation_", "cache_read_"))
    return {
        "id": text_at(message, "id"),
        "object": "chat.completion",
        "model": text_at(message, "model"),
        "choices": [{"index": 0, "message": reply, "finish_reason": finish_reason(message.get("stop_reason"))}],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": count_at(usage, "output_tokens"),
            "prompt_tokens_details": {"cached_tokens": usage.get("cache_read_input_tokens")},
        },
    }


def status_of(error: Mapping[str, object]) -> int:
    """Return the HTTP status that a direct request with this error would have had."""
    return _STATUS.get(str(as_map(error.get("error")).get("type")), 400)


def _turn(message: Mapping[str, object]) -> dict[str, object]:
    """Translate one message; tool calls and their results become parts of messages."""
    content = message.get("content")
    parts = [_part(part) for part in objects_at(message, "content")] if is_list(content) else []
    content = parts or content
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": content}
        return {"role": "user", "content": [result]}
    calls = [_tool_use(call) for call in objects_at(message, "tool_calls", optional=True)]
    if not calls:
        return {"role": message["role"], "content": content}
    blocks = parts or ([{"type": "text", "text": content}] if content else [])
    return {"role": message["role"], "content": [*blocks, *calls]}


def _tool_use(call: Mapping[str, object]) -> dict[str, object]:
    function = object_at(call, "function")
    arguments = arguments_of(text_at(function, "arguments"))
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _part(part: dict[str, object]) -> dict[str, object]:
    """Translate a part of a message's content; only images have another form."""
    if part.get("type") != "image_url":
        return part
    url = text_at(object_at(part, "image_url"), "url")
    data = data_address(url)
    source = {"type": "url", "url": url}
    if data is not None:
        source = {"type": "base64", "media_type": data[0], "data": data[1]}
    return {"type": "image", "source": source}


def instructions(body: Mapping[str, object]) -> list[str]:
    """Return the texts of a chat request's instructions."""
    turns = [turn for turn in objects_at(body, "messages") if turn["role"] in INSTRUCTIONS]
    return [content if isinstance(content := turn.get("content"), str) else _texts(turn) for turn in turns]


def _texts(turn: Mapping[str, object]) -> str:
    return "\n".join(str(part.get("text", "")) for part in objects_at(turn, "content"))


def data_address(url: str) -> tuple[str, str] | None:
    """Return the media type and the base64 text of a `data:` address; None for other addresses."""
    match = _DATA.match(url)
    return (match["type"], url[match.end() :]) if match else None


def arguments_of(text: str) -> dict[str, object]:
    """Parse a tool's arguments; arguments that are not an object go under `value`."""
    try:
        value = parsed(text.encode("utf-8", "replace"))
    except ValueError:
        value = text
    return value if is_object(value) else {"value": value}

"""Chat requests as Anthropic's Messages API takes them, and its replies as chat completions.

So a reply by batch reads, and is cached, like one of Anthropic's OpenAI-compatible endpoint, which takes no batches.
What that endpoint ignores, such as response_format and logprobs, is left out here as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from evalflow.config.parameters import LIMIT
from evalflow.jsonvalues import as_list
from evalflow.llm.finish_reasons import finish_reason

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
"""The roles of a chat request's instructions, which are not turns here."""
_DATA = re.compile(r"data:(?P<type>[^;,]+);base64,")


def as_message(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a message for the body of a chat request."""
    found: dict[str, Any] = {name: value for name, value in body.items() if name not in _TRANSLATED}
    if LIMIT in body:
        found["max_tokens"] = body[LIMIT]
    system = instructions(body)
    if system:
        found["system"] = "\n\n".join(system)
    found["messages"] = [_turn(one) for one in body["messages"] if one["role"] not in INSTRUCTIONS]
    if body.get("tools"):
        functions: list[Mapping[str, Any]] = [tool["function"] for tool in body["tools"]]
        found["tools"] = [
            {"name": one["name"], "description": one.get("description", ""), "input_schema": one["parameters"]}
            for one in functions
        ]
        choice: Mapping[str, Any] | str = body.get("tool_choice", "auto")
        forced: str | None = None if isinstance(choice, str) else choice["function"]["name"]
        found["tool_choice"] = {"type": "tool", "name": forced} if forced else {"type": "auto"}
    return found


def as_completion(message: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion for a message."""
    text = "".join(part["text"] for part in message["content"] if part["type"] == "text")
    calls = [
        {
            "id": part["id"],
            "type": "function",
            "function": {"name": part["name"], "arguments": json.dumps(part["input"], ensure_ascii=False)},
        }
        for part in message["content"]
        if part["type"] == "tool_use"
    ]
    thoughts = "".join(part["thinking"] for part in message["content"] if part["type"] == "thinking")
    reply: dict[str, Any] = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    if thoughts:
        reply["reasoning_content"] = thoughts
    usage = message["usage"]
    sent = sum(usage.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_"))
    return {
        "id": message["id"],
        "object": "chat.completion",
        "model": message["model"],
        "choices": [{"index": 0, "message": reply, "finish_reason": finish_reason(message["stop_reason"])}],
        "usage": {"prompt_tokens": sent, "completion_tokens": usage["output_tokens"]},
    }


def status_of(error: Mapping[str, Any]) -> int:
    """The HTTP status that a request's error would have had."""
    details = cast("dict[str, Any]", error.get("error") or {})
    return _STATUS.get(str(details.get("type")), 400)


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """One message of a conversation; a call of a tool and its result are parts of messages there."""
    content = message.get("content")
    parts = [_part(part) for part in as_list(content)]
    content = parts or content
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": content}
        return {"role": "user", "content": [result]}
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": arguments_of(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls") or ()
    ]
    if not calls:
        return {"role": message["role"], "content": content}
    said = parts or ([{"type": "text", "text": content}] if content else [])
    return {"role": message["role"], "content": [*said, *calls]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a message's content; an image has another form there, and other parts are the same."""
    if part.get("type") != "image_url":
        return part
    data = data_address(part["image_url"]["url"])
    source = {"type": "url", "url": part["image_url"]["url"]}
    if data is not None:
        source = {"type": "base64", "media_type": data[0], "data": data[1]}
    return {"type": "image", "source": source}


def instructions(body: Mapping[str, Any]) -> list[str]:
    """The texts of a chat request that are instructions, and not turns."""
    said = [one["content"] for one in body["messages"] if one["role"] in INSTRUCTIONS]
    return [one if isinstance(one, str) else "\n".join(part.get("text", "") for part in one) for one in said]


def data_address(url: str) -> tuple[str, str] | None:
    """The media type and the base64 text of a `data:` address; None for another one."""
    found = _DATA.match(url)
    return (found["type"], url[found.end() :]) if found else None


def arguments_of(text: str) -> dict[str, Any]:
    """A tool's arguments, which an invalid reply may have left no object."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"value": value}

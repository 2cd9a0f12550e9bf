"""Chat requests as Gemini's generateContent takes them, and its replies as chat completions.

So a reply by batch reads, and is cached, like one of Gemini's OpenAI-compatible endpoint, which takes no batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalflow.jsonvalues import as_list, as_map
from evalflow.llm.anthropic import INSTRUCTIONS, arguments_of, data_address, instructions

_SETTINGS = {
    "temperature": "temperature",
    "max_tokens": "maxOutputTokens",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "max_completion_tokens": "maxOutputTokens",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_TRANSLATED = frozenset({"model", "messages", "tools", "tool_choice", "response_format", "extra_body", *_SETTINGS})
_OF_THE_REQUEST = ("safetySettings", "cachedContent", "serviceTier", "labels")  # not of its generationConfig
_FINISHED = {"STOP": "stop", "MAX_TOKENS": "length"}  # all others are reasons to withhold the reply
_STATUS = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 501, 13: 500, 14: 503, 16: 401}
"""HTTP status by the code of google.rpc.Code."""
_UNSIGNED = "skip_thought_signature_validator"
"""Gemini 3 refuses its own calls of functions without their signature, which a chat completion does not have."""


def as_content(body: Mapping[str, Any]) -> dict[str, Any]:
    """The GenerateContentRequest for the body of a chat request, without its model."""
    names: dict[str, str] = {
        call["id"]: call["function"]["name"] for one in body["messages"] for call in one.get("tool_calls") or ()
    }
    found: dict[str, Any] = {
        "contents": [_turn(one, names) for one in body["messages"] if one["role"] not in INSTRUCTIONS],
        "generationConfig": {new: body[old] for old, new in _SETTINGS.items() if old in body},
    }
    found["generationConfig"] |= _further(body)
    found |= {name: body[name] for name in _OF_THE_REQUEST if name in body}
    system = [{"text": text} for text in instructions(body)]
    if system:
        found["systemInstruction"] = {"parts": system}
    wanted: Mapping[str, Any] = body.get("response_format") or {}
    if wanted:
        found["generationConfig"]["responseMimeType"] = "application/json"
    if "json_schema" in wanted:
        found["generationConfig"]["responseJsonSchema"] = wanted["json_schema"]["schema"]
    if body.get("tools"):
        found |= _functions(body)
    return found


def _further(body: Mapping[str, Any]) -> dict[str, Any]:
    """The configured parameters, which chat completions also take within `extra_body.google`."""
    more = {name: value for name, value in body.items() if name not in (*_TRANSLATED, *_OF_THE_REQUEST)}
    if effort := more.pop("reasoning_effort", None):
        more["thinkingConfig"] = {"thinkingLevel": effort}
    own = as_map(more.pop("generationConfig", None))
    return {**more, **own, **as_map(as_map(body.get("extra_body")).get("google"))}


def as_completion(response: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion for a GenerateContentResponse; a prompt that was blocked is a reply that was withheld."""
    candidate = as_map(next(iter(as_list(response.get("candidates"))), None))
    parts = [as_map(part) for part in as_list(as_map(candidate.get("content")).get("parts"))]
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": call["name"], "arguments": _text(call)}}
        for number, call in enumerate(part["functionCall"] for part in parts if "functionCall" in part)
    ]
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    finished = _FINISHED.get(str(candidate.get("finishReason")), "content_filter")
    thoughts = "".join(part["text"] for part in parts if "text" in part and part.get("thought"))
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    if thoughts:
        message["reasoning_content"] = thoughts
    finish = "tool_calls" if calls and finished == "stop" else finished
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if "logprobsResult" in candidate:
        choice["logprobs"] = {"content": _tokens(as_map(candidate["logprobsResult"]))}
    made = {"object": "chat.completion", "model": response.get("modelVersion", ""), "choices": [choice]}
    usage: Mapping[str, int] = response.get("usageMetadata") or {}
    if usage:
        written = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)  # both are paid as output
        made["usage"] = {
            "prompt_tokens": usage.get("promptTokenCount", 0),
            "completion_tokens": written,
            "completion_tokens_details": {"reasoning_tokens": usage.get("thoughtsTokenCount")},
        }
    return made


def status_of(error: Mapping[str, Any]) -> int:
    """The HTTP status that a request's error would have had."""
    code = int(error.get("code") or 0)
    return code if code >= 400 else _STATUS.get(code, 500)


def _functions(body: Mapping[str, Any]) -> dict[str, Any]:
    """The tools of a chat request, and whether one of them must be called."""
    declared = [
        {"name": one["name"], "description": one.get("description", ""), "parametersJsonSchema": one["parameters"]}
        for one in (tool["function"] for tool in body["tools"])
    ]
    choice: Mapping[str, Any] | str = body.get("tool_choice", "auto")
    calling: dict[str, Any] = {"mode": "AUTO"}
    if not isinstance(choice, str):
        calling = {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
    return {"tools": [{"functionDeclarations": declared}], "toolConfig": {"functionCallingConfig": calling}}


def _turn(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """One message of a conversation; `names` are those of functions, by the ids of their calls."""
    content = message.get("content")
    if message["role"] == "tool":
        name = names.get(message.get("tool_call_id", ""), "tool")
        return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": content}}}]}
    parts = [_part(part) for part in cast("list[Any]", content)] if isinstance(content, list) else []
    parts += [{"text": content}] if content and isinstance(content, str) else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        made = {"name": function["name"], "args": arguments_of(function["arguments"])}
        parts.append({"functionCall": made, "thoughtSignature": _UNSIGNED})
    return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts or [{"text": ""}]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a message's content; one that is neither text nor an image is sent as it is."""
    if part.get("type") == "text":
        return {"text": part["text"]}
    if part.get("type") != "image_url":
        return part
    url: str = part["image_url"]["url"]
    data = data_address(url)
    if data is None:
        return {"fileData": {"fileUri": url}}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}


def _text(call: Mapping[str, Any]) -> str:
    return json.dumps(call.get("args") or {}, ensure_ascii=False)


def _tokens(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """A reply's tokens with the likeliest in place of each, as chat completions have them."""
    chosen: Sequence[Mapping[str, Any]] = result.get("chosenCandidates") or ()
    likely: Sequence[Mapping[str, Any]] = result.get("topCandidates") or [{} for _ in chosen]
    return [
        {**_token(one), "top_logprobs": [_token(other) for other in others.get("candidates") or ()]}
        for one, others in zip(chosen, likely, strict=True)
    ]


def _token(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": one["token"], "logprob": one.get("logProbability", 0.0)}

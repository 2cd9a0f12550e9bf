"""Translate chat requests to Gemini's generateContent, and its replies to chat completions.

So a batch reply is read and cached like one of Gemini's OpenAI-compatible endpoint, which has no batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from evalflow.llm.anthropic import INSTRUCTIONS, arguments_of, data_address, forced_function, instructions
from evalflow.values.jsonvalues import as_map, count_at, is_list, object_at, objects_at, text_at

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
_OF_THE_REQUEST = ("safetySettings", "cachedContent", "serviceTier", "labels")  # not part of generationConfig
_FINISHED = {"STOP": "stop", "MAX_TOKENS": "length"}  # with all others the reply is withheld
_STATUS = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 501, 13: 500, 14: 503, 16: 401}
"""HTTP status by google.rpc.Code."""
_UNSIGNED = "skip_thought_signature_validator"
"""Gemini 3 refuses its own function calls without their signature, which chat completions do not have."""


def as_content(body: Mapping[str, object]) -> dict[str, object]:
    """Return the GenerateContentRequest for the body of a chat request, without its model."""
    turns = objects_at(body, "messages")
    calls = [call for turn in turns for call in objects_at(turn, "tool_calls", optional=True)]
    names = {text_at(call, "id"): text_at(object_at(call, "function"), "name") for call in calls}
    generation = {new: body[old] for old, new in _SETTINGS.items() if old in body} | _further(body)
    wanted = as_map(body.get("response_format"))
    if wanted:
        generation["responseMimeType"] = "application/json"
    if "json_schema" in wanted:
        generation["responseJsonSchema"] = object_at(wanted, "json_schema")["schema"]
    content: dict[str, object] = {
        "contents": [_turn(turn, names) for turn in turns if turn["role"] not in INSTRUCTIONS],
        "generationConfig": generation,
        **{name: body[name] for name in _OF_THE_REQUEST if name in body},
    }
    system = [{"text": text} for text in instructions(body)]
    if system:
        content["systemInstruction"] = {"parts": system}
    if body.get("tools"):
        content |= _functions(body)
    return content


def _further(body: Mapping[str, object]) -> dict[str, object]:
    """Return the configured parameters, which chat completions also take within `extra_body.google`."""
    more = {name: value for name, value in body.items() if name not in (*_TRANSLATED, *_OF_THE_REQUEST)}
    if effort := more.pop("reasoning_effort", None):
        more["thinkingConfig"] = {"thinkingLevel": effort}
    own = as_map(more.pop("generationConfig", None))
    return {**more, **own, **as_map(as_map(body.get("extra_body")).get("google"))}


def as_completion(response: Mapping[str, object]) -> dict[str, object]:
    """Return the chat completion for a GenerateContentResponse; a blocked prompt gives a withheld reply.

    ValueError for anything else.
    """
    candidate = as_map(next(iter(objects_at(response, "candidates", optional=True)), None))
    content = as_map(candidate.get("content"))
    parts = objects_at(content, "parts", optional=True)
    functions = [object_at(part, "functionCall") for part in parts if "functionCall" in part]
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": text_at(call, "name"), "arguments": _arguments(call)},
        }
        for number, call in enumerate(functions)
    ]
    texts = [(text_at(part, "text"), bool(part.get("thought"))) for part in parts if "text" in part]
    text = "".join(text for text, is_thought in texts if not is_thought)
    thoughts = "".join(text for text, is_thought in texts if is_thought)
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = thoughts
    finished = _FINISHED.get(str(candidate.get("finishReason")), "content_filter")
    finish = "tool_calls" if calls and finished == "stop" else finished
    choice: dict[str, object] = {"index": 0, "message": message, "finish_reason": finish}
    if "logprobsResult" in candidate:
        choice["logprobs"] = {"content": _tokens(object_at(candidate, "logprobsResult"))}
    completion = {"object": "chat.completion", "model": response.get("modelVersion", ""), "choices": [choice]}
    if usage := as_map(response.get("usageMetadata")):
        thinking = count_at(usage, "thoughtsTokenCount")
        completion["usage"] = {
            "prompt_tokens": count_at(usage, "promptTokenCount"),
            "completion_tokens": count_at(usage, "candidatesTokenCount") + thinking,  # both are paid as output
            "prompt_tokens_details": {"cached_tokens": usage.get("cachedContentTokenCount")},
            "completion_tokens_details": {"reasoning_tokens": usage.get("thoughtsTokenCount")},
        }
    return completion


def status_of(error: Mapping[str, object]) -> int:
    """Return the HTTP status that a direct request with this error would have had."""
    code = count_at(error, "code")
    return code if code >= 400 else _STATUS.get(code, 500)


def _functions(body: Mapping[str, object]) -> dict[str, object]:
    """Return a chat request's tools, and whether one of them must be called."""
    declared = [
        {"name": tool["name"], "description": tool.get("description", ""), "parametersJsonSchema": tool["parameters"]}
        for tool in (object_at(tool, "function") for tool in objects_at(body, "tools"))
    ]
    forced = forced_function(body)
    calling: dict[str, object] = (
        {"mode": "AUTO"} if forced is None else {"mode": "ANY", "allowedFunctionNames": [forced]}
    )
    return {"tools": [{"functionDeclarations": declared}], "toolConfig": {"functionCallingConfig": calling}}


def _turn(message: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    """Translate one message; `names` has the functions' names by call id."""
    content = message.get("content")
    if message["role"] == "tool":
        name = names.get(str(message.get("tool_call_id", "")), "tool")
        return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": content}}}]}
    parts = [_part(part) for part in objects_at(message, "content")] if is_list(content) else []
    parts += [{"text": content}] if content and isinstance(content, str) else []
    for call in objects_at(message, "tool_calls", optional=True):
        function = object_at(call, "function")
        declared = {"name": function["name"], "args": arguments_of(text_at(function, "arguments"))}
        parts.append({"functionCall": declared, "thoughtSignature": _UNSIGNED})
    return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts or [{"text": ""}]}


def _part(part: dict[str, object]) -> dict[str, object]:
    """Translate a part of a message's content; parts other than text and images are sent unchanged."""
    if part.get("type") == "text":
        return {"text": part["text"]}
    if part.get("type") != "image_url":
        return part
    url = text_at(object_at(part, "image_url"), "url")
    data = data_address(url)
    if data is None:
        return {"fileData": {"fileUri": url}}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}


def _arguments(call: Mapping[str, object]) -> str:
    return json.dumps(call.get("args") or {}, ensure_ascii=False)


def _tokens(result: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    """Return a reply's tokens with the likeliest alternatives of each, as in chat completions."""
    chosen = objects_at(result, "chosenCandidates", optional=True)
    likely = objects_at(result, "topCandidates", optional=True) or [{} for _ in chosen]
    return [
        {**_token(token), "top_logprobs": [_token(other) for other in objects_at(others, "candidates", optional=True)]}
        for token, others in zip(chosen, likely, strict=True)
    ]


def _token(token: Mapping[str, object]) -> dict[str, object]:
    return {"token": text_at(token, "token"), "logprob": token.get("logProbability", 0.0)}

"""The content of a message as chat APIs log it: a text, or parts of text, images, tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.jsonvalues import as_list, as_map, kind, written

_TEXT = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_THOUGHTS = ("thinking", "reasoning", "thought")
_CALLS = ("tool_use", "tool_call", "tool-call", "function_call")
_RESULTS = ("tool_result", "tool-result", "tool_call_response", "function_response")
_CALL_KEYS, _RESULT_KEYS = ("functionCall", "toolUse"), ("functionResponse", "toolResult")
"""Keys of parts without a type, as of Gemini and Bedrock."""
_IDS = ("tool_use_id", "call_id", "id", "tool_call_id", "toolCallId", "toolUseId")


@dataclass(slots=True)
class ToolOutput:
    """What a tool returned for the call with this id, or else of this name."""

    content: Content
    call_id: str | None = None
    name: str | None = None
    is_error: bool = False


@dataclass(slots=True)
class Content:
    """The content of a message by kinds. `parts` are all that belong to its words, in order; `calls` those of tools."""

    parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    results: list[ToolOutput] = field(default_factory=list[ToolOutput])
    thoughts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "\n".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def others(self) -> list[dict[str, Any]]:
        """The parts that are not text."""
        return [part for part in self.parts if part["type"] != "text"]


def read_content(value: Any) -> Content:
    """Read a text, one part or a list of parts; ValueError for anything else."""
    found = Content()
    if isinstance(value, str):
        found.parts.append(_text(value))
        return found
    if isinstance(value, dict):
        one = cast("dict[str, Any]", value)
        value = as_list(one.get("parts")) or [one]  # ChatGPT exports {content_type, parts}
    if not isinstance(value, list):
        raise ValueError(f"expected text or a list of parts, got {kind(value)}")
    for number, part in enumerate(as_list(cast("object", value))):
        try:
            _add(found, part)
        except ValueError as error:
            raise ValueError(f"part {number}: {error}") from None
    return found


def tool_call(declared: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    """A call in the form of chat completions; `call_id` if it has no id. ValueError if it names no tool."""
    inner = as_map(declared.get("function")) or _within(declared, _CALL_KEYS)
    name = inner.get("name", inner.get("toolName"))
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the tool call has no name")
    none: Mapping[str, Any] = {}
    given = next((inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), none)
    own = next((one[key] for one in (declared, inner) for key in _IDS if one.get(key)), call_id)
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"id": str(own), "type": "function", "function": {"name": name, "arguments": arguments}}


def _add(found: Content, declared: Any) -> None:
    if isinstance(declared, str):
        found.parts.append(_text(declared))
        return
    if not isinstance(declared, dict):
        raise ValueError(f"expected text or an object, got {kind(declared)}")
    part = cast("dict[str, Any]", declared)
    type_of = part.get("type")
    said = _said(part)
    if type_of in _THOUGHTS or part.get("thought") is True:
        found.thoughts += [said] if said else []
    elif said is not None and (type_of is None or type_of in _TEXT):
        found.parts.append(_text(said))
    elif type_of in _CALLS or any(part.get(key) for key in _CALL_KEYS):
        found.calls.append(part)
    elif type_of in _RESULTS or any(part.get(key) for key in _RESULT_KEYS):
        found.results.append(_result(part))
    elif type_of in _TEXT:
        raise ValueError(f"text: expected text, got {kind(part.get('text')) if 'text' in part else 'nothing'}")
    elif type_of == "redacted_thinking":
        found.thoughts.append("[redacted]")
    else:
        known = {key: value for key, value in part.items() if value is not None}
        found.parts.append(_picture(known) or {"type": _kind(known), **known})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _said(part: Mapping[str, Any]) -> str | None:
    for key in ("text", "refusal", "thinking", "reasoning", "summary"):
        value = as_map(part.get(key)).get("value", part.get(key))  # the Assistants API has {value, annotations}
        if isinstance(value, str):
            return value
    return None


def _result(part: Mapping[str, Any]) -> ToolOutput:
    inner = _within(part, _RESULT_KEYS)
    said = next((inner[key] for key in ("content", "response", "output", "result") if inner.get(key) is not None), "")
    own = next((str(one[key]) for one in (part, inner) for key in _IDS if one.get(key)), None)
    name = inner.get("name", inner.get("toolName"))
    failed = part.get("is_error") is True or inner.get("status") == "error"
    return ToolOutput(result_content(said), own, name if isinstance(name, str) else None, failed)


def _within(part: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """The object under the first of these keys; the part itself if it has none."""
    return next((found for key in keys if (found := as_map(part.get(key)))), part)


def result_content(value: Any) -> Content:
    """What a tool returned: a text or parts, else a JSON value, which a conversation has as its text."""
    if value is None:
        return Content(parts=[_text("")])
    if {"type", "value"} == set(as_map(value)):
        value = as_map(value)["value"]
    known = as_list(value)
    if isinstance(value, str) or (known and all("type" in as_map(one) or [*as_map(one)] == ["text"] for one in known)):
        return read_content(value)
    if len(known) == 1 and [*as_map(known[0])] == ["json"]:  # as Bedrock wraps it
        value = known[0]["json"]
    return Content(parts=[_text(written(value))])


def _picture(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """An image in the form of chat completions; None if the part has none, or in a form that only its API knows."""
    declared = part.get("image_url")
    if isinstance(declared, str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": declared, **detail}}
    source = as_map(part.get("source")) if part.get("type") == "image" else as_map(part.get("inlineData"))
    media = str(source.get("media_type", source.get("mimeType", "")))
    if source.get("url"):
        return {"type": "image_url", "image_url": {"url": source["url"]}}
    if source.get("data") and media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{source['data']}"}}
    return None


def _kind(part: Mapping[str, Any]) -> str:
    """The part's type; of one without it, its first key."""
    return str(part.get("type") or next(iter(part), "part"))

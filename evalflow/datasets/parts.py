"""The content of a message as chat APIs log it: a text, or parts of text, images, tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalflow.records import SentCall
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_object, kind, written

_TEXT = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_THOUGHTS = ("thinking", "reasoning", "thought")
_CALLS = ("tool_use", "tool_call", "tool-call", "function_call")
_RESULTS = ("tool_result", "tool-result", "tool_call_response", "function_response")
_CALL_KEYS, _RESULT_KEYS = ("functionCall", "toolUse"), ("functionResponse", "toolResult")
"""Keys of parts without a type, from Gemini and Bedrock."""
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

    parts: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    calls: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    results: list[ToolOutput] = field(default_factory=list[ToolOutput])
    thoughts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "\n".join(str(part["text"]) for part in self.parts if part["type"] == "text")

    @property
    def others(self) -> list[Mapping[str, object]]:
        return [part for part in self.parts if part["type"] != "text"]


def read_content(value: object) -> Content:
    """Read a text, one part or a list of parts; ValueError for anything else."""
    content = Content()
    if isinstance(value, str):
        content.parts.append(_text(value))
        return content
    if is_object(value):
        value = as_list(value.get("parts")) or [value]  # ChatGPT exports {content_type, parts}
    if not is_list(value):
        raise ValueError(f"expected text or a list of parts, got {kind(value)}")
    for number, part in enumerate(value):
        try:
            _add(content, part)
        except ValueError as error:
            raise ValueError(f"part {number}: {error}") from None
    return content


def tool_call(declared: Mapping[str, object], call_id: str) -> SentCall:
    """A call in the form of chat completions; `call_id` if it has no id. ValueError if it names no tool."""
    inner = as_map(declared.get("function")) or _within(declared, _CALL_KEYS)
    name = inner.get("name", inner.get("toolName"))
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the tool call has no name")
    values = (inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None)
    value = next(values, None)
    own = next((level[key] for level in (declared, inner) for key in _IDS if level.get(key)), call_id)
    arguments = value if isinstance(value, str) else json.dumps({} if value is None else value, ensure_ascii=False)
    return {"id": str(own), "type": "function", "function": {"name": name, "arguments": arguments}}


def _add(content: Content, declared: object) -> None:
    if isinstance(declared, str):
        content.parts.append(_text(declared))
        return
    if not is_object(declared):
        raise ValueError(f"expected text or an object, got {kind(declared)}")
    part = declared
    type_of = part.get("type")
    text = _text_in(part)
    if type_of in _THOUGHTS or part.get("thought") is True:
        content.thoughts += [text] if text else []
    elif text is not None and (type_of is None or type_of in _TEXT):
        content.parts.append(_text(text))
    elif type_of in _CALLS or any(part.get(key) for key in _CALL_KEYS):
        content.calls.append(part)
    elif type_of in _RESULTS or any(part.get(key) for key in _RESULT_KEYS):
        content.results.append(_result(part))
    elif type_of in _TEXT:
        raise ValueError(f"text: expected text, got {kind(part.get('text')) if 'text' in part else 'nothing'}")
    elif type_of == "redacted_thinking":
        content.thoughts.append("[redacted]")
    else:
        values = {key: value for key, value in part.items() if value is not None}
        content.parts.append(_picture(values) or {"type": _kind(values), **values})


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _text_in(part: Mapping[str, object]) -> str | None:
    for key in ("text", "refusal", "thinking", "reasoning", "summary"):
        value = as_map(part.get(key)).get("value", part.get(key))  # the Assistants API has {value, annotations}
        if isinstance(value, str):
            return value
    return None


def _result(part: Mapping[str, object]) -> ToolOutput:
    inner = _within(part, _RESULT_KEYS)
    keys = ("content", "response", "output", "result")
    returned = next((inner[key] for key in keys if inner.get(key) is not None), "")
    own = next((str(level[key]) for level in (part, inner) for key in _IDS if level.get(key)), None)
    name = inner.get("name", inner.get("toolName"))
    failed = part.get("is_error") is True or inner.get("status") == "error"
    return ToolOutput(result_content(returned), own, name if isinstance(name, str) else None, failed)


def _within(part: Mapping[str, object], keys: Sequence[str]) -> Mapping[str, object]:
    """The object under the first of these keys; the part itself if it has none."""
    return next((inner for key in keys if (inner := as_map(part.get(key)))), part)


def result_content(value: object) -> Content:
    """What a tool returned: a text or parts, else a JSON value, which a conversation has as its text."""
    if value is None:
        return Content(parts=[_text("")])
    if {"type", "value"} == set(as_map(value)):
        value = as_map(value)["value"]
    items = as_list(value)
    if isinstance(value, str) or (items and all("type" in part or [*part] == ["text"] for part in map(as_map, items))):
        return read_content(value)
    if len(items) == 1 and [*(only := as_map(items[0]))] == ["json"]:  # as Bedrock wraps it
        value = only["json"]
    return Content(parts=[_text(written(value))])


def _picture(part: Mapping[str, object]) -> dict[str, object] | None:
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


def _kind(part: Mapping[str, object]) -> str:
    return str(part.get("type") or next(iter(part), "part"))

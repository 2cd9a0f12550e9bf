"""What a span says was asked and answered: messages of the gen_ai conventions, old and new, and of OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NotRequired

from typing_extensions import TypedDict

from evalflow.traces.spans import Span
from evalflow.values import jsonvalues
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_object, is_too_deep, written

_ROLES: Mapping[str, str] = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
_SIDES: Mapping[str, tuple[str, str, str, str, str]] = {
    "input": ("gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages", "input.value", "user"),
    "output": ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages", "output.value", "assistant"),
}
_TEXT_KEYS: Mapping[str, tuple[str, ...]] = {
    "input": ("question", "input", "query", "prompt", "content", "text"),
    "output": ("answer", "output", "result", "response", "content", "text"),
}
_EVENTS: Mapping[str, tuple[str, str]] = {
    "gen_ai.system.message": ("input", "system"),
    "gen_ai.user.message": ("input", "user"),
    "gen_ai.assistant.message": ("input", "assistant"),
    "gen_ai.tool.message": ("input", "tool"),
    "gen_ai.choice": ("output", "assistant"),
}
_MANY_DOTS = 20
_AROUND = 8  # objects within objects around a message
_DEEPEST = 48  # lists and objects within each other in a value; what an answer holds of it is deeper by a few


class TracedCall(TypedDict):
    """A call of a tool, with what the trace recorded of it."""

    name: str
    id: NotRequired[str]
    arguments: NotRequired[dict[str, object]]


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message: its text, the tools that it calls, results by the id of their call, and kinds of its other parts."""

    role: str
    text: str
    calls: Sequence[TracedCall] = ()
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[str] = ()


@dataclass(slots=True)
class _Parts:
    texts: list[str] = field(default_factory=list[str])
    calls: list[TracedCall] = field(default_factory=list[TracedCall])
    results: dict[str, str] = field(default_factory=dict[str, str])
    others: list[str] = field(default_factory=list[str])
    is_reply: bool = False


def messages_of(span: Span, side: str) -> list[SpanMessage]:
    """The messages of one side, `input` or `output`, by the first of the conventions that has any."""
    current, older, indexed, plain, role = _SIDES[side]
    sources = [span.attributes, *(attributes for _, attributes in span.events)]
    for attributes in sources:
        if messages := _listed(parsed(attributes.get(current)), role):
            about = parsed(attributes.get("gen_ai.system_instructions")) if side == "input" else None
            return _instructions(about) + messages
    flat = span.attributes
    messages = _listed(_unflattened(flat, f"{indexed}."), role) or _listed(_unflattened(flat, f"{older}."), role)
    messages = messages or _of_events(span, side)
    for attributes in sources:
        messages = messages or _of_value(attributes.get(older), side, role)
    return messages or _of_value(flat.get(plain), side, role)


def parsed(value: object) -> object:
    """The value of JSON text; other texts and values as they are."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
        return value
    try:
        content = jsonvalues.parsed(value.encode())
    except ValueError:
        return value
    return value if is_too_deep(content, _DEEPEST) else content


def tool_call(name: str, arguments: object, call_id: object) -> TracedCall:
    """A call of a tool. Arguments that are not an object become its `input`; unrecorded ones are left out."""
    content = parsed(arguments)
    call: TracedCall = {"name": name}
    if isinstance(call_id, str | int) and call_id != "":
        call["id"] = str(call_id)
    if is_object(content) or content == "":
        call["arguments"] = dict(as_map(content))
    elif content is not None:
        call["arguments"] = {"input": content}
    return call


def _of_value(value: object, side: str, role: str) -> list[SpanMessage]:
    """The messages of a value that may be anything: a text, messages, or an object with messages or one text.

    Any other JSON is the state of a program, and is not a message.
    """
    content = parsed(value)
    for _ in range(_AROUND):
        if isinstance(content, str):
            return [SpanMessage(role, content)] if content.strip() else []
        if is_list(content):
            return _listed(content, role)
        inner = as_map(content)
        if _is_message(inner):
            return _listed([inner], role)
        texts = [inner[key] for key in _TEXT_KEYS[side] if key in inner]
        listed = inner.get("messages")
        if is_list(listed):
            messages = _listed(listed, role)
            return messages if side == "input" else [turn for turn in messages if turn.role == "assistant"][-1:]
        content = texts[0] if texts else next(iter(inner.values())) if len(inner) == 1 else None
        if content is None:
            return []
    return []


def _is_message(value: Mapping[str, object]) -> bool:
    return ("role" in value or value.get("type") in _ROLES) and ("content" in value or "parts" in value)


def _listed(declared: object, role: str) -> list[SpanMessage]:
    """The messages of a list; empty if any item is not a message."""
    items = as_list(declared)
    batch = as_list(items[0]) if len(items) == 1 else []
    items = batch if batch and not isinstance(batch[0], str) else items
    messages = [message for item in items if (message := _message(item, role)) is not None]
    return messages if len(messages) == len(items) else []


def _message(declared: object, default: str) -> SpanMessage | None:
    pair = as_list(declared)
    if len(pair) == 2 and all(isinstance(text, str) for text in pair):
        declared = {"role": pair[0], "content": pair[1]}
    item = as_map(declared)
    item = as_map(item.get("kwargs")) or as_map(item.get("message")) or item
    if not any(key in item for key in ("content", "contents", "parts", "tool_calls", "text")):
        return None
    kind = item.get("role") or (item.get("type") if item.get("type") in _ROLES else None) or default
    role = str(kind).lower()
    parts = _Parts()
    for key in ("content", "contents", "parts", "text"):
        _read(parts, item.get(key))
    for call in as_list(parsed(item.get("tool_calls"))):
        _read_call(parts, as_map(call))
    role = "tool" if parts.is_reply and not parts.texts else _ROLES.get(role, role)
    answered = item.get("tool_call_id") or (item.get("id") if role == "tool" else None)
    if isinstance(answered, str) and parts.texts:
        parts.results[answered] = "\n".join(parts.texts)
    return SpanMessage(role, "\n".join(parts.texts), parts.calls, parts.results, parts.others)


def _read(parts: _Parts, content: object) -> None:
    if isinstance(content, str):
        parts.texts += [content] if content else []
        return
    for item in as_list(content) or ([content] if content else []):
        part = as_map(item)
        part = as_map(part.get("message_content")) or part
        kind = str(part.get("type") or "text")
        text = part.get("content", part.get("text"))
        if isinstance(item, str):
            parts.texts.append(item)
        elif kind in ("tool_call", "tool_use"):
            _read_call(parts, part)
        elif kind in ("tool_call_response", "tool_result"):
            parts.is_reply = True
            _read_result(parts, part)
        elif kind in ("text", "input_text", "output_text") and isinstance(text, str):
            parts.texts.append(text)
        else:
            parts.others.append(kind[:40])


def _read_call(parts: _Parts, declared: Mapping[str, object]) -> None:
    call = as_map(declared.get("tool_call")) or declared
    inner = as_map(call.get("function")) or call
    name = inner.get("name")
    arguments = inner.get("arguments", inner.get("args", inner.get("input")))
    if isinstance(name, str) and name.strip():
        parts.calls.append(tool_call(name, arguments, call.get("id", declared.get("id"))))
    else:
        parts.others.append("tool call without a name")


def _read_result(parts: _Parts, part: Mapping[str, object]) -> None:
    called = part.get("id", part.get("tool_use_id"))
    result = next((part[key] for key in ("response", "result", "content") if part.get(key) is not None), None)
    if isinstance(called, str) and result is not None:
        parts.results[called] = written(result)


def _instructions(declared: object) -> list[SpanMessage]:
    parts = _Parts()
    _read(parts, declared)
    return [SpanMessage("system", "\n".join(parts.texts), others=parts.others)] if parts.texts else []


def _of_events(span: Span, side: str) -> list[SpanMessage]:
    messages = [
        _message({**attributes, **as_map(parsed(attributes.get("message")))}, _EVENTS[name][1])
        for name, attributes in span.events
        if name in _EVENTS and _EVENTS[name][0] == side
    ]
    return [message for message in messages if message is not None]


def _unflattened(attributes: Mapping[str, object], prefix: str) -> list[object]:
    """The list of objects that is written as keys with dots and numbers, such as `PREFIX0.message.role`."""
    below = [(key.removeprefix(prefix), value) for key, value in attributes.items() if key.startswith(prefix)]
    is_item = [key.partition(".")[0].isdecimal() and key.count(".") <= _MANY_DOTS for key, _ in below]
    return as_list(_nested(compress(below, is_item)))


def indexed(attributes: Mapping[str, object], prefix: str) -> list[Mapping[str, object]]:
    """The objects below a prefix, in the order of their numbers."""
    return [as_map(item) for item in _unflattened(attributes, prefix)]


def _nested(pairs: Iterable[tuple[str, object]]) -> object:
    """Nested objects of keys with dots; those whose keys are all numbers become lists."""
    groups: dict[str, list[tuple[str, object]]] = {}
    plain: dict[str, object] = {}
    for key, value in pairs:
        head, dot, rest = key.partition(".")
        if dot:
            groups.setdefault(head, []).append((rest, value))
        else:
            plain[head] = value
    nested = plain | {head: _nested(rest) for head, rest in groups.items()}
    if nested and all(key.isdecimal() for key in nested):
        return [nested[key] for key in sorted(nested, key=lambda key: (len(key), key))]
    return nested

"""What a span says was asked and answered: messages of the gen_ai conventions, old and new, and of OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from evalflow import jsonvalues
from evalflow.jsonvalues import as_list, as_map, is_too_deep, written
from evalflow.traces.spans import Span

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


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message: its text, the tools that it calls, results by the id of their call, and kinds of its other parts."""

    role: str
    text: str
    calls: Sequence[Mapping[str, Any]] = ()
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[str] = ()


@dataclass(slots=True)
class _Parts:
    texts: list[str] = field(default_factory=list[str])
    calls: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    results: dict[str, str] = field(default_factory=dict[str, str])
    others: list[str] = field(default_factory=list[str])
    is_reply: bool = False


def messages_of(span: Span, side: str) -> list[SpanMessage]:
    """The messages of one side, `input` or `output`, by the first of the conventions that has any."""
    current, older, indexed, plain, role = _SIDES[side]
    sources = [span.attributes, *(attributes for _, attributes in span.events)]
    for attributes in sources:
        if found := _listed(parsed(attributes.get(current)), role):
            about = parsed(attributes.get("gen_ai.system_instructions")) if side == "input" else None
            return _instructions(about) + found
    flat = span.attributes
    found = _listed(_unflattened(flat, f"{indexed}."), role) or _listed(_unflattened(flat, f"{older}."), role)
    found = found or _of_events(span, side)
    for attributes in sources:
        found = found or _of_value(attributes.get(older), side, role)
    return found or _of_value(flat.get(plain), side, role)


def parsed(value: Any) -> Any:
    """The value of JSON text; other texts and values as they are."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
        return value
    try:
        known = jsonvalues.parsed(value.encode())
    except ValueError:
        return value
    return value if is_too_deep(known, _DEEPEST) else known


def tool_call(name: str, arguments: Any, call_id: Any) -> dict[str, Any]:
    """A call of a tool. Arguments that are no object become its `input`; those that are not recorded are left out."""
    known = parsed(arguments)
    call: dict[str, Any] = {"name": name}
    if isinstance(call_id, str | int) and call_id != "":
        call["id"] = str(call_id)
    if isinstance(known, Mapping) or known == "":
        call["arguments"] = dict(as_map(known))
    elif known is not None:
        call["arguments"] = {"input": known}
    return call


def _of_value(value: Any, side: str, role: str) -> list[SpanMessage]:
    """The messages of a value that may be anything: a text, messages, or an object with messages or one text.

    JSON that is none of these is the state of a program, and says nothing.
    """
    known = parsed(value)
    for _ in range(_AROUND):
        if isinstance(known, str):
            return [SpanMessage(role, known)] if known.strip() else []
        if isinstance(known, list):
            return _listed(as_list(known), role)
        inner = as_map(known)
        if _is_message(inner):
            return _listed([inner], role)
        texts = [inner[key] for key in _TEXT_KEYS[side] if key in inner]
        listed = inner.get("messages")
        if isinstance(listed, list):
            messages = _listed(as_list(listed), role)
            return messages if side == "input" else [one for one in messages if one.role == "assistant"][-1:]
        known = texts[0] if texts else next(iter(inner.values())) if len(inner) == 1 else None
        if known is None:
            return []
    return []


def _is_message(value: Mapping[str, Any]) -> bool:
    return ("role" in value or value.get("type") in _ROLES) and ("content" in value or "parts" in value)


def _listed(declared: Any, role: str) -> list[SpanMessage]:
    """The messages of a list; empty if any of them is none."""
    items = as_list(declared)
    batch = as_list(items[0]) if len(items) == 1 else []
    items = batch if batch and not isinstance(batch[0], str) else items
    found = [_message(item, role) for item in items]
    return [one for one in found if one] if all(found) else []


def _message(declared: Any, default: str) -> SpanMessage | None:
    pair = as_list(declared)
    if len(pair) == 2 and all(isinstance(one, str) for one in pair):
        declared = {"role": pair[0], "content": pair[1]}
    known = as_map(declared)
    known = as_map(known.get("kwargs")) or as_map(known.get("message")) or known
    if not any(key in known for key in ("content", "contents", "parts", "tool_calls", "text")):
        return None
    kind = known.get("role") or (known.get("type") if known.get("type") in _ROLES else None) or default
    role = str(kind).lower()
    parts = _Parts()
    for key in ("content", "contents", "parts", "text"):
        _read(parts, parsed(known.get(key)) if isinstance(known.get(key), list) else known.get(key))
    for call in as_list(parsed(known.get("tool_calls"))):
        _read_call(parts, as_map(call))
    role = "tool" if parts.is_reply and not parts.texts else _ROLES.get(role, role)
    answered = known.get("tool_call_id") or (known.get("id") if role == "tool" else None)
    if isinstance(answered, str) and parts.texts:
        parts.results[answered] = "\n".join(parts.texts)
    return SpanMessage(role, "\n".join(parts.texts), parts.calls, parts.results, parts.others)


def _read(parts: _Parts, content: Any) -> None:
    if isinstance(content, str):
        parts.texts += [content] if content else []
        return
    for item in as_list(content) if isinstance(content, list) else [content] if content else []:
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


def _read_call(parts: _Parts, declared: Mapping[str, Any]) -> None:
    call = as_map(declared.get("tool_call")) or declared
    inner = as_map(call.get("function")) or call
    name = inner.get("name")
    given = inner.get("arguments", inner.get("args", inner.get("input")))
    if isinstance(name, str) and name.strip():
        parts.calls.append(tool_call(name, given, call.get("id", declared.get("id"))))
    else:
        parts.others.append("tool call without a name")


def _read_result(parts: _Parts, part: Mapping[str, Any]) -> None:
    called = part.get("id", part.get("tool_use_id"))
    said = next((part[key] for key in ("response", "result", "content") if part.get(key) is not None), None)
    if isinstance(called, str) and said is not None:
        parts.results[called] = written(said)


def _instructions(declared: Any) -> list[SpanMessage]:
    parts = _Parts()
    _read(parts, declared)
    return [SpanMessage("system", "\n".join(parts.texts), others=parts.others)] if parts.texts else []


def _of_events(span: Span, side: str) -> list[SpanMessage]:
    found = [
        _message({**attributes, **as_map(parsed(attributes.get("message")))}, _EVENTS[name][1])
        for name, attributes in span.events
        if name in _EVENTS and _EVENTS[name][0] == side
    ]
    return [one for one in found if one]


def _unflattened(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list of objects that is written as keys with dots and numbers, such as `PREFIX0.message.role`."""
    below = [(key.removeprefix(prefix), value) for key, value in attributes.items() if key.startswith(prefix)]
    is_item = [key.partition(".")[0].isdecimal() and key.count(".") <= _MANY_DOTS for key, _ in below]
    return as_list(_nested(compress(below, is_item)))


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[Mapping[str, Any]]:
    """The objects below a prefix, in the order of their numbers."""
    return [as_map(one) for one in _unflattened(attributes, prefix)]


def _nested(pairs: Iterable[tuple[str, Any]]) -> Any:
    """Nested objects of keys with dots; those whose keys are all numbers become lists."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    plain: dict[str, Any] = {}
    for key, value in pairs:
        head, dot, rest = key.partition(".")
        if dot:
            groups.setdefault(head, []).append((rest, value))
        else:
            plain[head] = value
    found = plain | {head: _nested(rest) for head, rest in groups.items()}
    if found and all(key.isdecimal() for key in found):
        return [found[key] for key in sorted(found, key=lambda key: (len(key), key))]
    return found

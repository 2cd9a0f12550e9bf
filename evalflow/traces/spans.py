"""Spans of OTLP JSON (ExportTraceServiceRequest).

Only attributes that say what was asked and answered are kept. Everything else, headers among them, is never stored.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalflow.jsonvalues import as_list, as_map, as_number, kind

_KEPT = (
    "gen_ai.",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.token_count.",
    "llm.cost.total",
    "llm.model_name",
    "input.value",
    "output.value",
    "retrieval.documents.",
    "reranker.output_documents.",
    "tool.name",
    "session.id",
    "openinference.span.kind",
    "event.name",
)
_DROPPED = ("gen_ai.tool.definitions", "gen_ai.tool.description")
_ERROR = (2, "STATUS_CODE_ERROR")


@dataclass(frozen=True, slots=True)
class Span:
    """One span: its place in the trace, its times in nanoseconds, and the attributes that are kept.

    Attributes:
        failure: What its status says if it failed; empty without words; None if it did not fail.
        where: The line of the file, or the place in the document.
    """

    trace: str
    id: str
    parent: str
    name: str
    where: str
    begin: int | None = None
    end: int | None = None
    failure: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()


def declared_spans(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The spans of an ExportTraceServiceRequest, unread; ValueError for another form, such as of OTLP before 0.15."""
    for resource in _listed(request, "resourceSpans"):
        if "scopeSpans" not in resource:
            raise ValueError(f"resourceSpans have no scopeSpans: {', '.join(resource)[:80] or 'nothing'}")
        for scope in _listed(resource, "scopeSpans"):
            yield from _listed(scope, "spans")


def span_of(declared: Any, where: str) -> Span | None:
    """Read a span; None if it has no traceId or spanId."""
    known = as_map(declared)
    trace, own = _id(known.get("traceId")), _id(known.get("spanId"))
    if not trace or not own:
        return None
    status = as_map(known.get("status"))
    events = [as_map(one) for one in as_list(known.get("events"))]
    said = [
        _text(one.get("exception.message")) for event in events if (one := _attributes(event, ("exception.message",)))
    ]
    failure = _text(status.get("message")) or next(iter(said), "")
    return Span(
        trace=trace,
        id=own,
        parent=_id(known.get("parentSpanId")),
        name=_text(known.get("name")),
        where=where,
        begin=_whole(known.get("startTimeUnixNano")),
        end=_whole(known.get("endTimeUnixNano")),
        failure=failure if status.get("code") in _ERROR else None,
        attributes=_attributes(known, _KEPT),
        events=tuple(
            (_text(event.get("name")), _attributes(event, (*_KEPT, "content", "role", "message", "id", "tool_calls")))
            for event in events
            if _text(event.get("name")).startswith("gen_ai.")
        ),
    )


def unread_attributes(declared: Any) -> Iterator[str]:
    """The names of a span's attributes that are not kept."""
    for one in as_list(as_map(declared).get("attributes")):
        key = _text(as_map(one).get("key"))
        if key and (not key.startswith(_KEPT) or key.startswith(_DROPPED)):
            yield key


def _listed(declared: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = declared.get(key)
    if found is not None and not isinstance(found, list):
        raise ValueError(f"{key} is {kind(found)}, and a list is wanted")
    return [as_map(one) for one in as_list(found)]


def _attributes(declared: Mapping[str, Any], kept: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in as_list(declared.get("attributes")):
        known = as_map(one)
        key = _text(known.get("key"))
        if key.startswith(kept) and not key.startswith(_DROPPED):
            found[key] = _value(known.get("value"))
    return found


def _value(declared: Any) -> Any:
    """The value of an AnyValue; bytes, and what is none, are null."""
    known = as_map(declared)
    if "arrayValue" in known:
        return [_value(one) for one in as_list(as_map(known["arrayValue"]).get("values"))]
    if "kvlistValue" in known:
        pairs = [as_map(one) for one in as_list(as_map(known["kvlistValue"]).get("values"))]
        return {_text(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    if "intValue" in known:
        return _whole(known["intValue"])
    if "doubleValue" in known:
        return as_number(known["doubleValue"])  # NaN and Infinity are texts, and no number
    return known.get("stringValue", known.get("boolValue"))


def _whole(value: Any) -> int | None:
    """A whole number of 64 bits, which OTLP writes as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if abs(number) < 2**64 else None


def _id(value: Any) -> str:
    """An identifier in hexadecimal digits; libraries for protobuf write its bytes as base64."""
    text = _text(value)
    if len(text) in (12, 24) and text.endswith("="):
        with contextlib.suppress(ValueError):
            return base64.b64decode(text, validate=True).hex()
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

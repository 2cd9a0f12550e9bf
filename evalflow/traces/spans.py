"""Spans of OTLP JSON (ExportTraceServiceRequest).

Only attributes that say what was asked and answered are kept. Everything else, headers among them, is never stored.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evalflow.values.cells import number_of
from evalflow.values.jsonvalues import as_list, as_map, as_number, is_list, kind

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
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    events: tuple[tuple[str, Mapping[str, object]], ...] = ()


def declared_spans(request: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The spans of an ExportTraceServiceRequest, unread; ValueError for another form, such as OTLP before 0.15."""
    for resource in _listed(request, "resourceSpans"):
        if "scopeSpans" not in resource:
            raise ValueError(f"resourceSpans have no scopeSpans: {', '.join(resource)[:80] or 'nothing'}")
        for scope in _listed(resource, "scopeSpans"):
            yield from _listed(scope, "spans")


def span_of(declared: object, where: str) -> Span | None:
    """Read a span; None if it has no traceId or spanId."""
    span = as_map(declared)
    trace, own = _id(span.get("traceId")), _id(span.get("spanId"))
    if not trace or not own:
        return None
    status = as_map(span.get("status"))
    events = [as_map(event) for event in as_list(span.get("events"))]
    kept = [_attributes(event, ("exception.message",)) for event in events]
    exceptions = [_text(attributes.get("exception.message")) for attributes in kept if attributes]
    failure = _text(status.get("message")) or next(iter(exceptions), "")
    return Span(
        trace=trace,
        id=own,
        parent=_id(span.get("parentSpanId")),
        name=_text(span.get("name")),
        where=where,
        begin=_whole(span.get("startTimeUnixNano")),
        end=_whole(span.get("endTimeUnixNano")),
        failure=failure if status.get("code") in _ERROR else None,
        attributes=_attributes(span, _KEPT),
        events=tuple(
            (_text(event.get("name")), _attributes(event, (*_KEPT, "content", "role", "message", "id", "tool_calls")))
            for event in events
            if _text(event.get("name")).startswith("gen_ai.")
        ),
    )


def unread_attributes(declared: object) -> Iterator[str]:
    """The names of a span's attributes that are not kept."""
    for attribute in as_list(as_map(declared).get("attributes")):
        key = _text(as_map(attribute).get("key"))
        if key and (not key.startswith(_KEPT) or key.startswith(_DROPPED)):
            yield key


def _listed(declared: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    items = declared.get(key)
    if items is not None and not is_list(items):
        raise ValueError(f"{key}: expected a list, got {kind(items)}")
    return [as_map(item) for item in items or ()]


def _attributes(declared: Mapping[str, object], kept: tuple[str, ...]) -> dict[str, object]:
    values: dict[str, object] = {}
    for attribute in map(as_map, as_list(declared.get("attributes"))):
        key = _text(attribute.get("key"))
        if key.startswith(kept) and not key.startswith(_DROPPED):
            values[key] = _value(attribute.get("value"))
    return values


def _value(declared: object) -> object:
    """The value of an AnyValue; bytes, and anything else, are null."""
    value = as_map(declared)
    if "arrayValue" in value:
        return [_value(item) for item in as_list(as_map(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        pairs = [as_map(pair) for pair in as_list(as_map(value["kvlistValue"]).get("values"))]
        return {_text(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    if "intValue" in value:
        return _whole(value["intValue"])
    if "doubleValue" in value:
        return as_number(value["doubleValue"])  # NaN and Infinity are texts, not numbers
    return value.get("stringValue", value.get("boolValue"))


def _whole(value: object) -> int | None:
    """A whole number of 64 bits, which OTLP writes as text."""
    number = number_of(value) if isinstance(value, int | str) else None
    return number if isinstance(number, int) and abs(number) < 2**64 else None


def _id(value: object) -> str:
    """An identifier in hexadecimal digits; libraries for protobuf write its bytes as base64."""
    text = _text(value)
    if len(text) in (12, 24) and text.endswith("="):
        with contextlib.suppress(ValueError):
            return base64.b64decode(text, validate=True).hex()
    return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

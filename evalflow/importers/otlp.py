"""Spans of OTLP JSON (ExportTraceServiceRequest): one document, a list of them, or JSON lines as file exporters write.

Only attributes that say what was asked and answered are kept. Everything else, headers among them, is never stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalflow.datasets.json_files import BOM, open_jsonl, streamed_items
from evalflow.datasets.sources import MAX_RECORD, shown
from evalflow.errors import Problem, UserError
from evalflow.importers.ledger import Ledger
from evalflow.importers.sources import expect_text
from evalflow.importers.values import as_list, as_map, as_number

_KEPT = (
    "gen_ai.", "llm.input_messages.", "llm.output_messages.", "llm.token_count.", "llm.cost.total", "llm.model_name",
    "input.value", "output.value", "retrieval.documents.", "reranker.output_documents.", "tool.name", "session.id",
    "openinference.span.kind", "event.name",
)  # fmt: skip
_DROPPED = ("gen_ai.tool.definitions", "gen_ai.tool.description")
_ERROR = (2, "STATUS_CODE_ERROR")
_SPANS = "resourceSpans.item.scopeSpans.item.spans.item"
_NO_REQUEST = "export them as OTLP JSON: docs/import.md#traces"


@dataclass(frozen=True, slots=True)
class Span:
    """One span: its place in the trace, its times in nanoseconds, and the attributes that are kept.

    Attributes:
        failure: What its status says if it failed; empty without words; None if it did not fail.
        where: The line of the file.
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


def read_spans(path: Path, ledger: Ledger) -> Iterator[Span]:
    """The spans of a file, one at a time; requests without spans, and spans without identifiers, are listed."""
    expect_text(path)
    empty = True
    for where, declared in _lines(path, ledger) if _is_lines(path) else _streamed(path, ledger):
        ledger.found("spans")
        empty = False
        known = as_map(declared)
        if not _text(known.get("traceId")) or not _text(known.get("spanId")):
            ledger.left("spans", "span", where, "it has no traceId or spanId")
            continue
        yield _span(known, where)
    if empty:
        raise UserError(Problem("it has no spans (resourceSpans)", shown(path), _NO_REQUEST))


def _is_lines(path: Path) -> bool:
    """Whether each line, or each object that begins on a line of its own, is a request."""
    try:
        with path.open("rb") as file:
            while (line := file.readline(MAX_RECORD + 2)) and not line.removeprefix(BOM).strip():
                pass
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", shown(path))) from None
    is_small = path.stat().st_size <= MAX_RECORD
    first = line.removeprefix(BOM).strip()
    is_whole = first.endswith(b"}") and len(line) <= MAX_RECORD
    return first.startswith(b"{") and (is_whole or (first == b"{" and is_small))


def _lines(path: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    try:
        for row in open_jsonl(path).rows:
            if isinstance(row, Problem):
                raise UserError(row)
            ledger.found("requests")
            if not isinstance(row.data.get("resourceSpans"), list):
                others = [key for key in ("resourceLogs", "resourceMetrics") if key in row.data]
                reason = f"it has {others[0] if others else 'something else'}, not resourceSpans"
                ledger.left("requests", "request", row.where, reason, "only spans become cases")
                continue
            ledger.took("requests")
            for resource in as_list(row.data["resourceSpans"]):
                if "scopeSpans" not in as_map(resource):
                    what = f"resourceSpans have no scopeSpans: {', '.join(as_map(resource))[:80] or 'nothing'}"
                    raise UserError(Problem(what, row.where, "export them with OTLP 0.15 or newer"))
                for scope in as_list(as_map(resource).get("scopeSpans")):
                    for span in as_list(as_map(scope).get("spans")):
                        yield row.where, span
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", shown(path))) from None


def _streamed(path: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """The spans of a document of any size, or of a list of documents."""
    with path.open("rb") as file:
        is_list = file.read(4096).removeprefix(BOM).lstrip().startswith(b"[")
    prefix = f"item.{_SPANS}" if is_list else _SPANS
    ledger.found("requests")
    ledger.took("requests")
    for number, span in enumerate(streamed_items(path, prefix, {})):
        yield f"{shown(path)}:spans[{number}]", span


def _span(known: Mapping[str, Any], where: str) -> Span:
    status = as_map(known.get("status"))
    events = [as_map(one) for one in as_list(known.get("events"))]
    said = [
        _text(one.get("exception.message")) for event in events if (one := _attributes(event, ("exception.message",)))
    ]
    failure = _text(status.get("message")) or next(iter(said), "")
    return Span(
        trace=_text(known["traceId"]),
        id=_text(known["spanId"]),
        parent=_text(known.get("parentSpanId")),
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

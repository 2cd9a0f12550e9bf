"""Files of OTLP JSON: one document, a list of them, or JSON lines as exporters to files write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalflow.datasets.json_files import BOM, open_jsonl, streamed_items
from evalflow.datasets.sources import MAX_RECORD
from evalflow.errors import Problem, UserError
from evalflow.importers.ledger import Ledger
from evalflow.importers.sources import expect_text
from evalflow.paths import shown
from evalflow.traces.spans import Span, declared_spans, span_of

_SPANS = "resourceSpans.item.scopeSpans.item.spans.item"
_NO_REQUEST = "export them as OTLP JSON: docs/import.md#traces"


def read_spans(path: Path, ledger: Ledger) -> Iterator[Span]:
    """The spans of a file, one at a time; requests without spans, and spans without identifiers, are listed."""
    expect_text(path)
    empty = True
    for where, declared in _lines(path, ledger) if _is_lines(path) else _streamed(path, ledger):
        ledger.found("spans")
        empty = False
        span = span_of(declared, where)
        if span is None:
            ledger.left("spans", "span", where, "it has no traceId or spanId")
            continue
        yield span
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
            try:
                for span in declared_spans(row.data):
                    yield row.where, span
            except ValueError as error:
                raise UserError(Problem(str(error), row.where, "export them with OTLP 0.15 or newer")) from None
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

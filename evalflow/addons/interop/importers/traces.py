"""Import of traces in OTLP JSON: one case for each trace in which a user asks something.

A file is one document, a list of them, or JSON lines as exporters to files write them. The spans of a trace may be
anywhere in the file; they are grouped on disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from evalflow.addons.interop.importers.files import ImportedConfig, ImportedExperiment, ImportSource, dataset_option
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.recorded import RecordedCases
from evalflow.addons.interop.importers.sources import expect_text, readable
from evalflow.datasets.halves import Halves
from evalflow.datasets.json_files import BOM, open_jsonl, streamed_items
from evalflow.datasets.rows import ReadingNotes
from evalflow.datasets.sources import MAX_RECORD
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.traces.messages import SpanMessage, messages_of
from evalflow.traces.reading import TraceNote, TraceReading, read_question
from evalflow.traces.spans import Span, declared_spans, span_of, unread_attributes
from evalflow.traces.steps import seconds_of
from evalflow.traces.tree import MANY_SPANS, TraceTree

PARTS = ("requests", "spans", "traces", "messages", "documents", "tool calls")
_CAPTURE = "record the texts: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or as your library calls it"
_TOO_LARGE = f"the maximum of a trace is {MANY_SPANS:,} spans, and {MAX_RECORD // 2**20} MiB of kept data"
_SPANS = "resourceSpans.item.scopeSpans.item.spans.item"
_NO_REQUEST = "export them as OTLP JSON: docs/import.md#traces"
_UNREAD = "it does not contain questions or answers"
_SPAN = TypeAdapter(Span)
_GROUPS = ("gen_ai.conversation.id", "session.id")


class _TraceStore:
    """A temporary database of spans."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE span (trace TEXT, data TEXT)")

    def add(self, spans: Iterable[Span]) -> None:
        rows = ((span.trace, json.dumps(asdict(span))) for span in spans)
        self._database.executemany("INSERT INTO span VALUES (?, ?)", rows)
        self._database.execute("CREATE INDEX by_trace ON span (trace)")

    def traces(self) -> Iterator[tuple[int, str, list[Span] | None]]:
        """The number of each trace's spans, the place of the first, and the spans, or None if it is too large.

        The traces are in the order in which they begin in the file.
        """
        sizes = "SELECT trace, min(rowid), count(*), sum(length(data)) FROM span GROUP BY trace ORDER BY 2"
        for trace, first, count, size in self._database.execute(sizes):
            [head] = self._database.execute("SELECT data FROM span WHERE rowid = ?", (first,)).fetchone()
            where = _SPAN.validate_json(head).where
            if count > MANY_SPANS or size > MAX_RECORD:
                yield count, where, None
                continue
            rows = self._database.execute("SELECT data FROM span WHERE trace = ? ORDER BY rowid", (trace,))
            yield count, where, [_SPAN.validate_json(data) for (data,) in rows]


def read_traces(source: ImportSource) -> ImportedConfig:
    """Import a file of traces; UserError if it has no traces, is broken, or no trace has a user's message."""
    path = source.file(hint="name a file of OTLP JSON: traces.jsonl")
    imported = ImportedConfig(ledger=Ledger(PARTS))
    with source.database() as database:
        store = _TraceStore(database)
        store.add(_spans(path, imported.ledger))
        with source.rows(imported, source.name, "traces") as file:
            cases = RecordedCases(imported, file)
            for count, where, spans in store.traces():
                imported.ledger.found("traces")
                if case := _case_of(imported.ledger, count, where, spans):
                    cases.write(case, (), where)
            if not file.count:
                raise UserError(Problem("no trace has a user's message", shown(path), _CAPTURE))
    _declare(source, cases, shown(path))
    return imported


def _case_of(ledger: Ledger, count: int, where: str, spans: list[Span] | None) -> dict[str, object] | None:
    """The case of a trace; None if it is too large, or nobody asks in it, which is listed."""
    if spans is None:
        ledger.left("traces", "trace", where, "it is too large", _TOO_LARGE)
        ledger.left("spans", "span", where, "its trace is too large", count=count)
        return None
    distinct = {span.id: span for span in spans}
    if repeated := count - len(distinct):
        ledger.left("spans", "span", where, "it is in the file twice", count=repeated)
    tree = TraceTree([*distinct.values()])
    trace = read_question(tree)
    if trace is None or trace.asked is None:
        ledger.left("traces", "trace", where, "no span has a user's message", _CAPTURE)
        for span in tree.spans:
            ledger.left("spans", f"span ({tree.kind(span)})", span.where, "its trace has no user's message")
        return None
    case = _case(trace, trace.asked)
    for note in trace.notes:
        if note.reason:
            ledger.leave(note.part, note.what, note.where, note.reason)
        else:
            ledger.take(note.part)
    for span in tree.spans:
        kind = tree.kind(span)
        if span.id in trace.used:
            ledger.took("spans")
        elif kind in ("llm", "agent", "tool", "retriever", "reranker"):
            ledger.left("spans", f"span ({kind})", span.where, "it adds nothing to the imported spans")
        else:
            ledger.left("spans", f"span ({kind})", span.where, "it is not a call of a model, agent, tool or retriever")
    return case


def _case(trace: TraceReading, asked: Span) -> dict[str, object]:
    case: dict[str, object] = {"id": asked.trace, "messages": _messages(trace, asked)}
    answer = trace.answer()
    case |= {"answer": answer} if answer else {}
    if not answer and trace.failure is not None:
        case["failure"] = trace.failure
    case |= {"contexts": contexts} if (contexts := trace.contexts()) else {}
    steps = trace.steps() or []
    case |= {"actual": steps} if any("tool_calls" in step for step in steps) else {}
    spans = [asked, *trace.tree.spans]
    group = next((str(value) for key in _GROUPS for span in spans if (value := span.attributes.get(key))), None)
    case |= {"group": group} if group else {}
    seconds, cost = seconds_of(asked), trace.cost_usd()
    case |= {} if seconds is None else {"latency_s": seconds}
    case |= {} if cost is None else {"cost_usd": cost}
    return {**case, "metadata": {**trace.about, **trace.tokens()}}


def _messages(trace: TraceReading, asked: Span) -> list[dict[str, object]]:
    """The messages up to the user's last; those without text, tool calls or tool results are listed."""
    declared = messages_of(asked, "input")
    last = max(at for at, item in enumerate(declared) if item.role == "user" and item.text)
    taken: list[dict[str, object]] = []
    for number, message in enumerate(declared):
        trace.note_others(message)
        rows = list(_rows_of(message))
        role = message.role if message.role in ("system", "user", "assistant", "tool") else "other"
        if role == "other":
            reason = "it is not a message of system, user, assistant or tool"
        elif number > last:
            reason = "it comes after the user's last message"
        elif not rows:
            reason = "it has no text"
        else:
            taken += rows
            trace.notes.append(TraceNote("messages"))
            continue
        trace.notes.append(TraceNote("messages", f"message ({role})", asked.where, reason))
    return taken


def _rows_of(message: SpanMessage) -> Iterator[dict[str, object]]:
    """The message in the format of data/; a tool message gives a row for each result."""
    if message.role == "tool" and message.results:
        for call, text in message.results.items():
            yield {"role": "tool", "tool_call_id": call, "content": text}
    elif message.calls:
        yield {"role": message.role, "content": message.text, "tool_calls": list(message.calls)}
    elif message.text:
        yield {"role": message.role, "content": message.text}


def _declare(source: ImportSource, cases: RecordedCases, file: str) -> None:
    imported, name = cases.imported, source.name
    loose = {"allow_irregular": True} if cases.irregular else {}
    imported.datasets[name] = dataset_option(name, f"Traces of {file}.", **loose)
    metrics = ["relevance", *(["faithfulness"] if "contexts" in cases.fields else [])]
    imported.experiments[name] = ImportedExperiment(name, metrics, "answer" not in cases.fields)
    imported.notes.append("traces have no metrics: choose your own, here they are " + " and ".join(metrics))
    if "answer" not in cases.fields:
        imported.notes.append("no trace has an answer: the experiment asks a target")


def _spans(path: Path, ledger: Ledger) -> Iterator[Span]:
    """The spans of a file, one at a time; requests without spans, and spans without identifiers, are listed."""
    expect_text(path)
    empty = True
    for where, declared in _lines(path, ledger) if _is_lines(path) else _streamed(path, ledger):
        ledger.found("spans")
        for name in unread_attributes(declared):
            ledger.leave_column(name, shown(path), _UNREAD)
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
    with readable(path), path.open("rb") as file:
        while (line := file.readline(MAX_RECORD + 2)) and not line.removeprefix(BOM).strip():
            pass
    is_small = path.stat().st_size <= MAX_RECORD
    first = line.removeprefix(BOM).strip()
    is_whole = first.endswith(b"}") and len(line) <= MAX_RECORD
    return first.startswith(b"{") and (is_whole or (first == b"{" and is_small))


def _lines(path: Path, ledger: Ledger) -> Iterator[tuple[str, object]]:
    with readable(path):
        table = open_jsonl(path)
        for row in table.rows:
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
    ledger.leave_reading(ReadingNotes(halves=table.halves.count), shown(path))


def _streamed(path: Path, ledger: Ledger) -> Iterator[tuple[str, object]]:
    """The spans of a document of any size, or of a list of documents."""
    with path.open("rb") as file:
        is_list = file.read(4096).removeprefix(BOM).lstrip().startswith(b"[")
    prefix = f"item.{_SPANS}" if is_list else _SPANS
    ledger.take("requests")
    halves = Halves()
    for number, span in enumerate(streamed_items(path, prefix, halves)):
        yield f"{shown(path)}:spans[{number}]", span
    ledger.leave_reading(ReadingNotes(halves=halves.count), shown(path))

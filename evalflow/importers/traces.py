"""Import of traces: one case for each trace of OTLP JSON in which a user asks something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evalflow.datasets import irregular
from evalflow.datasets.sources import MAX_RECORD
from evalflow.errors import Problem, UserError
from evalflow.importers.files import ImportedConfig, ImportSource, dataset_option
from evalflow.importers.joined import StoredTrace, TraceStore
from evalflow.importers.ledger import Ledger
from evalflow.importers.otlp import read_spans
from evalflow.importers.secrets import hidden
from evalflow.paths import shown
from evalflow.records import Message
from evalflow.traces.messages import messages_of
from evalflow.traces.reading import TraceNote, TraceReading, read_question
from evalflow.traces.spans import Span
from evalflow.traces.steps import seconds_of
from evalflow.traces.tree import MANY_SPANS, TraceTree

PARTS = ("requests", "spans", "traces", "messages", "documents", "tool calls")
_CAPTURE = "record what is said: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or as your library calls it"
_TOO_LARGE = f"a trace has at most {MANY_SPANS:,} spans and {MAX_RECORD // 2**20} MiB of what is kept of them"
_GROUPS = ("gen_ai.conversation.id", "session.id")


@dataclass(slots=True)
class _Import:
    """What is known of all traces that were read."""

    imported: ImportedConfig
    fields: set[str] = field(default_factory=set[str])
    is_irregular: bool = False

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


def read_traces(source: ImportSource) -> ImportedConfig:
    """Import a file of traces; UserError if it is none, is broken, or no trace has a user's message."""
    path = source.path
    if not path.is_file():
        raise UserError(Problem("there is no such file", str(path), "name a file of OTLP JSON: traces.jsonl"))
    found = _Import(ImportedConfig(ledger=Ledger(PARTS)))
    with source.database() as database:
        store = TraceStore(database)
        store.add(read_spans(path, found.ledger))
        with source.rows(found.imported, source.name, "traces") as file:
            for stored in store.traces():
                found.ledger.found("traces")
                if case := _case_of(found, stored):
                    file.write(case)
            if not file.count:
                raise UserError(Problem("no trace has a user's message", shown(path), _CAPTURE))
    _declare(source, found, shown(path))
    return found.imported


def _case_of(found: _Import, stored: StoredTrace) -> dict[str, Any] | None:
    ledger = found.ledger
    if stored.spans is None:
        ledger.left("traces", "trace", stored.where, "it is too large", _TOO_LARGE)
        ledger.left("spans", "span", stored.where, "its trace is too large", count=stored.count)
        return None
    distinct = {span.id: span for span in stored.spans}
    repeated = stored.count - len(distinct)
    if repeated:
        ledger.left("spans", "span", stored.where, "it is in the file twice", count=repeated)
    tree = TraceTree([*distinct.values()])
    trace = read_question(tree)
    if trace is None or trace.asked is None:
        ledger.left("traces", "trace", stored.where, "no span has a user's message", _CAPTURE)
        for span in tree.spans:
            ledger.left("spans", f"span ({tree.kind(span)})", span.where, "its trace has no user's message")
        return None
    case = hidden(_case(trace, trace.asked), ledger, stored.where)
    for note in trace.notes:
        if note.reason:
            ledger.leave(note.part, note.what, note.where, note.reason)
        else:
            ledger.found(note.part)
            ledger.took(note.part)
    found.fields |= set(case)
    turns = [Message(one["role"], one["content"]) for one in case["messages"]]
    found.is_irregular = found.is_irregular or any(irregular(turns))
    for span in tree.spans:
        kind = tree.kind(span)
        if span.id in trace.used:
            ledger.took("spans")
        elif kind in ("llm", "agent", "tool", "retriever", "reranker"):
            ledger.left("spans", f"span ({kind})", span.where, "it adds nothing to the spans that were taken")
        else:
            ledger.left("spans", f"span ({kind})", span.where, "it is no call of a model, agent, tool or retriever")
    return case


def _case(trace: TraceReading, asked: Span) -> dict[str, Any]:
    found: dict[str, Any] = {"id": asked.trace, "messages": _messages(trace, asked)}
    answer = trace.answer()
    found |= {"answer": answer} if answer else {}
    if not answer and trace.failure is not None:
        found["failure"] = trace.failure
    found |= {"contexts": contexts} if (contexts := trace.contexts()) else {}
    steps = trace.steps() or []
    found |= {"actual": steps} if any("tool_calls" in step for step in steps) else {}
    spans = [asked, *trace.tree.spans]
    group = next((str(one) for key in _GROUPS for span in spans if (one := span.attributes.get(key))), None)
    found |= {"group": group} if group else {}
    seconds, cost = seconds_of(asked), trace.cost_usd()
    found |= {} if seconds is None else {"latency_s": seconds}
    found |= {} if cost is None else {"cost_usd": cost}
    return {**found, "metadata": {**trace.about, **trace.tokens()}}


def _messages(trace: TraceReading, asked: Span) -> list[dict[str, str]]:
    """The messages up to the user's last; those of tools, and those without text, are listed."""
    declared = messages_of(asked, "input")
    last = max(at for at, one in enumerate(declared) if one.role == "user" and one.text)
    taken: list[dict[str, str]] = []
    for number, message in enumerate(declared):
        trace.note_others(message)
        role = message.role if message.role in ("system", "user", "assistant", "tool") else "other"
        if role in ("tool", "other"):
            reason = "it is no message of system, user or assistant"
        elif not message.text:
            reason = "it has no text"
        elif number > last:
            reason = "it comes after the user's last message"
        else:
            taken.append({"role": role, "content": message.text})
            trace.notes.append(TraceNote("messages"))
            continue
        trace.notes.append(TraceNote("messages", f"message ({role})", asked.where, reason))
    return taken


def _declare(source: ImportSource, found: _Import, file: str) -> None:
    imported, name = found.imported, source.name
    loose = {"allow_irregular": True} if found.is_irregular else {}
    imported.datasets[name] = dataset_option(name, f"Traces of {file}.", **loose)
    metrics = ["relevance", *(["faithfulness"] if "contexts" in found.fields else [])]
    imported.experiments[name] = {
        "defaults": [{"override /dataset": name}, {"override /metric": metrics}],
        "generate": "answer" not in found.fields,
    }
    imported.notes.append("traces have no metrics: choose your own, here they are " + " and ".join(metrics))
    if "answer" not in found.fields:
        imported.notes.append("no trace has an answer: the experiment asks a target")

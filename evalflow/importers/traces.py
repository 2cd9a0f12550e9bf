"""Import of traces: one case for each trace of OTLP JSON in which a user asks something.

Question and answer are those of the outermost agent or chain that has a user's message; without one, of the outermost
call of a model. Of several at one depth it is the last that answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from evalflow.datasets import irregular
from evalflow.datasets.sources import MAX_RECORD, shown
from evalflow.errors import Problem, UserError
from evalflow.importers.files import ImportedConfig, ImportSource, dataset_option
from evalflow.importers.joined import MANY_SPANS, StoredTrace, TraceStore
from evalflow.importers.ledger import Ledger
from evalflow.importers.otlp import Span, read_spans
from evalflow.importers.secrets import hidden
from evalflow.importers.span_messages import SpanMessage, arguments_of, indexed, messages_of, parsed
from evalflow.importers.trace_tree import TraceTree
from evalflow.importers.values import as_list, as_map, as_number
from evalflow.records import Message

PARTS = ("requests", "spans", "traces", "messages", "documents", "tool calls")
_CAPTURE = "record what is said: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or as your library calls it"
_TOO_LARGE = f"a trace has at most {MANY_SPANS:,} spans and {MAX_RECORD // 2**20} MiB of what is kept of them"
_GROUPS = ("gen_ai.conversation.id", "session.id")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_COST = ("llm.cost.total", "gen_ai.usage.cost")


@dataclass(slots=True)
class _Import:
    """What is known of all traces that were read."""

    imported: ImportedConfig
    fields: set[str] = field(default_factory=set[str])
    is_irregular: bool = False

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


@dataclass(slots=True)
class _Trace:
    """One trace: the span whose question is taken, and which spans gave something."""

    tree: TraceTree
    asked: Span
    replied: Span | None
    where: str
    ledger: Ledger
    used: set[str]


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
    trace = _chosen(tree, stored.where, ledger)
    if trace is None:
        ledger.left("traces", "trace", stored.where, "no span has a user's message", _CAPTURE)
        for span in tree.spans:
            ledger.left("spans", f"span ({tree.kind(span)})", span.where, "its trace has no user's message")
        return None
    case = hidden(_case(trace), ledger, stored.where)
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


def _asks(span: Span) -> bool:
    return any(one.role == "user" and one.text for one in messages_of(span, "input"))


def _says(span: Span) -> bool:
    return any(one.text or one.calls for one in messages_of(span, "output"))


def _chosen(tree: TraceTree, where: str, ledger: Ledger) -> _Trace | None:
    """The spans of question and answer; None if nobody asks."""
    for kind in ("agent", "llm"):
        asking = tree.shallowest(kind, _asks)
        if not asking:
            continue
        asked = next((span for span in reversed(asking) if _says(span)), asking[-1])
        within = tree.below(asked) if kind == "agent" and len(asking) > 1 else tree
        saying = [asked] if _says(asked) else within.shallowest("llm", _says)
        replied = saying[-1] if saying else None
        return _Trace(within, asked, replied, where, ledger, {asked.id, *([replied.id] if replied else [])})
    return None


def _case(trace: _Trace) -> dict[str, Any]:
    asked = trace.asked
    found: dict[str, Any] = {"id": asked.trace, "messages": _messages(trace)}
    answer = _answer(trace)
    found |= {"answer": answer} if answer else {}
    if not answer and asked.failure is not None:
        found["failure"] = asked.failure or "the span failed without a message"
    found |= {"contexts": contexts} if (contexts := _contexts(trace)) else {}
    found |= {"actual": calls} if (calls := _calls(trace)) else {}
    spans = [asked, *trace.tree.spans]
    group = next((str(one) for key in _GROUPS for span in spans if (one := span.attributes.get(key))), None)
    found |= {"group": group} if group else {}
    if asked.begin is not None and asked.end is not None and asked.end >= asked.begin:
        found["latency_s"] = (asked.end - asked.begin) / 1e9
    cost = _total(trace, _COST)
    found |= {} if cost is None else {"cost_usd": cost}
    tokens = {"input_tokens": _total(trace, _INPUT_TOKENS), "output_tokens": _total(trace, _OUTPUT_TOKENS)}
    known: dict[str, Any] = {key: int(value) for key, value in tokens.items() if value is not None}
    replied = trace.replied or asked
    response = replied.attributes.get("gen_ai.response.id")
    known |= {"response_id": response} if isinstance(response, str) else {}
    found["metadata"] = {"trace_id": asked.trace, "span_id": replied.id, **known}
    return found


def _messages(trace: _Trace) -> list[dict[str, str]]:
    """The messages up to the user's last; those of tools, and those without text, are listed."""
    declared = messages_of(trace.asked, "input")
    last = max(at for at, one in enumerate(declared) if one.role == "user" and one.text)
    taken: list[dict[str, str]] = []
    for number, message in enumerate(declared):
        trace.ledger.found("messages")
        _list_others(trace, message)
        role = message.role if message.role in ("system", "user", "assistant", "tool") else "other"
        if role in ("tool", "other"):
            reason = "it is no message of system, user or assistant"
        elif not message.text:
            reason = "it has no text"
        elif number > last:
            reason = "it comes after the user's last message"
        else:
            taken.append({"role": role, "content": message.text})
            trace.ledger.took("messages")
            continue
        trace.ledger.left("messages", f"message ({role})", trace.asked.where, reason)
    return taken


def _list_others(trace: _Trace, message: SpanMessage) -> None:
    for kind in message.others:
        trace.ledger.found("parts of messages")
        what = (
            kind if kind in ("image", "image_url", "audio", "file", "blob", "uri", "reasoning", "thinking") else "other"
        )
        trace.ledger.left("parts of messages", f"part ({what})", trace.where, "only texts and tool calls are taken")


def _answer(trace: _Trace) -> str | None:
    """The first text of the reply; others are further choices."""
    answer = None
    for message in messages_of(trace.replied, "output") if trace.replied else []:
        trace.ledger.found("messages")
        _list_others(trace, message)
        if message.text and answer is None:
            answer = message.text
            trace.ledger.took("messages")
        else:
            reason = "another choice was taken as the answer" if message.text else "it has no text"
            trace.ledger.left("messages", "message (output)", trace.where, reason)
    return answer


def _contexts(trace: _Trace) -> list[dict[str, str]]:
    """The documents of rerankers, or else of retrievers; equal texts once."""
    sources = [
        (span, documents)
        for kind, keys in (("reranker", "reranker.output_documents."), ("retriever", "retrieval.documents."))
        for span in trace.tree.of(kind)
        if (documents := _documents(span, keys))
    ]
    kinds = {trace.tree.kind(span) for span, _ in sources}
    found: dict[str, dict[str, str]] = {}
    for span, documents in sources:
        for document in documents:
            trace.ledger.found("documents")
            text = document.get("content", document.get("text"))
            if "reranker" in kinds and trace.tree.kind(span) == "retriever":
                reason = "those that a reranker chose were taken"
            elif not isinstance(text, str) or not text:
                reason = "it has no text"
            elif text in found:
                reason = "an equal text was taken"
            else:
                known = document.get("id")
                found[text] = {"text": text, **({"path": str(known)} if isinstance(known, str | int) else {})}
                trace.ledger.took("documents")
                trace.used.add(span.id)
                continue
            trace.ledger.left("documents", "document", span.where, reason)
    return [*found.values()]


def _documents(span: Span, keys: str) -> Sequence[Mapping[str, Any]]:
    listed = as_list(parsed(span.attributes.get("gen_ai.retrieval.documents")))
    return [as_map(one) for one in listed] or [
        as_map(one.get("document")) for one in indexed(span.attributes, keys)
    ]  # fmt: skip


def _calls(trace: _Trace) -> list[dict[str, Any]]:
    """The calls of tool spans; without any, those that the models asked for."""
    found: list[dict[str, Any]] = []
    for span in trace.tree.outermost("tool"):
        known = span.attributes
        given = known.get("gen_ai.tool.call.arguments", known.get("input.value"))
        name = known.get("gen_ai.tool.name") or known.get("tool.name") or span.name
        trace.ledger.found("tool calls")
        if isinstance(name, str) and name.strip():
            found.append({"name": name, "arguments": arguments_of(given)})
            trace.ledger.took("tool calls")
            trace.used.add(span.id)
        else:
            trace.ledger.left("tool calls", "tool call", span.where, "it has no name")
    if found:
        return found
    for span in trace.tree.outermost("llm"):
        calls = [dict(call) for message in messages_of(span, "output") for call in message.calls]
        trace.ledger.found("tool calls", len(calls))
        trace.ledger.took("tool calls", len(calls))
        trace.used |= {span.id} if calls else set()
        found += calls
    return found


def _total(trace: _Trace, keys: Sequence[str]) -> float | None:
    """The sum over the calls of models, or without any, of the asked span; None unless each of them says it."""
    counted = trace.tree.outermost("llm") or [trace.asked]
    numbers = [
        next((number for key in keys if (number := as_number(span.attributes.get(key))) is not None), None)
        for span in counted
    ]
    known = [number for number in numbers if number is not None and isfinite(number) and number >= 0]
    if len(known) < len(counted):
        return None
    trace.used |= {span.id for span in counted}
    return sum(known)


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

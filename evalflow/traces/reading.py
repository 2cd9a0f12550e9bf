"""What a trace says about one answer: the text, contexts, steps, tokens and cost, and which spans say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalflow.traces.messages import SpanMessage, indexed, messages_of, parsed
from evalflow.traces.spans import Span
from evalflow.traces.steps import COST, INPUT_TOKENS, OUTPUT_TOKENS, model_of, name_of_tool, number_of, steps_of
from evalflow.traces.tree import TraceTree
from evalflow.values.jsonvalues import as_list, as_map

_OTHER_PARTS = ("image", "image_url", "audio", "file", "blob", "uri", "reasoning", "thinking")


@dataclass(frozen=True, slots=True)
class TraceNote:
    """Something in a trace that was taken, or left out for a reason; `part` is what it is counted as."""

    part: str
    what: str = ""
    where: str = ""
    reason: str = ""


@dataclass(slots=True)
class TraceReading:
    """Reads what a trace says about one answer.

    Attributes:
        asked: The span whose question was answered, if one has a question.
        replied: The span that has the answer, if one has.
        notes: What was read until now.
        used: The ids of the spans that gave something.
    """

    tree: TraceTree
    asked: Span | None
    replied: Span | None
    notes: list[TraceNote] = field(default_factory=list[TraceNote])
    used: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.used |= {span.id for span in (self.asked, self.replied) if span}

    @property
    def about(self) -> dict[str, str]:
        """The identity of the answer: trace_id, span_id, and the response_id and model if they are known."""
        span = self.replied or self.asked
        if span is None:
            return {"trace_id": self.tree.spans[0].trace} if self.tree.spans else {}
        ids = {"response_id": span.attributes.get("gen_ai.response.id"), "model": model_of(span)}
        texts = {key: value for key, value in ids.items() if isinstance(value, str)}
        return {"trace_id": span.trace, "span_id": span.id, **texts}

    @property
    def failure(self) -> str | None:
        """Why the span that was asked, or the first outermost one, failed; None if it did not."""
        outer = self.tree.outermost("agent") or self.tree.outermost("llm")
        span = self.asked or next(iter(outer), None)
        return None if span is None or span.failure is None else span.failure or "the span failed without a message"

    def answer(self) -> str | None:
        """The first text of the reply; others are further choices."""
        answer = None
        for message in messages_of(self.replied, "output") if self.replied else []:
            self.note_others(message)
            if message.text and answer is None:
                answer = message.text
                self.notes.append(TraceNote("messages"))
            else:
                reason = "another choice was taken as the answer" if message.text else "it has no text"
                self.notes.append(TraceNote("messages", "message (output)", self._where, reason))
        return answer

    def contexts(self) -> list[dict[str, str]] | None:
        """The documents of rerankers, or else of retrievers, equal texts once; None if it is not known which."""
        sources = [
            (span, _documents(span, keys))
            for kind, keys in (("reranker", "reranker.output_documents."), ("retriever", "retrieval.documents."))
            for span in self.tree.of(kind)
        ]
        kinds = {self.tree.kind(span) for span, documents in sources if documents}
        by_text: dict[str, dict[str, str]] = {}
        for span, documents in sources:
            for document in documents or []:
                text = document.get("content", document.get("text"))
                if "reranker" in kinds and self.tree.kind(span) == "retriever":
                    reason = "those that a reranker chose were taken"
                elif not isinstance(text, str) or not text:
                    reason = "it has no text"
                elif text in by_text:
                    reason = "an equal text was taken"
                else:
                    own_id = document.get("id")
                    by_text[text] = {"text": text, **({"path": str(own_id)} if isinstance(own_id, str | int) else {})}
                    self.notes.append(TraceNote("documents"))
                    self.used.add(span.id)
                    continue
                self.notes.append(TraceNote("documents", "document", span.where, reason))
        is_empty = bool(sources) and all(documents == [] for _, documents in sources)
        return [*by_text.values()] if by_text or is_empty else None

    def steps(self) -> list[dict[str, object]] | None:
        """The steps, as messages with calls of tools and their results; None if they are unknown."""
        steps = steps_of(self.tree)
        calls = [call for step in steps or [] for call in as_list(step.get("tool_calls"))]
        self.notes += [TraceNote("tool calls")] * len(calls)
        self.used |= {span.id for span in self.tree.outermost("llm") if calls}
        for span in self.tree.outermost("tool"):
            if name_of_tool(span):
                self.used.add(span.id)
            else:
                self.notes.append(TraceNote("tool calls", "tool call", span.where, "it has no name"))
        return steps

    def tokens(self) -> dict[str, int]:
        """input_tokens and output_tokens of all calls of models, each if all of them say it."""
        tokens = {"input_tokens": self._total(INPUT_TOKENS), "output_tokens": self._total(OUTPUT_TOKENS)}
        return {name: int(count) for name, count in tokens.items() if count is not None}

    def cost_usd(self) -> float | None:
        return self._total(COST)

    def note_others(self, message: SpanMessage) -> None:
        """Note the parts of a message that are not text."""
        for kind in message.others:
            what = kind if kind in _OTHER_PARTS else "other"
            reason = "only texts and tool calls are taken"
            self.notes.append(TraceNote("parts of messages", f"part ({what})", self._where, reason))

    @property
    def _where(self) -> str:
        return self.tree.spans[0].where

    def _total(self, keys: Sequence[str]) -> float | None:
        """The sum over the calls of models, or without any, of the agent; None unless each of them says it."""
        counted = self.tree.outermost("llm") or ([self.asked] if self.asked else self.tree.outermost("agent"))
        numbers = [number for span in counted if (number := number_of(span, keys)) is not None]
        if not counted or len(numbers) < len(counted):
            return None
        self.used |= {span.id for span in counted}
        return sum(numbers)


def read_question(tree: TraceTree) -> TraceReading | None:
    """Read the trace of a question and its answer; None if nobody asks.

    They are those of the outermost agent or chain that has a user's message; without one, of the outermost call of a
    model. Of several at one depth it is the last that answers, with what is inside of it.
    """
    for kind in ("agent", "llm"):
        asking = tree.shallowest(kind, _asks)
        if not asking:
            continue
        asked = next((span for span in reversed(asking) if _says(span)), asking[-1])
        within = tree.below(asked) if kind == "agent" and len(asking) > 1 else tree
        saying = [asked] if _says(asked) else within.shallowest("llm", _says)
        return TraceReading(within, asked, saying[-1] if saying else None)
    return None


def read_reply(tree: TraceTree) -> TraceReading:
    """Read a trace that came with a reply, all of which is about its answer; the question need not be recorded."""
    question = read_question(tree)
    if question is not None:
        return TraceReading(tree, question.asked, question.replied)
    saying = tree.shallowest("agent", _says) or tree.shallowest("llm", _says)
    return TraceReading(tree, None, saying[-1] if saying else None)


def _asks(span: Span) -> bool:
    return any(message.role == "user" and message.text for message in messages_of(span, "input"))


def _says(span: Span) -> bool:
    return any(message.text or message.calls for message in messages_of(span, "output"))


def _documents(span: Span, keys: str) -> Sequence[Mapping[str, object]] | None:
    declared = parsed(span.attributes.get("gen_ai.retrieval.documents"))
    if isinstance(declared, list):
        return [as_map(document) for document in as_list(declared)]
    return [as_map(document.get("document")) for document in indexed(span.attributes, keys)] or None

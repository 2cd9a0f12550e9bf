"""The spans of one trace as a tree, with what each of them is a call of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from evalflow.traces.spans import Span

_OPERATIONS: Mapping[str, str] = {
    "chat": "llm", "text_completion": "llm", "generate_content": "llm", "execute_tool": "tool",
    "invoke_agent": "agent", "invoke_workflow": "agent", "retrieval": "retriever",
    "embeddings": "embedding", "create_agent": "other",
}  # fmt: skip
_KINDS: Mapping[str, str] = {
    "LLM": "llm", "TOOL": "tool", "RETRIEVER": "retriever", "RERANKER": "reranker", "AGENT": "agent", "CHAIN": "agent",
    "EMBEDDING": "embedding", "GUARDRAIL": "guardrail", "EVALUATOR": "evaluator",
}  # fmt: skip
_OF_MODELS = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt", "gen_ai.completion",
              "llm.input_messages.", "llm.output_messages.")  # fmt: skip
_DEEPEST = 200  # spans above a span that are looked at
MANY_SPANS = 20_000
"""Maximum spans of one trace, which is held in memory as a whole."""
_ABOUT_ANSWERS = frozenset({"guardrail", "evaluator"})


class TraceTree:
    """The spans of a trace by kind: llm, agent (chains too), tool, retriever, reranker or others.

    What happens inside of guardrails and evaluators is about the answer, and is of the kind `other`.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = sorted(spans, key=lambda span: span.begin or 0)
        self._by_id = {span.id: span for span in self.spans}
        self._above = {span.id: list(self._ancestors(span)) for span in self.spans}
        kinds = {span.id: _kind(span) for span in self.spans}
        self._kinds = {
            span.id: "other" if any(kinds[one.id] in _ABOUT_ANSWERS for one in self._above[span.id]) else kinds[span.id]
            for span in self.spans
        }

    def kind(self, span: Span) -> str:
        return self._kinds[span.id]

    def of(self, kind: str) -> list[Span]:
        """The spans of a kind in the order of their beginning."""
        return [span for span in self.spans if self._kinds[span.id] == kind]

    def is_inside(self, span: Span, kind: str) -> bool:
        """Whether a span is inside of one of a kind."""
        return any(self._kinds[one.id] == kind for one in self._above[span.id])

    def outermost(self, kind: str) -> list[Span]:
        """Those of a kind that are not inside of another of that kind."""
        return [span for span in self.of(kind) if not self.is_inside(span, kind)]

    def shallowest(self, kind: str, fits: Callable[[Span], object]) -> list[Span]:
        """Those of a kind that fit, with the fewest spans above them."""
        found = [span for span in self.of(kind) if fits(span)]
        least = min((len(self._above[span.id]) for span in found), default=0)
        return [span for span in found if len(self._above[span.id]) == least]

    def below(self, top: Span) -> TraceTree:
        """The span with those inside of it."""
        return TraceTree([span for span in self.spans if any(one is top for one in (span, *self._above[span.id]))])

    def circle(self) -> Span | None:
        """A span that is above itself, or None."""
        last = ((self._above[span.id] or [span])[-1] for span in self.spans)
        return next((span for span, top in zip(self.spans, last, strict=True) if top.parent == span.id), None)

    def _ancestors(self, span: Span) -> Iterator[Span]:
        seen = {span.id}
        above = self._by_id.get(span.parent)
        while above and above.id not in seen and len(seen) <= _DEEPEST:
            seen.add(above.id)
            yield above
            above = self._by_id.get(above.parent)


def _kind(span: Span) -> str:
    operation = span.attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return _OPERATIONS[operation]
    declared = span.attributes.get("openinference.span.kind")
    if isinstance(declared, str) and declared.upper() in _KINDS:
        return _KINDS[declared.upper()]
    if any("evaluation" not in name for name, _ in span.events) or any(
        key.startswith(_OF_MODELS) and key != "gen_ai.prompt.name" for key in span.attributes
    ):
        return "llm"
    return "agent" if "input.value" in span.attributes else "other"

"""The spans of one trace as a tree, with what each of them is a call of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from evalflow.traces.spans import Span

_OPERATIONS: Mapping[str, str] = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "retrieval": "retriever",
    "embeddings": "embedding",
    "create_agent": "other",
}
_KINDS: Mapping[str, str] = {
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "AGENT": "agent",
    "CHAIN": "agent",
    "EMBEDDING": "embedding",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "evaluator",
}
_OF_MODELS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
    "llm.input_messages.",
    "llm.output_messages.",
)
MANY_SPANS = 20_000
"""Maximum spans of one trace, which is held in memory as a whole."""
_ABOUT_ANSWERS = frozenset({"guardrail", "evaluator"})


class TraceTree:
    """The spans of a trace by kind: llm, agent (chains too), tool, retriever, reranker or others.

    What happens inside of guardrails and evaluators is about the answer, and is of the kind `other`.

    Attributes:
        spans: All of them, in the order of their beginning.
        circle: A span that is inside of itself, which is read as if it had no parent; None without such a span.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = sorted(spans, key=lambda span: span.begin or 0)
        self.circle: Span | None = None
        self._children: defaultdict[str, list[Span]] = defaultdict(list)
        for span in self.spans:
            self._children[span.parent].append(span)
        self._by_id = {span.id: span for span in self.spans}
        self._kinds: dict[str, str] = {}
        self._depths: dict[str, int] = {}
        self._around: dict[str, frozenset[str]] = {}
        for span in self.spans:
            if span.parent not in self._by_id:
                self._place(span)
        for span in self.spans:
            if span.id not in self._kinds:
                self.circle = self._above_itself(span)
                self._place(self.circle)

    def kind(self, span: Span) -> str:
        return self._kinds[span.id]

    def of(self, kind: str) -> list[Span]:
        """The spans of a kind in the order of their beginning."""
        return [span for span in self.spans if self._kinds[span.id] == kind]

    def is_inside(self, span: Span, kind: str) -> bool:
        """Whether a span is inside of one of a kind."""
        return kind in self._around[span.id]

    def outermost(self, kind: str) -> list[Span]:
        """Those of a kind that are not inside of another of that kind."""
        return [span for span in self.of(kind) if not self.is_inside(span, kind)]

    def shallowest(self, kind: str, fits: Callable[[Span], object]) -> list[Span]:
        """Those of a kind that fit, with the fewest spans above them."""
        fitting = [span for span in self.of(kind) if fits(span)]
        least = min((self._depths[span.id] for span in fitting), default=0)
        return [span for span in fitting if self._depths[span.id] == least]

    def below(self, top: Span) -> TraceTree:
        """The span with those inside of it."""
        reached, left = {top.id}, [top.id]
        while left:
            inner = {span.id for span in self._children[left.pop()]} - reached
            reached |= inner
            left += inner
        return TraceTree([span for span in self.spans if span.id in reached])

    def _place(self, top: Span) -> None:
        """Set kind, depth and surroundings of a span and of those inside of it."""
        waiting: list[tuple[Span, int, frozenset[str]]] = [(top, 0, frozenset())]
        while waiting:
            span, depth, around = waiting.pop()
            if span.id in self._kinds:
                continue
            kind = "other" if _ABOUT_ANSWERS & around else _kind(span)
            self._kinds[span.id], self._depths[span.id], self._around[span.id] = kind, depth, around
            waiting += [(inner, depth + 1, around | {kind}) for inner in self._children[span.id]]

    def _above_itself(self, span: Span) -> Span:
        """The span of a circle that is above a span."""
        seen: set[str] = set()
        while span.id not in seen:
            seen.add(span.id)
            span = self._by_id[span.parent]
        return span


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

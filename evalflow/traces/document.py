"""The trace that comes with a reply: OTLP JSON as an object, a list of requests, or a text with either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from evalflow.traces.spans import Span, declared_spans, span_of
from evalflow.traces.tree import MANY_SPANS, TraceTree
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_object, kind, parsed

_SPANS = "resourceSpans"


def looks_like_trace(value: object) -> bool:
    """Whether a value is meant as a trace in OTLP JSON."""
    if isinstance(value, str):
        return f'"{_SPANS}"' in value
    return any(_SPANS in as_map(request) for request in (as_list(value)[:1] if is_list(value) else [value]))


def read_document(value: object, own: str | None = None) -> TraceTree | None:
    """Read a trace; None if it has no spans, ValueError if it is not a trace, or broken.

    Args:
        value: The document.
        own: The trace ID to take if there are spans of several traces.
    """
    traces: dict[str, dict[str, Span]] = {}
    for number, declared in enumerate(chain.from_iterable(map(declared_spans, _requests(value)))):
        if number == MANY_SPANS:
            raise ValueError(f"more than {MANY_SPANS:,} spans")
        span = span_of(declared, f"spans[{number}]")
        if span is None:
            raise ValueError(f"spans[{number}] has no traceId or spanId")
        traces.setdefault(span.trace, {})[span.id] = span
    if not traces:
        return None
    tree = TraceTree([*_chosen(traces, own).values()])
    if tree.circle is not None:
        raise ValueError(f"the span {tree.circle.id} is inside of itself")
    return tree


def _requests(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, str):
        try:
            value = parsed(value.encode())
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
    for request in value if is_list(value) else [value]:
        if not is_object(request) or _SPANS not in request:
            fields = f" with {', '.join(as_map(request))[:80]}" if as_map(request) else ""
            raise ValueError(f"expected OTLP JSON with {_SPANS}, got {kind(request)}{fields}")
        yield request


def _chosen(traces: Mapping[str, Mapping[str, Span]], own: str | None) -> Mapping[str, Span]:
    if len(traces) == 1:
        return next(iter(traces.values()))
    for name, spans in traces.items():
        if own is not None and name.lower() == own.lower():
            return spans
    named = "the reply names none of them" if own is None else f"the reply's own is {own}"
    raise ValueError(f"spans of {len(traces)} traces ({', '.join([*traces][:3])}); {named}: return its trace_id")

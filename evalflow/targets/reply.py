"""Parse a service's JSON reply into an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self

from evalflow.calls.faults import excerpt
from evalflow.config.schema import DatasetConfig, FieldSource
from evalflow.config.targets import ContextsExtract, Extract, ReplyConfig, value_name
from evalflow.errors import TargetError, quoted
from evalflow.limited import LimitExceeded
from evalflow.llm.finish_reasons import finish_reason
from evalflow.llm.thoughts import own_thoughts, refusal_in, split_parts
from evalflow.records import Context, Usage
from evalflow.values.contexts import contexts
from evalflow.values.jsonvalues import (
    Path,
    Unusable,
    WrittenFloat,
    as_list,
    as_map,
    as_number,
    as_written,
    is_list,
    is_object,
    json_path,
    kind,
    parsed,
)
from evalflow.values.leaves import leaves, utterances

if TYPE_CHECKING:
    from evalflow.traces.reading import TraceReading

Generated = Literal["answer", "actual"]
_FORMS = {"answer": ("answer",), "actual": ("actual",), "metadata": ("metadata",)}
_TOKENS = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
_MANY = 10**9  # no reply takes as many tokens
_PROPOSED = 3  # paths
_ERRORS = ("error", "errors", "detail")
"""Fields of a reply that says why it has no answer."""
_OF_AN_ERROR = re.compile(rf"\$\.({'|'.join(_ERRORS)})(?![\w-])")
_CHUNKS = "structured_contexts"  # another name for contexts that is recognised for every dataset


@dataclass(frozen=True, slots=True)
class Form:
    """The columns or JSONPaths that a dataset's rows, and so a reply in the same form, use for each case field."""

    generates: Generated = "answer"
    sources: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict[str, "str | Mapping[str, str]"])

    @classmethod
    def of(cls, config: DatasetConfig) -> Self:
        sources: dict[str, str | Mapping[str, str]] = {}
        for name, source in (config.fields or {}).items():
            if isinstance(source, dict):
                sources[name] = {part: _column_of(part, column) for part, column in source.items()}
            elif source is not None:
                sources[name] = _column_of(name, source)
        return cls(config.generates, sources)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a composed prediction; empty for a single value."""
        source = self.sources.get("actual")
        return () if source is None or isinstance(source, str) else tuple(source)

    def find(self, name: str, row: Mapping[str, object]) -> object:
        """The value of a case field in a reply that has the form of a dataset row; None if absent.

        A null part of a prediction is kept: the target predicted nothing there.
        """
        source = self.sources.get(name)
        if source is None or isinstance(source, str):
            return _column_at(source, row)
        values = {part: _column_at(column, row) for part, column in source.items() if _is_at(column, row)}
        return {part: value for part, value in values.items() if value is not None or name == "actual"} or None

    def has(self, name: str, row: Mapping[str, object]) -> bool:
        """Whether a reply has a place for a case field, if only for null."""
        source = self.sources.get(name)
        return name in row or (isinstance(source, str) and _is_at(source, row))

    def failure(self, row: Mapping[str, object]) -> str | None:
        """The error in a reply whose failure column has `status: error` or a message; else None."""
        value = self.find("failure", row)
        if not is_object(value):
            return value if isinstance(value, str) else None
        if value.get("status") != "error":
            return None
        return str(value.get("message", "it says no more than status: error"))

    def check(self, prediction: object) -> None:
        """Raise ValueError if a prediction has none of the parts that the dataset declares."""
        if not self.parts or prediction is None:
            return
        if not is_object(prediction):
            raise ValueError(f"actual: expected an object with {', '.join(self.parts)}, got {kind(prediction)}")
        if not prediction.keys() & set(self.parts):
            raise ValueError(f"actual: expected {', '.join(self.parts)}, got {', '.join(prediction) or 'no field'}")


def _column_of(name: str, source: str | FieldSource) -> str:
    return source if isinstance(source, str) else source.column or name


def _column_at(source: str | None, row: Mapping[str, object]) -> object:
    if source is None or not source.startswith("$"):
        return None if source is None else row.get(source)
    return json_path(source).value(row)


def _is_at(source: str, row: Mapping[str, object]) -> bool:
    return bool(json_path(source).matches(row)) if source.startswith("$") else source in row


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The fields of a reply; None if absent."""

    answer: str | None = None
    actual: object = None
    contexts: tuple[Context, ...] | None = None
    metadata: Mapping[str, object] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    thoughts: str | None = None
    finish_reason: str | None = None


class ReplyReader:
    """Reads replies as configured by a target.

    A reply that is not an object is the value of the field that the dataset generates. In an object, a mapped field is
    read from its path, which must have a match. Any other field is read from the key of the same name, or else from
    its place in the dataset's own form. A field that is missing everywhere is taken from the reply's trace, if any.

    Attributes:
        quick: Whether reading is fast for any small reply, and may run in the event loop.
    """

    def __init__(self, config: ReplyConfig) -> None:
        self._config = config
        extracts = {name: getattr(config, name) for name in (*_FORMS, "contexts")}
        self._paths = {name: json_path(extract.path) for name, extract in extracts.items() if extract}
        own = {"trace": config.trace, "finish_reason": config.finish_reason}
        self._paths |= {name: json_path(path) for name, path in own.items() if path is not None}
        chunks = (config.contexts and config.contexts.fields) or {}
        inner = [json_path(source) for source in chunks.values() if source.startswith("$")]
        self.quick = all(path.plain for path in (*self._paths.values(), *inner))

    def read(self, body: bytes, form: Form) -> ParsedReply:
        """Parse a reply, which must have the field that the form generates; TargetError if it cannot be used."""
        reply = _parsed(body)
        fields = as_map(reply)
        try:
            failure = form.failure(fields)
            if failure is not None:
                raise TargetError("reported", f"the target reports an error: {failure}", excerpt(body))
            values = {name: self._value(name, reply, form) for name in _FORMS}
            usage, cost_usd = _taken(fields, values["actual"])
            if isinstance(values["answer"], float):
                values["answer"] = self._value("answer", as_written(body), form)
            thoughts, answer = _thoughts(values["answer"], fields)
            read = ParsedReply(
                _text(answer, reply),
                values["actual"],
                self._contexts(reply, form),
                _object(values["metadata"]),
                usage,
                cost_usd,
                thoughts,
                self._finish_reason(reply, fields),
            )
            form.check(read.actual)
            trace = self._trace(reply, fields, read)
            read = read if trace is None else _completed(read, trace, form)
            if getattr(read, form.generates) is None and not self._predicts_null(fields, form):
                if trace is not None and trace.failure is not None:
                    raise TargetError("reported", f"the target reports an error: {trace.failure}", excerpt(body))
                raise ValueError(_nothing(reply, form.generates, self._paths.get(form.generates)))
            return read
        except LimitExceeded as error:
            limit = "timeout" if error.limit == "time" else "malformed"
            raise TargetError(limit, f"reading the reply: {error}", excerpt(body)) from None
        except ValueError as error:
            failed = TargetError("malformed", f"{error}: {excerpt(body)}", excerpt(body))
            failed.finish_reason = self._finish_reason(reply, fields)
            raise failed from None

    def _value(self, name: str, reply: object, form: Form) -> object:
        extract: Extract | None = getattr(self._config, name)
        if extract is None:
            if not is_object(reply):
                return reply if name == form.generates else None
            return _own(name, reply, form)
        value = _at(self._paths[name], reply, name)
        return value if extract.values is None else _meaning(extract.values, value, name)

    def _predicts_null(self, fields: Mapping[str, object], form: Form) -> bool:
        """Return whether null is the prediction of a reply without another one."""
        return form.generates == "actual" and ("actual" in self._paths or form.has("actual", fields))

    def _contexts(self, reply: object, form: Form) -> tuple[Context, ...] | None:
        extract = self._config.contexts
        if extract is None:
            fields = as_map(reply)
            chunks = _own("contexts", fields, form)
            value = fields.get(_CHUNKS) if chunks is None else chunks
        else:
            value = _at(self._paths["contexts"], reply, "contexts")
        if value is None:
            return None
        return _contexts(value, extract)

    def _finish_reason(self, reply: object, fields: Mapping[str, object]) -> str | None:
        path = self._paths.get("finish_reason")
        if path is None:
            return finish_reason(fields.get("finish_reason"))
        return finish_reason(next(iter(path.matches(reply)), None))

    def _trace(self, reply: object, fields: Mapping[str, object], read: ParsedReply) -> TraceReading | None:
        path = self._paths.get("trace")
        value = fields.get("trace") if path is None else _at(path, reply, "trace")
        if value is None:
            return None
        from evalflow.traces.document import looks_like_trace, read_document
        from evalflow.traces.reading import read_reply

        if path is None and not looks_like_trace(value):
            return None
        try:
            tree = read_document(value, _trace_id(fields, read.metadata))
        except ValueError as error:
            raise ValueError(f"trace: {error}") from None
        return None if tree is None else read_reply(tree)


def _completed(read: ParsedReply, trace: TraceReading, form: Form) -> ParsedReply:
    """Complete a reply from its trace, except for a prediction that the dataset asks for."""
    actual = read.actual
    if actual is None and form.generates == "answer" and not form.parts:
        actual = trace.steps()
    documents = trace.contexts() if read.contexts is None else None
    return replace(
        read,
        answer=trace.answer() if read.answer is None else read.answer,
        actual=actual,
        contexts=read.contexts if documents is None else contexts(documents),
        metadata={**trace.about, **(read.metadata or {})},
        usage=_usage(trace.tokens()) if read.usage is None else read.usage,
        cost_usd=trace.cost_usd() if read.cost_usd is None else read.cost_usd,
    )


def _thoughts(answer: object, fields: Mapping[str, object]) -> tuple[str | None, object]:
    """Return the thoughts that a reply has separately from its answer, which may be a list of parts; and the answer."""
    own = own_thoughts(fields)
    parts = as_list(answer)
    if not parts or not all("type" in as_map(part) for part in parts):
        return own, answer
    inner, text = split_parts(parts)
    return own or inner, text or refusal_in(parts)


def _trace_id(reply: Mapping[str, object], metadata: Mapping[str, object] | None) -> str | None:
    """The trace ID that a reply names, in its metadata, or as `trace_id` or W3C `traceparent`."""
    for value in ((metadata or {}).get("trace_id"), reply.get("trace_id")):
        if isinstance(value, str):
            return value
    parent = reply.get("traceparent")
    parts = parent.split("-") if isinstance(parent, str) else []
    return parts[1] if len(parts) > 1 else None


def _taken(reply: Mapping[str, object], actual: object) -> tuple[Usage | None, float | None]:
    """Return the tokens and dollars that a reply reports, else the sums over its steps; None if some are unknown."""
    steps = [step for step in map(as_map, as_list(actual)) if step.get("role") == "assistant"]
    usages = [_usage(reply["usage"])] if "usage" in reply else [_usage(step.get("usage")) for step in steps]
    costs = [_cost(reply["cost_usd"])] if "cost_usd" in reply else [_cost(step.get("cost_usd")) for step in steps]
    tokens, paid = [usage for usage in usages if usage is not None], [cost for cost in costs if cost is not None]
    return (
        sum(tokens, Usage()) if tokens and len(tokens) == len(usages) else None,
        sum(paid) if paid and len(paid) == len(costs) else None,
    )


def _usage(value: object) -> Usage | None:
    """Return the tokens, named input_tokens and output_tokens or as by chat endpoints."""
    tokens = as_map(value)
    counts = [tokens.get(name, tokens.get(other)) for name, other in _TOKENS]
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MANY]
    return Usage(*whole) if len(whole) == len(counts) else None


def _cost(value: object) -> float | None:
    cost = as_number(value)
    return cost if cost is not None and cost >= 0 else None


def _parsed(body: bytes) -> object:
    try:
        return parsed(body)
    except Unusable as error:
        raise TargetError("malformed", f"the reply cannot be used: {error}", excerpt(body)) from None
    except ValueError as error:
        text = excerpt(body)
        page = " (a web page?)" if text[:1] == "<" else ""
        if text.startswith(("data:", "event:")):
            page = " (server-sent events? see target.stream)"
        what = f"the reply is not JSON{page}: {text}" if text else "the reply is empty"
        raise TargetError("malformed", what, text or None) from error


def _own(name: str, reply: Mapping[str, object], form: Form) -> object:
    value = reply.get(name)
    return form.find(name, reply) if value is None else value


def _at(path: Path, reply: object, name: str) -> object:
    matches = path.matches(reply)
    if not path.single:
        return matches
    if not matches:
        raise ValueError(f"{name}: nothing is at {path.text} in the reply{_places(name, reply)}")
    return matches[0]


def _meaning(values: Mapping[str, object], value: object, name: str) -> object:
    is_plain = not (is_list(value) or is_object(value))
    key = value_name(value) if is_plain else ""
    if not is_plain or key not in values:
        shown = repr(key) if is_plain else kind(value)
        raise ValueError(f"{name}: got {shown}, and target.{name}.values knows {', '.join(values)} only")
    return values[key]


def _text(value: object, reply: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return value.text if isinstance(value, WrittenFloat) else json.dumps(value)
    raise ValueError(f"answer: expected text, got {kind(value)}{_places('answer', reply)}")


def _object(value: object) -> Mapping[str, object] | None:
    if value is None or is_object(value):
        return value
    raise ValueError(f"metadata: expected an object, got {kind(value)}")


def _contexts(value: object, extract: ContextsExtract | None) -> tuple[Context, ...]:
    try:
        if extract is None or extract.fields is None:
            return contexts(value)
        if not is_list(value):
            raise ValueError(f"expected a list of contexts, got {kind(value)}")
        items = [_mapped(item, extract.fields, i) for i, item in enumerate(value)]
        return contexts(items)
    except ValueError as error:
        raise ValueError(f"contexts: {error}") from None


def _mapped(item: object, fields: Mapping[str, str], index: int) -> dict[str, object]:
    if not is_object(item):
        raise ValueError(f"item {index}: expected an object, got {kind(item)}")
    parts = {name: _part(item, source) for name, source in fields.items()}
    if parts["text"] is None:
        raise ValueError(f"item {index}: nothing is at {fields['text']}")
    return parts


def _part(chunk: Mapping[str, object], source: str) -> object:
    if not source.startswith("$"):
        return chunk.get(source)
    return next(iter(json_path(source).matches(chunk)), None)


def _nothing(reply: object, generates: Generated, path: Path | None) -> str:
    if path is not None:
        return f"{generates}: null is at {path.text} in the reply{_places(generates, reply)}"
    if not is_object(reply):
        return f"the reply is {kind(reply)}, and has no {generates}"
    places = _places(generates, reply)
    if generates in reply:
        return f"the field {generates} of the reply is null{places}"
    if not places and any(reply.get(name) for name in _ERRORS):
        return "the reply is an error in place of an answer"
    keys = ", ".join(reply) or "no field at all"
    return f"the reply has no {generates}; it has {keys}{places or f'; set its path: target.{generates}=$.PATH'}"


def _places(name: str, reply: object) -> str:
    """Where else the value of a field may be: texts of the reply, wrapped and long ones first, or its longest lists."""
    candidates = [leaf for leaf in leaves(reply) if not _OF_AN_ERROR.match(leaf.path)]
    if name == "answer":
        likely = sorted(utterances(candidates), key=lambda leaf: (not leaf.is_wrapped, -len(str(leaf.value))))
    else:
        lists = [leaf for leaf in candidates if name == "contexts" and as_list(leaf.value)]
        likely = sorted(lists, key=lambda leaf: -len(as_list(leaf.value)))
    if not likely:
        return ""
    best, *others = [leaf.path for leaf in likely[:_PROPOSED]]
    more = f" (or {', '.join(others)})" if others else ""
    return f"; set where it is: {quoted(f'target.{name}={best}')}{more}"

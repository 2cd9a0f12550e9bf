"""The steps of an agent, from its trace: the messages of models with the calls of tools, and the results of tools."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from math import isfinite

from evalflow.traces.messages import TracedCall, messages_of, tool_call
from evalflow.traces.spans import Span
from evalflow.traces.tree import TraceTree
from evalflow.values.jsonvalues import as_number, present, written

INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
COST = ("llm.cost.total", "gen_ai.usage.cost")
_MODEL = ("gen_ai.response.model", "llm.model_name", "gen_ai.request.model")
_CALL_ID = ("gen_ai.tool.call.id", "tool.id", "tool_call.id")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value")
_RESULT = ("gen_ai.tool.call.result", "output.value")
_UNNAMED = "execute_tool "  # how spans of tools are called, before the tool's name


@dataclass(slots=True)
class _Step:
    """A call of a model with its output, and the spans of the tools that belong to it; results by the call's id."""

    model: Span | None
    text: str | None = None
    calls: list[TracedCall] = field(default_factory=list[TracedCall])
    tools: list[Span] = field(default_factory=list[Span])
    results: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])

    def join_tools(self) -> None:
        """Take what the tools returned, of one that ran again for the same call the last.

        If the model did not ask for one of the tools, the tools are the calls.
        """
        pairs = self._paired()
        if pairs is None:
            pairs = [(span, _call_of(span)) for span in self.tools]
            self.calls = [call for _, call in pairs]
        for span, call in pairs:
            result = _result(span)
            if result is not None:
                self.results[call.setdefault("id", span.id)] = result

    def _paired(self) -> list[tuple[Span, TracedCall]] | None:
        """Each tool with the call that the model asked for, by id, else by name; None if one has no such call."""
        by_id = {own: call for call in self.calls if (own := call.get("id")) is not None}
        called = {span.id: by_id.get(_call_id(span) or "") for span in self.tools}
        taken = {id(call) for call in called.values()}
        by_name: defaultdict[str | None, deque[TracedCall]] = defaultdict(deque)
        for call in self.calls:
            if id(call) not in taken:
                by_name[call["name"]].append(call)
        pairs: list[tuple[Span, TracedCall]] = []
        for span in self.tools:
            namesakes = by_name[name_of_tool(span)]
            call = called[span.id] or (namesakes.popleft() if namesakes else None)
            if call is None:
                return None
            pairs.append((span, call))
        return pairs


def steps_of(tree: TraceTree) -> list[dict[str, object]] | None:
    """The steps as messages, each with its model, tokens, cost and time; None if calls are unknown.

    They are unknown without a span of a tool if a model's output was not recorded. What happens inside of a tool
    is not a step.
    """
    tools = [span for span in tree.outermost("tool") if name_of_tool(span)]
    models = [span for span in tree.outermost("llm") if not tree.is_inside(span, "tool")]
    steps = _steps(tree, models, tools)
    if not tools and not (models and all(step.text or step.calls for step in steps)):
        return None
    for step in steps:
        step.join_tools()
    _join_reported(steps, models)
    messages: list[dict[str, object]] = []
    for step in steps:
        messages.append(_message(step))
        results = {own: step.results[own] for call in step.calls if (own := call.get("id")) in step.results}
        messages += [{"role": "tool", "tool_call_id": name, **result} for name, result in results.items()]
    return messages


def name_of_tool(span: Span) -> str | None:
    """The tool that a span calls; None without a name."""
    attributes = span.attributes
    name = attributes.get("gen_ai.tool.name") or attributes.get("tool.name") or span.name.removeprefix(_UNNAMED)
    return name if isinstance(name, str) and name.strip() else None


def model_of(span: Span) -> str | None:
    """The model that replied, else the one that was asked."""
    model = _first(span, _MODEL)
    return model if isinstance(model, str) and model else None


def seconds_of(span: Span) -> float | None:
    """How long it took; None if its times are not known or contradict each other."""
    if span.begin is None or span.end is None or span.end < span.begin:
        return None
    return (span.end - span.begin) / 1e9


def number_of(span: Span, keys: Sequence[str]) -> float | None:
    """The first of the attributes that is a number, if that is finite and not negative."""
    number = next((number for key in keys if (number := as_number(span.attributes.get(key))) is not None), None)
    return number if number is not None and isfinite(number) and number >= 0 else None


def _steps(tree: TraceTree, models: Sequence[Span], tools: Sequence[Span]) -> list[_Step]:
    """The steps in the order of their beginning. A tool belongs to the model that asked for it, by the call's id."""
    asked: dict[str, _Step] = {}
    steps: list[_Step] = []
    of_models, of_tools = {span.id for span in models}, {span.id for span in tools}
    for span in tree.spans:
        if span.id in of_models:
            output = messages_of(span, "output")
            text = next((message.text for message in output if message.text), None)
            steps.append(_Step(span, text, [copy(call) for message in output for call in message.calls]))
            asked |= {own: steps[-1] for call in steps[-1].calls if (own := call.get("id")) is not None}
        elif span.id in of_tools:
            if not steps:
                steps.append(_Step(None))
            asked.get(_call_id(span) or "", steps[-1]).tools.append(span)
    return steps


def _call_of(span: Span) -> TracedCall:
    return tool_call(name_of_tool(span) or "", _first(span, _ARGUMENTS), _call_id(span))


def _result(span: Span) -> dict[str, object] | None:
    """The result of a tool, or why it failed; None if that was not recorded."""
    result = _first(span, _RESULT)
    if result is None and span.failure is not None:
        result = f"error: {span.failure or 'the span failed without a message'}"
    return None if result is None else {"content": written(result), **present(latency_s=seconds_of(span))}


def _join_reported(steps: Sequence[_Step], models: Sequence[Span]) -> None:
    """Take results that no span has from the input of later models; an id of several calls is ambiguous."""
    ids = Counter(own for step in steps for call in step.calls if (own := call.get("id")) is not None)
    lacking = {
        name: step for step in steps for call in step.calls if (name := call.get("id")) and name not in step.results
    }
    left = {name for name in lacking if ids[name] == 1}
    for span in reversed(models):
        if not left:
            return
        for message in messages_of(span, "input"):
            for name in left & set(message.results):
                lacking[name].results[name] = {"content": message.results[name]}
                left.remove(name)


def _message(step: _Step) -> dict[str, object]:
    message = {"role": "assistant", **present(content=step.text, tool_calls=step.calls or None)}
    if step.model is None:
        return message
    sent, received = number_of(step.model, INPUT_TOKENS), number_of(step.model, OUTPUT_TOKENS)
    usage = None
    if sent is not None and received is not None:
        usage = {"input_tokens": int(sent), "output_tokens": int(received)}
    cost_usd, model = number_of(step.model, COST), model_of(step.model)
    return {**message, **present(model=model, latency_s=seconds_of(step.model), usage=usage, cost_usd=cost_usd)}


def _call_id(span: Span) -> str | None:
    call_id = _first(span, _CALL_ID)
    return call_id if isinstance(call_id, str) and call_id else None


def _first(span: Span, keys: Sequence[str]) -> object:
    return next((value for key in keys if (value := span.attributes.get(key)) is not None), None)

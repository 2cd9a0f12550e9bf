"""What an agent did: calls that models asked for and tools that ran, joined without counting one twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.traces.spans import span_of
from evalflow.traces.steps import steps_of
from evalflow.traces.tree import TraceTree
from evalflow.values.trajectories import trajectory, trajectory_text
from tests.traces.otlp import chat, span, told

TOOL = {"gen_ai.operation.name": "execute_tool"}


def steps(*spans: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    return steps_of(TraceTree([one for declared in spans if (one := span_of(declared, "here"))]))


def asks(*calls: tuple[str, Any] | tuple[str, Any, str], **more: Any) -> dict[str, Any]:
    """A call of a model that asks for tools."""
    parts = [
        {"type": "tool_call", "name": name, "arguments": arguments, **({"id": own[0]} if own else {})}
        for name, arguments, *own in calls
    ]
    return chat("Q", "") | {"gen_ai.output.messages": [{"role": "assistant", "parts": parts}]} | more


def ran(name: str, **known: Any) -> dict[str, Any]:
    return TOOL | {"gen_ai.tool.name": name} | {f"gen_ai.tool.call.{key}": value for key, value in known.items()}


def calls(messages: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, Any]]:
    assert messages is not None
    found = trajectory([*messages])
    assert [*found.flaws()] == []
    return [(call.name, call.arguments) for call in found.calls]


def results(messages: Sequence[Mapping[str, Any]] | None) -> list[str]:
    return [message["content"] for message in messages or [] if message["role"] == "tool"]


def test_each_step_has_what_is_known_of_its_model_tokens_cost_and_time() -> None:
    took = {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4, "gen_ai.response.model": "m-1"}
    found = steps(
        span("agent", says={"gen_ai.operation.name": "invoke_agent"}),
        span("a", "agent", 1, says=asks(("look", {"q": 1}, "c1"), **took)),
        span("t", "agent", 2, says=ran("look", id="c1", arguments='{"q": 1}', result='{"found": 2}')),
        span("b", "agent", 3, says=chat("Q", "Two.", **{"llm.cost.total": 0.5})),
    )
    assert found == [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "look", "arguments": {"q": 1}}],
            "model": "m-1",
            "latency_s": 0.5,
            "usage": {"input_tokens": 9, "output_tokens": 4},
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"found": 2}', "latency_s": 0.5},
        {"role": "assistant", "content": "Two.", "latency_s": 0.5, "cost_usd": 0.5},
    ]
    assert trajectory_text(found).splitlines() == [
        'step 1, assistant: call 1: look({"q": 1})',
        'step 2, result of call 1: {"found": 2}',
        "step 3, assistant: Two.",
    ]


def test_without_ids_a_tool_is_the_call_of_its_name_and_a_call_that_did_not_run_stays() -> None:
    found = steps(
        span("a", at=1, says=asks(("f", {"x": 1}), ("f", {"x": 2}), ("refused", {}))),
        span("t1", at=2, says=ran("f", result="one")),
        span("t2", at=3, says=ran("f", result="two")),
    )
    assert calls(found) == [("f", {"x": 1}), ("f", {"x": 2}), ("refused", {})]
    assert results(found) == ["one", "two"]


def test_a_tool_that_the_model_knows_by_another_name_is_not_counted_twice() -> None:
    found = steps(
        span("a", at=1, says=asks(("search_the_web", {"q": 1}))),
        span("t", at=2, says=ran("Search the web", arguments={"q": 1})),
        span("b", at=3, says=asks(("write", {}))),
    )
    assert calls(found) == [("Search the web", {"q": 1}), ("write", {})]


def test_a_tool_belongs_to_the_model_that_asked_for_it_also_where_others_began_between() -> None:
    found = steps(
        span("a", at=1, says=asks(("f", {}, "c1"))),
        span("b", at=2, says=asks(("g", {}, "c2"))),
        span("t2", at=3, says=ran("g", id="c2", result="of g")),
        span("t1", at=4, says=ran("f", id="c1", result="of f")),
    )
    assert calls(found) == [("f", {}), ("g", {})]
    assert results(found) == ["of f", "of g"]


def test_ids_that_begin_anew_in_each_step_keep_their_own_results() -> None:
    found = steps(
        span("a", at=1, says=asks(("f", {}, "call_0"))),
        span("t1", at=2, says=ran("f", id="call_0", result="one")),
        span("b", at=3, says=asks(("f", {}, "call_0"))),
        span("t2", at=4, says=ran("f", id="call_0", result="two")),
    )
    assert results(found) == ["one", "two"]


def test_a_tool_that_ran_again_for_the_same_call_is_one_call() -> None:
    tries = [span(f"t{at}", at=at, says=ran("f", id="c1", result=f"try {at}")) for at in (2, 3)]
    found = steps(span("a", at=1, says=asks(("f", {}, "c1"))), *tries)
    assert (calls(found), results(found)) == ([("f", {})], ["try 3"])


def test_results_are_read_from_what_later_models_were_told() -> None:
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"found": 2}}]}
    later = chat("Q", "Two.") | {"gen_ai.input.messages": [told("user", "Q"), reply]}
    assert results(steps(span("a", at=1, says=asks(("f", {}, "c1"))), span("b", at=2, says=later))) == ['{"found": 2}']
    flat = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "tool",
        "llm.input_messages.0.message.tool_call_id": "c1",
        "llm.input_messages.0.message.content": "two",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Two.",
    }
    assert results(steps(span("a", at=1, says=asks(("f", {}, "c1"))), span("b", at=2, says=flat))) == ["two"]
    twice = [span(name, at=at, says=asks(("f", {}, "c1"))) for at, name in enumerate("ab")]
    found = steps(*twice, span("c", at=3, says=later))
    assert found
    assert results(found) == []  # which of the two calls it answers is not known


def test_what_happens_inside_of_a_tool_or_a_model_is_no_step() -> None:
    found = steps(
        span("a", at=1, says=asks(("helper", {}))),
        span("inner", "a", 2, says=asks(("helper", {}))),
        span("t", at=3, says=ran("helper")),
        span("sub", "t", 4, says=asks(("deep", {}))),
        span("d", "t", 5, says=ran("deep")),
    )
    assert calls(found) == [("helper", {})]


def test_calls_are_unknown_where_neither_tools_nor_outputs_were_recorded() -> None:
    mute = span("a", says={"gen_ai.operation.name": "chat"})
    assert steps(mute) is None
    assert steps(mute, span("b", at=1, says=chat("Q", "A"))) is None
    assert steps(span("r", says={"openinference.span.kind": "RETRIEVER"}), span("c", says={"input.value": "Q"})) is None


def test_a_tool_without_content_is_a_call_of_which_no_more_is_known() -> None:
    found = steps(span("m", says={"gen_ai.operation.name": "chat"}), span("execute_tool look", at=1, says=TOOL))
    assert found == [{"role": "assistant", "tool_calls": [{"name": "look"}], "latency_s": 0.5}]


def test_a_tool_that_failed_says_so() -> None:
    failed = span("t", at=1, says=ran("f"), status={"code": "STATUS_CODE_ERROR", "message": "no such file"})
    assert results(steps(failed)) == ["error: no such file"]


def test_an_agent_that_calls_nothing_is_known_to_call_nothing() -> None:
    assert steps(span("a", says=chat("Q", "A"))) == [{"role": "assistant", "content": "A", "latency_s": 0.5}]

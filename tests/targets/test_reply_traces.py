"""Replies that carry a trace: what it gives, what the reply says itself, and broken traces."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest

from evalflow.config.targets import ReplyConfig
from evalflow.errors import TargetError
from evalflow.records import Context, Usage
from evalflow.targets.reply import Form, ParsedReply, ReplyReader
from evalflow.values.jsonvalues import as_list
from tests.traces.otlp import chat, request, span

TOKENS = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2}
FOUND = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "d1", "content": "Opens at 9."}]'}
RAN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "hours", "gen_ai.tool.call.result": "9"}
MODEL = {"gen_ai.response.model": "m-1", "gen_ai.response.id": "r-1", "llm.cost.total": 0.25} | TOKENS
AGENT = request(
    span("agent", "above", says=chat("When?", "At 9.") | {"gen_ai.operation.name": "invoke_agent"}),
    span("search", "agent", 1, says=FOUND),
    span("tool", "agent", 2, says=RAN),
    span("first", "agent", 3, says=chat("When?", "Let me see.", **MODEL)),
    span("last", "agent", 4, says=chat("When?", "At 9.", **MODEL)),
)


def read(reply: Any, form: Form | None = None, **mapping: Any) -> ParsedReply:
    reader = ReplyReader(ReplyConfig.model_validate({"kind": "x", **mapping}))
    return reader.read(json.dumps(reply).encode(), form or Form())


def test_what_a_reply_lacks_is_read_from_its_trace() -> None:
    took = {"model": "m-1", "latency_s": 0.5, "usage": {"input_tokens": 7, "output_tokens": 2}, "cost_usd": 0.25}
    assert read({"telemetry": AGENT}, trace="$.telemetry") == ParsedReply(
        answer="At 9.",
        actual=[
            {"role": "assistant", "tool_calls": [{"id": "tool", "name": "hours"}]},
            {"role": "tool", "tool_call_id": "tool", "content": "9", "latency_s": 0.5},
            {"role": "assistant", "content": "Let me see.", **took},
            {"role": "assistant", "content": "At 9.", **took},
        ],
        contexts=(Context("Opens at 9.", path="d1"),),
        metadata={"trace_id": "t", "span_id": "agent"},
        usage=Usage(14, 4),
        cost_usd=0.5,
    )


def test_what_a_reply_says_itself_wins() -> None:
    own = {
        "answer": "Nine.",
        "actual": ["look"],
        "contexts": ["own"],
        "metadata": {"trace_id": "mine", "m": 1},
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "cost_usd": 0.0,
    }
    said = read({**own, "trace": AGENT})
    assert said == ParsedReply(
        "Nine.", ["look"], (Context("own"),), {"trace_id": "mine", "span_id": "agent", "m": 1}, Usage(1, 1), 0.0
    )
    assert read({"answer": "A", "contexts": [], "trace": AGENT}).contexts == ()


def test_steps_of_the_reply_that_do_not_say_what_they_took_leave_that_to_the_trace() -> None:
    said = read({"answer": "A", "actual": [{"role": "assistant", "content": "A"}], "trace": AGENT})
    assert (said.actual, said.usage, said.cost_usd) == ([{"role": "assistant", "content": "A"}], Usage(14, 4), 0.5)


@pytest.mark.parametrize("form", [json.dumps(AGENT), [AGENT], [{"resourceSpans": []}, AGENT]])
def test_a_trace_may_be_text_or_several_requests(form: Any) -> None:
    assert read({"trace": form}, trace="$.trace").answer == "At 9."


def test_a_reply_that_is_a_trace_is_read_as_one() -> None:
    assert read(AGENT, trace="$").answer == "At 9."


@pytest.mark.parametrize("other", [{"turns": 3}, "abc", ["x"], [], 7, None, {"spans": []}])
def test_a_field_of_that_name_that_is_no_trace_plays_no_part(other: Any) -> None:
    assert read({"answer": "A", "trace": other}) == ParsedReply("A")


@pytest.mark.parametrize("trace", [None, {"resourceSpans": []}, {"resourceSpans": [{"scopeSpans": []}]}, []])
def test_without_spans_nothing_is_known(trace: Any) -> None:
    assert read({"answer": "A", "trace": trace}, trace="$.trace") == ParsedReply("A")


def test_what_a_trace_does_not_record_stays_unknown() -> None:
    mute = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3}
    spans = [span("a", says=mute), span("r", at=1, says={"gen_ai.operation.name": "retrieval"})]
    said = read({"answer": "A", "trace": request(*spans)})
    assert said == ParsedReply("A", metadata={"trace_id": "t"})
    empty = span("r", says={"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": "[]"})
    assert read({"answer": "A", "trace": request(empty)}).contexts == ()  # said to be none
    mixed = request(empty, span("other", says={"gen_ai.operation.name": "retrieval"}))
    assert read({"answer": "A", "trace": mixed}).contexts is None
    named = span("r", says={"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "d"}]'})
    assert read({"answer": "A", "trace": request(named)}).contexts is None


def test_an_agent_alone_tells_tokens_of_its_own() -> None:
    agent = span("a", says={"gen_ai.operation.name": "invoke_agent", **TOKENS})
    assert read({"answer": "A", "trace": request(agent)}).usage == Usage(7, 2)


def test_openinference_gives_the_same() -> None:
    flat = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 1}',
    }
    tool = {"openinference.span.kind": "TOOL", "tool.name": "look", "tool.id": "c1", "output.value": "two"}
    found = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "text"}
    spans = [span("l", says=flat), span("t", at=1, says=tool), span("r", at=2, says=found)]
    said = read({"answer": "A", "trace": request(*spans)})
    assert said.actual == [
        {
            "role": "assistant",
            "tool_calls": [{"name": "look", "id": "c1", "arguments": {"q": 1}}],
            "model": "m",
            "latency_s": 0.5,
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
        {"role": "tool", "tool_call_id": "c1", "content": "two", "latency_s": 0.5},
    ]
    assert (said.contexts, said.usage, said.cost_usd) == ((Context("text"),), Usage(3, 4), None)


def test_a_prediction_is_the_replys_own() -> None:
    with pytest.raises(TargetError, match="the reply has no actual; it has trace"):
        read({"trace": AGENT}, Form("actual"), trace="$.trace")
    said = read({"actual": "greeting", "trace": AGENT}, Form("actual"))
    assert (said.actual, said.answer) == ("greeting", "At 9.")
    parts = Form("answer", {"actual": {"outcome": "actual_outcome"}})
    assert read({"answer": "A", "trace": AGENT}, parts).actual is None


def test_missing_parents_several_roots_and_repeated_spans_are_read() -> None:
    one = span("a", "gone", 1, says=chat("Q", "A") | {"gen_ai.operation.name": "invoke_agent"} | TOKENS)
    two = span("b", "", 2, says=chat("Q", "B") | {"gen_ai.operation.name": "invoke_agent"})
    spans = [one, two, span("t1", "a", 3, says=RAN), span("t2", "b", 4, says=RAN), one]
    said = read({"trace": request(*spans)})
    assert said.answer == "B"
    steps: Any = said.actual
    assert [len(step.get("tool_calls", [])) for step in steps if step["role"] == "assistant"] == [2]


@pytest.mark.parametrize(
    "names", [{"metadata": {"trace_id": "T2"}}, {"trace_id": "t2"}, {"traceparent": "00-t2-00f067aa0ba902b7-01"}]
)
def test_of_several_traces_the_replys_own_is_read(names: Mapping[str, Any]) -> None:
    spans = [span(f"s{at}", trace=f"t{at}", says=chat("Q", f"A{at}")) for at in (1, 2, 3)]
    assert read({**names, "trace": request(*spans)}).answer == "A2"


def test_identifiers_as_libraries_for_protobuf_write_them_are_read() -> None:
    trace, own = (b64encode(bytes(range(size))).decode() for size in (16, 8))
    declared = {**span("x", says=chat("Q", "A")), "traceId": trace, "spanId": own}
    said = read({"traceparent": f"00-{bytes(range(16)).hex()}-{bytes(8).hex()}-01", "trace": request(declared)})
    assert said.metadata == {"trace_id": bytes(range(16)).hex(), "span_id": bytes(range(8)).hex()}


def circle(*names: str) -> dict[str, Any]:
    return request(*[span(name, names[at - 1], says=chat("Q", "A")) for at, name in enumerate(names)])


@pytest.mark.parametrize(
    ("trace", "what"),
    [
        ("{broken", "trace: not JSON: "),
        (
            "[" * 100 + '"resourceSpans"' + "]" * 100,
            "trace: not JSON: more than 64 lists and objects within each other",
        ),
        (7, "trace: expected OTLP JSON with resourceSpans, got a number (7)"),
        ({"resource_spans": []}, "trace: expected OTLP JSON with resourceSpans, got an object with resource_spans"),
        ([AGENT, {"context": {}, "name": 1}], "got an object with context, name"),
        ({"resourceLogs": []}, "got an object with resourceLogs"),
        ({"resourceSpans": {"a": 1}}, "trace: resourceSpans: expected a list, got an object"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]}, "trace: spans: expected a list, got text"),
        ({"resourceSpans": [{"instrumentationLibrarySpans": []}]}, "trace: resourceSpans have no scopeSpans: instru"),
        ({"resourceSpans": [7]}, "trace: resourceSpans have no scopeSpans: nothing"),
        (request(span("a"), {"name": "b", "traceId": "t"}), "trace: spans[1] has no traceId or spanId"),
        (request(span("a"), {"spanId": 3, "traceId": ["t"]}), "trace: spans[1] has no traceId or spanId"),
        (circle("a"), "trace: the span a is inside of itself"),
        (circle("a", "b", "c"), "is inside of itself"),
        (
            request(span("a", trace="one"), span("b", trace="two")),
            "trace: spans of 2 traces (one, two); the reply names none of them: return its trace_id",
        ),
        (request(*[span(f"s{at}") for at in range(20_001)]), "trace: more than 20,000 spans"),
    ],
)
def test_a_broken_trace_is_an_error_that_says_what_came(trace: Any, what: str) -> None:
    with pytest.raises(TargetError) as failed:
        read({"answer": "A", "trace": trace}, trace="$.trace")
    assert what in str(failed.value)
    assert failed.value.error_type == "malformed"


def test_a_trace_that_is_not_where_it_should_be_is_an_error() -> None:
    with pytest.raises(TargetError, match=r"trace: nothing is at \$\.spans in the reply"):
        read({"answer": "A"}, trace="$.spans")
    with pytest.raises(TargetError, match="the reply's own is other: return its trace_id"):
        read({"trace_id": "other", "trace": request(span("a", trace="one"), span("b", trace="two"))})


def test_a_trace_that_failed_without_an_answer_says_why() -> None:
    failed = span("a", status={"code": 2, "message": "no quota"}, says={"gen_ai.operation.name": "invoke_agent"})
    with pytest.raises(TargetError, match="the target reports an error: no quota") as error:
        read({"trace": request(failed)})
    assert error.value.error_type == "reported"
    assert read({"answer": "A", "trace": request(failed)}).answer == "A"


def test_odd_values_in_spans_are_unknown() -> None:
    odd = chat("Q", "A", **{"gen_ai.usage.input_tokens": -1, "gen_ai.usage.output_tokens": "many"})
    tool = RAN | {"gen_ai.tool.call.arguments": '{"a": ' * 60 + "1" + "}" * 60}
    spans = [{**span("a", says=odd), "endTimeUnixNano": "0"}, span("t", at=1, says=tool)]
    spans[0]["startTimeUnixNano"] = "9"
    said = read({"trace": request(*spans, {**span("n", at=2), "attributes": "none", "events": 3, "status": []})})
    assert (said.usage, said.cost_usd) == (None, None)
    assert as_list(said.actual)[0] == {
        "role": "assistant",
        "content": "A",
        "tool_calls": [{"name": "hours", "arguments": {"input": tool["gen_ai.tool.call.arguments"]}, "id": "t"}],
    }


def test_ten_megabytes_in_a_span_are_read() -> None:
    said = read({"answer": "A", "trace": request(span("t", says=RAN | {"gen_ai.tool.call.result": "x" * 10**7}))})
    steps: Any = said.actual
    assert len(steps[1]["content"]) == 10**7

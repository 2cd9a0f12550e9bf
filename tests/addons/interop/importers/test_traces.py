"""Traces as cases: gen_ai conventions old and new, OpenInference, spans that lie apart, and bad files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.traces import read_traces
from evalflow.errors import UserError
from evalflow.values.trajectories import trajectory
from tests.traces.otlp import chat, request, span, told


def read(path: Path, *lines: Any, text: str | None = None) -> ImportedConfig:
    path.write_text("\n".join(json.dumps(line) for line in lines) if text is None else text, encoding="utf-8")
    found = read_traces(ImportSource(path, "old", Path(mkdtemp(dir=path.parent))))
    found.ledger.expect_balanced()
    return found


def rows(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


def calls(case: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in trajectory(case["actual"]).calls]


def row(tmp_path: Path, *spans: Mapping[str, Any]) -> dict[str, Any]:
    [found] = rows(read(tmp_path / "t.jsonl", request(*spans)))
    return found


def test_an_agent_with_tools_retrieval_and_models_is_one_case(tmp_path: Path) -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "talk",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps([told("user", "When?")]),
        "gen_ai.output.messages": json.dumps([told("assistant", "At 9.")]),
    }
    documents = [{"id": "d1", "content": "Opens at 9."}, {"id": "d2"}, {"id": "d3", "content": "Opens at 9."}]
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "hours",
        "gen_ai.tool.call.arguments": '{"place": "pool"}',
        "gen_ai.tool.call.result": '{"opens": 9}',
    }
    took = {"latency_s": 0.5, "usage": {"input_tokens": 7, "output_tokens": 2}, "cost_usd": 0.25}
    usage = {
        "gen_ai.request.model": "small",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "llm.cost.total": 0.25,
    }
    found = read(
        tmp_path / "t.jsonl",
        request(
            span("http", says={"http.request.header.authorization": "Bearer hidden"}),
            span("agent", "http", 1, says=agent),
            span(
                "search",
                "agent",
                2,
                says={"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(documents)},
            ),
            span("tool", "agent", 3, says=tool),
            span("first", "agent", 4, says=chat("When?", "", **usage)),
            span("second", "agent", 5, says=chat("Other?", "Not this.", **usage)),
        ),
    )
    [case] = rows(found)
    assert case == {
        "id": "t",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}],
        "answer": "At 9.",
        "contexts": [{"text": "Opens at 9.", "path": "d1"}],
        "actual": [
            {"role": "assistant", "tool_calls": [{"id": "tool", "name": "hours", "arguments": {"place": "pool"}}]},
            {"role": "tool", "tool_call_id": "tool", "content": '{"opens": 9}', "latency_s": 0.5},
            {"role": "assistant", "model": "small", **took},
            {"role": "assistant", "content": "Not this.", "model": "small", **took},
        ],
        "group": "talk",
        "latency_s": 0.5,
        "cost_usd": 0.5,
        "metadata": {"trace_id": "t", "span_id": "agent", "input_tokens": 14, "output_tokens": 4},
    }
    assert found.ledger.counts() == {
        "requests": (1, 1, 0),
        "spans": (6, 5, 1),
        "traces": (1, 1, 0),
        "messages": (3, 3, 0),
        "documents": (3, 1, 2),
        "tool calls": (1, 1, 0),
        "columns": (1, 0, 1),
    }
    assert found.experiments["old"].generate is False


def test_openinference_is_read(tmp_path: Path) -> None:
    messages = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "S",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Q",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 1}',
    }
    tokens = {"llm.token_count.prompt": 3, "llm.token_count.completion": 4, "session.id": "s"}
    documents = {f"retrieval.documents.{at}.document.content": f"text {at}" for at in (10, 2)}
    case = row(
        tmp_path,
        span("graph", says={"openinference.span.kind": "CHAIN", "input.value": '{"state": 1, "more": 2}'}),
        span("llm", "graph", 1, says={"openinference.span.kind": "LLM", **messages, **tokens}),
        span("docs", "graph", 2, says={"openinference.span.kind": "RETRIEVER", **documents}),
    )
    assert [one["content"] for one in case["messages"]] == ["S", "Q"]
    assert (case["answer"], case["group"]) == ("A", "s")
    assert calls(case) == [("look", {"q": 1})]
    assert [one["text"] for one in case["contexts"]] == ["text 2", "text 10"]
    assert (case["metadata"]["input_tokens"], case["metadata"]["output_tokens"]) == (3, 4)
    assert "cost_usd" not in case


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Q", "A"),
        ('{"question": "Q", "user": 5}', '{"answer": "A", "sources": []}'),
        (
            '{"messages": [["human", "Q"]]}',
            '{"messages": [{"type": "human", "content": "Q"}, {"type": "ai", "content": "A"}]}',
        ),
        ('{"messages": [{"lc": 1, "kwargs": {"type": "human", "content": "Q"}}]}', '{"x": "A"}'),
    ],
)
def test_a_chain_says_texts_or_messages(tmp_path: Path, asked: str, said: str) -> None:
    says = {"openinference.span.kind": "CHAIN", "input.value": asked, "output.value": said}
    case = row(tmp_path, span("chain", says=says))
    assert (case["messages"], case["answer"]) == ([{"role": "user", "content": "Q"}], "A")


@pytest.mark.parametrize(
    "more",
    [
        {
            "events": {
                "gen_ai.content.prompt": {"gen_ai.prompt": '[{"role": "user", "content": "Q"}]'},
                "gen_ai.content.completion": {"gen_ai.completion": '[{"role": "assistant", "content": "A"}]'},
            }
        },
        {
            "events": {
                "gen_ai.user.message": {"content": "Q"},
                "gen_ai.choice": {"index": 0, "message": '{"role": "assistant", "content": "A"}'},
            }
        },
        {
            "says": {
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "Q",
                "gen_ai.prompt.name": "p",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "A",
            }
        },
        {
            "events": {
                "gen_ai.client.inference.operation.details": {
                    "gen_ai.input.messages": [told("user", "Q")],
                    "gen_ai.output.messages": [told("assistant", "A")],
                }
            }
        },
    ],
)
def test_older_conventions_are_read(tmp_path: Path, more: dict[str, Any]) -> None:
    case = row(tmp_path, span("llm", **more))
    assert (case["messages"], case["answer"]) == ([{"role": "user", "content": "Q"}], "A")


def test_of_several_models_the_last_answers_and_tools_are_listed(tmp_path: Path) -> None:
    call = {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}]}
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "r"}]}
    image = {"role": "user", "parts": [{"type": "text", "content": "Q"}, {"type": "blob", "data": "x"}]}
    first = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [image], "gen_ai.output.messages": [call]}
    last = {**first, "gen_ai.input.messages": [image, call, reply], "gen_ai.output.messages": [told("assistant", "A")]}
    found = read(tmp_path / "t.jsonl", request(span("b", "gone", 2, says=last), span("a", "gone", 1, says=first)))
    [case] = rows(found)
    assert (case["messages"], case["answer"]) == ([{"role": "user", "content": "Q"}], "A")
    assert [(step["role"], step.get("content")) for step in case["actual"]] == [
        ("assistant", None),
        ("tool", "r"),
        ("assistant", "A"),
    ]
    assert calls(case) == [("f", {"a": 1})]
    assert found.ledger.counts()["messages"] == (4, 2, 2)
    assert found.ledger.counts()["parts of messages"] == (1, 0, 1)


def test_tool_turns_before_the_question_stay_in_the_conversation(tmp_path: Path) -> None:
    call = {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}]}
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "r"}]}
    turns = [told("user", "Q1"), call, reply, told("assistant", "A1"), told("user", "Q2")]
    says = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": turns,
        "gen_ai.output.messages": [told("assistant", "A2")],
    }
    found = read(tmp_path / "t.jsonl", request(span("b", says={**says, "http.method": "POST"})))
    [case] = rows(found)
    assert [one["role"] for one in case["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert case["messages"][1]["tool_calls"] == [{"name": "f", "id": "1", "arguments": {"a": 1}}]
    assert case["messages"][2] == {"role": "tool", "tool_call_id": "1", "content": "r"}
    assert "allow_irregular" not in found.datasets["old"]
    assert [one.what for one in found.ledger.left_out] == ["column http.method"]


def test_of_several_turns_in_a_trace_only_the_last_gives_its_tools(tmp_path: Path) -> None:
    turn = {"gen_ai.operation.name": "invoke_agent"}
    tool = {"gen_ai.operation.name": "execute_tool"}
    case = row(
        tmp_path,
        span("one", says=chat("Q1", "A1") | turn),
        span("t1", "one", says=tool | {"gen_ai.tool.name": "early"}),
        span("two", at=5, says=chat("Q2", "A2") | turn),
        span("t2", "two", 6, says=tool | {"gen_ai.tool.name": "late"}),
    )
    assert (case["answer"], calls(case)) == ("A2", [("late", None)])


def test_guardrails_are_not_the_answer(tmp_path: Path) -> None:
    case = row(
        tmp_path,
        span("llm", says=chat("Q", "A")),
        span("guard", at=1, says={"openinference.span.kind": "GUARDRAIL", "input.value": "x"}),
        span("inner", "guard", 2, says=chat("Is it safe?", "yes")),
    )
    assert case["answer"] == "A"


def test_rerankers_choose_the_contexts(tmp_path: Path) -> None:
    found = read(
        tmp_path / "t.jsonl",
        request(
            span("llm", says=chat("Q", "A")),
            span("r", says={"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "wide"}),
            span(
                "k", says={"openinference.span.kind": "RERANKER", "reranker.output_documents.0.document.content": "x"}
            ),
        ),
    )
    assert rows(found)[0]["contexts"] == [{"text": "x"}]
    assert found.ledger.counts()["documents"] == (2, 1, 1)


def test_spans_that_lie_apart_are_joined_and_repeated_ones_counted_once(tmp_path: Path) -> None:
    search = span(
        "d", "c1", says={"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "x"}
    )
    others = [request(span("c", trace=f"o{at}", says=chat("Q", "A"))) for at in range(50)]
    root = request(span("c1", says=chat("Q", "A")))
    found = read(tmp_path / "t.jsonl", root, *others, request(search), root)
    cases = rows(found)
    assert (len(cases), cases[0]["id"], cases[0]["contexts"]) == (51, "t", [{"text": "x"}])
    assert found.ledger.counts()["spans"] == (53, 52, 1)


def test_failures_and_traces_without_questions_are_told(tmp_path: Path) -> None:
    status = {"code": 2, "message": "401 for Authorization: Bearer abcdef0123456789abcdef"}
    broken = span("c", status=status, says={"openinference.span.kind": "CHAIN", "input.value": "Q"})
    mute = span("m", trace="mute", says={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 4})
    found = read(tmp_path / "t.jsonl", request(broken, mute), {"resourceLogs": []}, request({"name": "no ids"}))
    assert [case["failure"] for case in rows(found)] == ["401 for Authorization: Bearer ***"]
    counts = found.ledger.counts()
    assert (counts["requests"], counts["spans"], counts["traces"]) == ((3, 2, 1), (3, 1, 2), (2, 1, 1))
    assert any("CAPTURE_MESSAGE_CONTENT" in left.hint for left in found.ledger.left_out)


def test_secrets_are_never_written(tmp_path: Path) -> None:
    given = {
        "q": "pool",
        "headers": {"Authorization": "Bearer s3cr3t-aaaaaaaaaaaa", "X-Api-Key": "s3cr3t-b"},
        "key": "k",
    }
    says = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get", "gen_ai.tool.call.arguments": given}
    question = span("c", says=chat("My key is sk-s3cr3t0123456789abc", "I see.", **{"http.cookie": "s3cr3t"}))
    found = read(tmp_path / "t.jsonl", request(question, span("t", "c", says=says)))
    [case] = rows(found)
    assert "s3cr3t" not in json.dumps(case)
    [(_, arguments)] = calls(case)
    assert arguments["key"] == "k"
    assert found.ledger.counts()["secrets"] == (3, 0, 3)


@pytest.mark.parametrize("form", ["lines", "one line", "indented", "list"])
def test_documents_and_lines_are_alike(tmp_path: Path, form: str) -> None:
    spans = [span("a", says=chat("Q", "A")), span("b", trace="u", says=chat("R", "B"))]
    texts = {
        "lines": "\n".join(json.dumps(request(one)) for one in spans),
        "one line": "\ufeff" + json.dumps(request(*spans)),
        "indented": json.dumps(request(*spans), indent=1).replace("{\n", "{", 1),
        "list": json.dumps([request(one) for one in spans]),
    }
    assert [case["answer"] for case in rows(read(tmp_path / "t.json", text=texts[form]))] == ["A", "B"]


def test_numbers_without_bounds_are_no_numbers(tmp_path: Path) -> None:
    says = chat("Q", "A", **{"gen_ai.usage.input_tokens": 10**400, "gen_ai.usage.output_tokens": "NaN"})
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": '{"a": 1e999}'}
    odd = {**span("c", says=says), "startTimeUnixNano": "1" * 5000, "endTimeUnixNano": "x"}
    case = row(tmp_path, odd, span("f", "c", says=tool))
    assert calls(case) == [("f", {"input": '{"a": 1e999}'})]
    assert set(case["metadata"]) == {"trace_id", "span_id"}
    assert "latency_s" not in case


def test_a_loop_of_parents_and_deep_values_end(tmp_path: Path) -> None:
    deep = "Q"
    for _ in range(50):
        deep = json.dumps({"input": deep}) if len(deep) < 100_000 else deep
    loop = [span("a", "b", says=chat("Q", "A")), span("b", "a"), span("c", "c", says={"input.value": deep})]
    assert row(tmp_path, *loop)["answer"] == "A"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("   \n\n", "the file is empty"),
        ("\ufeff", "broken JSON"),
        ("\n" * 5000, "the file is empty"),
        ('{"resourceSpans": [', "broken JSON"),
        (json.dumps(request(span("a", says=chat("Q", "A")))) + '\n{"resource', "broken JSON"),
        ('{"resourceLogs": []}', "it has no spans"),
        ("[1, 2]", "it has no spans"),
        ("plain words", "broken JSON"),
        ('{"resourceSpans": [{"instrumentationLibrarySpans": []}]}', "have no scopeSpans"),
        (json.dumps(request(span("a"))), "no trace has a user's message"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(tmp_path / "t.jsonl", text=text)


def test_other_encodings_and_missing_files_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(UserError, match="no such file"):
        read_traces(ImportSource(path, "old", tmp_path))
    for content in (b"\xff\xfe{\x00}\x00", b"\x1f\x8b\x08", b'{"resourceSpans": "\xe9"}'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"UTF-16|gzip|JSON"):
            read_traces(ImportSource(path, "old", Path(mkdtemp(dir=tmp_path))))

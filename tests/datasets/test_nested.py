"""Where in the objects of other programs' files the case fields are."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.datasets.nested import propose_mapping, with_paths

ASKED = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]
SAID = {"role": "assistant", "content": "So."}
COMPLETION = {"id": "1", "model": "m", "choices": [{"index": 0, "message": SAID, "finish_reason": "stop"}]}
PARTS = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]}]


@pytest.mark.parametrize(
    ("row", "proposed"),
    [
        (
            {"inputs": {"question": "Why?"}, "outputs": {"output": "So.", "documents": [{"page_content": "c"}]}},
            {"question": "$.inputs.question", "answer": "$.outputs.output", "contexts": "$.outputs.documents"},
        ),
        ({"inputs": {"q": "Why?"}, "outputs": {"a": "So."}}, {"question": "$.inputs.q", "answer": "$.outputs.a"}),
        ({"input": '{"query": "Why?"}', "output": "So."}, {"question": "$.input.query", "answer": "output"}),
        (
            {"request": {"model": "m", "messages": ASKED}, "response": COMPLETION},
            {"messages": "$.request.messages", "answer": "$.response.choices[0].message.content"},
        ),
        (
            {"custom_id": "1", "response": {"status_code": 200, "body": COMPLETION}},
            {"answer": "$.response.body.choices[0].message.content"},
        ),
        (
            {"request": {"model": "m", "input": "Why?"}, "response": {"id": "1", "output": PARTS}},
            {"question": "$.request.input", "answer": "$.response.output[0].content[0].text"},
        ),
        ({"messages": [*ASKED, SAID]}, {"messages": "$.messages[:-1]", "answer": "$.messages[-1].content"}),
        (
            {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]},
            {"messages": "$.conversations[:-1]", "answer": "$.conversations[-1].value"},
        ),
        ({"messages": ASKED}, {}),
        ({"messages": [*ASKED, SAID], "answer": "So."}, {}),
        ({"input": ASKED, "output": SAID}, {"messages": "input", "answer": "$.output.content"}),
        ({"question": "Why?", "answer": {"text": "So.", "usage": {"tokens": 1}}}, {"answer": "$.answer.text"}),
        ({"question": "Why?", "metadata": {"source": "web"}, "scores": {"answer": "good"}}, {}),
        ({"question": "Why?", "answer": {"a": "So.", "b": "Or so."}}, {}),
        ({"custom_id": "1", "body": {"model": "m", "messages": ASKED}}, {"messages": "$.body.messages"}),
        ({"inputs": {"the question": "Why?"}}, {"question": '$.inputs["the question"]'}),
    ],
)
def test_objects_are_entered(row: dict[str, Any], proposed: dict[str, str]) -> None:
    assert propose_mapping(row) == proposed


def test_paths_are_shown_instead_of_the_column_that_they_lead_into() -> None:
    row = {"n": 1, "inputs": '{"question": "Why?"}', "outputs": {"a": "So."}}
    assert with_paths(row, {"question": "$.inputs.question"}) == {
        "n": 1,
        "$.inputs.question": "Why?",
        "outputs": {"a": "So."},
    }
    assert with_paths(row, {"question": "n"}) == row


def test_the_last_message_is_the_answer_only_if_it_always_is_the_assistant_s() -> None:
    asked = [{"role": "user", "content": "a?"}]
    whole = [*asked, {"role": "assistant", "content": "b"}]
    rows = [{"messages": whole}, {"messages": whole}, {}]
    assert propose_mapping(rows[0], rows) == {"messages": "$.messages[:-1]", "answer": "$.messages[-1].content"}
    assert propose_mapping(rows[0], [*rows, {"messages": asked}]) == {}


def test_a_text_beside_an_answer_is_no_context() -> None:
    found = propose_mapping({"output": {"result": {"text": "hello", "source": "kb"}}})
    assert "contexts" not in found

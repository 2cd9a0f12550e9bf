"""What an endpoint sends, read leniently where it does not matter and strictly where it does."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from evalflow.calls.client import MalformedReply
from evalflow.calls.http import Response
from evalflow.config.judges import Price
from evalflow.llm.chat import Completion, read
from evalflow.records import Usage

PRICE = Price(input_per_million=1, output_per_million=2)


def reply(usage: str) -> Completion:
    body = f'{{"choices": [{{"message": {{"content": "fine"}}}}], "usage": {usage}}}'
    return read(Response(200, {}, body.encode()), PRICE)


def test_usage_and_cost_are_read() -> None:
    completion = reply('{"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}')
    assert completion.usage == Usage(3, 4)
    assert completion.cost_usd == pytest.approx(11e-6)


@pytest.mark.parametrize("count", ["1" + "0" * 30, "1.5", '"abc"', "-1", "null", "[]", "1e400"])
def test_a_count_that_makes_no_sense_leaves_the_usage_unknown_and_the_reply_good(count: str) -> None:
    completion = reply(f'{{"prompt_tokens": {count}, "completion_tokens": 2}}')
    assert (completion.text, completion.usage, completion.cost_usd) == ("fine", None, None)


@pytest.mark.parametrize("usage", ["null", "{}", "[]", '"7"', '{"prompt_tokens": 3}'])
def test_a_usage_of_another_shape_is_unknown(usage: str) -> None:
    assert reply(usage).usage is None


@pytest.mark.parametrize("place", ["{}", '{{"choices": {}}}', '{{"error": {}}}'])
def test_a_body_nested_without_end_is_malformed(place: str) -> None:
    body = place.format("[" * 100_000 + "]" * 100_000)
    with pytest.raises(MalformedReply):
        read(Response(200, {}, body.encode()), None)


def test_an_envelope_without_choices_is_malformed() -> None:
    with pytest.raises(MalformedReply, match="choices"):
        read(Response(200, {}, json.dumps({"choices": []}).encode()), None)


def message(usage: Mapping[str, object] | None = None, **fields: object) -> Completion:
    body = {"choices": [{"message": fields, "finish_reason": "stop"}], **({"usage": usage} if usage else {})}
    return read(Response(200, {}, json.dumps(body).encode()), None)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "Yes.", "reasoning_content": "Let me see."},
        {"content": "Yes.", "reasoning": "Let me see.", "reasoning_details": [{"type": "reasoning.text"}]},
        {"content": "Yes.", "reasoning_content": None, "reasoning": "Let me see."},
        {"content": "Yes.", "thinking": "Let me see."},
        {
            "content": [
                {
                    "type": "thinking",
                    "thinking": [{"type": "text", "text": "Let me "}, {"type": "text", "text": "see."}],
                },
                {"type": "text", "text": "Yes."},
            ]
        },
        {"content": [{"type": "reasoning", "text": "Let me see."}, {"type": "output_text", "text": "Yes."}]},
        {"content": [{"reasoningContent": {"reasoningText": {"text": "Let me see."}}}, {"text": "Yes."}]},
        {
            "content": ["Yes", {"type": "text", "text": None}, {"type": "text", "text": "."}],
            "reasoning": ["Let me see."],
        },
    ],
)
def test_thoughts_are_read_apart_from_the_content_whatever_the_server_calls_them(fields: dict[str, object]) -> None:
    found = message(None, **fields)
    assert (found.text, found.reasoning) == ("Yes.", "Let me see.")


@pytest.mark.parametrize("content", [None, "", []])
def test_a_content_may_be_empty_beside_thoughts(content: object) -> None:
    found = message(
        content=content,
        reasoning_content="Hm.",
        usage={
            "prompt_tokens": 1,
            "completion_tokens": 9,
            "completion_tokens_details": {"reasoning_tokens": 9},
        },
    )
    assert (found.text or "", found.reasoning, found.reasoning_tokens) == ("", "Hm.", 9)


def test_an_object_in_place_of_a_text_is_read_as_its_json() -> None:
    assert message(content={"grade": 4, "why": "größer"}).text == '{"grade": 4, "why": "größer"}'


def test_a_refusal_among_the_parts_of_a_reply_is_its_refusal() -> None:
    found = message(content=[{"type": "refusal", "refusal": "I will not."}])
    assert (found.text, found.refusal) == ("", "I will not.")


@pytest.mark.parametrize("details", [None, {}, [], {"reasoning_tokens": None}, {"reasoning_tokens": "many"}])
def test_details_of_another_shape_leave_the_usage_as_it_is(details: object) -> None:
    found = message(
        content="a", usage={"prompt_tokens": 1, "completion_tokens": 2, "completion_tokens_details": details}
    )
    assert (found.usage, found.reasoning_tokens) == (Usage(1, 2), None)


@pytest.mark.parametrize(
    ("beside", "inside"),
    [
        ({"finish_reason": {"type": "length", "length": 9}}, {}),
        ({"finish_reason": "length", "logprobs": [{"token": "a"}]}, {}),
        ({"finish_reason": "length", "logprobs": {"content": "none"}}, {}),
        ({"finish_reason": "length"}, {"refusal": False}),
        ({"finish_reason": "length"}, {"tool_calls": [{"id": 7, "function": {"name": None, "arguments": ["x"]}}]}),
    ],
)
def test_what_stands_beside_a_reply_in_another_type_does_not_cost_the_reply(
    beside: dict[str, object], inside: dict[str, object]
) -> None:
    body = {"choices": [{"message": {"content": "fine", **inside}, **beside}]}
    found = read(Response(200, {}, json.dumps(body).encode()), None)
    assert (found.text, found.finish_reason, found.refusal, found.tokens) == ("fine", "length", None, None)


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "abort"},
        {"finish_reason": "ERROR"},
        {"finish_reason": "insufficient_system_resource"},
        {"finish_reason": None, "error": {"code": 502, "message": "the provider is gone"}},
    ],
)
def test_a_reply_that_the_endpoint_broke_off_is_none(choice: dict[str, object]) -> None:
    body = {"choices": [{"message": {"content": "The first ha"}, **choice}]}
    with pytest.raises(MalformedReply, match="broke the reply off"):
        read(Response(200, {}, json.dumps(body).encode()), None)


@pytest.mark.parametrize("indexes", [(1, 0), (None, 0), ("x", "y"), (0, 1)])
def test_the_reply_is_the_choice_of_index_0_wherever_it_stands(indexes: tuple[object, object]) -> None:
    choices = [{"index": index, "message": {"content": str(index)}} for index in indexes]
    found = read(Response(200, {}, json.dumps({"choices": choices}).encode()), None)
    assert found.text == {(1, 0): "0", (None, 0): "None", ("x", "y"): "x", (0, 1): "0"}[indexes]

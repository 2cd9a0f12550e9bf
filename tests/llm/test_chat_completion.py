"""What an endpoint sends, read leniently where it does not matter and strictly where it does."""

from __future__ import annotations

import json

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

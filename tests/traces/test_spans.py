"""Numbers of spans are those that OTLP can write."""

from __future__ import annotations

import pytest

from evalflow.traces.spans import span_of


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("-7", -7), ("1_0", None), ("१", None), ("1.5", None), ("9" * 30, None)]
)
def test_a_whole_number_is_written_in_digits(text: str, number: int | None) -> None:
    attribute = {"key": "gen_ai.usage.input_tokens", "value": {"intValue": text}}
    span = span_of({"traceId": "aa", "spanId": "bb", "attributes": [attribute]}, "f:1")
    assert span is not None
    assert span.attributes == {"gen_ai.usage.input_tokens": number}

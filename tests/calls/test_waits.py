"""How long an endpoint asks to wait: by headers, by its body, and what is shown meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls.http import Response
from evalflow.calls.waits import Waits, asked_wait_s, in_words, moment


def refused(body: Any = "", **headers: str) -> Response:
    raw = body if isinstance(body, str) else json.dumps(body)
    named: Mapping[str, str] = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(429, named, raw.encode())


def said(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        (refused(), None),
        (refused(retry_after="86400"), 86_400),
        (refused(retry_after_ms="1500"), 1.5),
        (refused(retry_after="Wed, 21 Oct 2026 12:00:30 GMT", date="Wed, 21 Oct 2026 12:00:00 GMT"), 30),
        (refused(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="23h59m"), 86_340),
        (refused(x_ratelimit_remaining_requests="4", x_ratelimit_reset_requests="23h59m"), None),
        (refused(said("Rate limit reached. Please try again in 7m12s.")), 432),
        (refused(said("Please retry after 2 hours and 5 minutes.")), 7500),
        (refused(said("Please try again in 20 ms.")), 0.02),
        (refused(said("Please retry in 34.5s."), retry_after="3"), 3),
        (refused({"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34s"}]}}), 34),
        (refused([{"error": {"details": [{"retryDelay": "34s"}]}}]), 34),
        (refused(said("Try again in a moment, 3 models are busy")), None),
    ],
)
def test_it_is_read_from_headers_and_words(response: Response, seconds: float | None) -> None:
    assert asked_wait_s(response) == (None if seconds is None else pytest.approx(seconds))


@given(st.text(), st.text())
def test_no_body_is_too_strange(body: str, message: str) -> None:
    for one in (body, said(message)):
        assert (asked_wait_s(refused(one)) or 0.0) >= 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (90, "90 s"), (180, "3 min"), (86_400, "24 h"), (88_000, "25 h"), (float("inf"), "for ever")],
)
def test_a_time_is_said_in_its_unit(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
    assert moment(seconds)


def test_a_wait_is_shown_with_its_reason_until_it_ends() -> None:
    waits = Waits()
    with waits.waiting("http://host/v1", "HTTP 429: busy", 60), waits.waiting("http://host/v1", "HTTP 429: busy", 30):
        (line,) = waits.lines()
        assert line.startswith("waits until ")
        assert line.endswith(" UTC for http://host/v1 (HTTP 429: busy)")
    assert list(waits.lines()) == []


def test_a_short_wait_is_not_shown() -> None:
    waits = Waits()
    with waits.waiting("http://host/v1", "HTTP 429: busy", 0.5):
        assert list(waits.lines()) == []

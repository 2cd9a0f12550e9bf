from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls import faults
from evalflow.calls.client import RetryPolicy
from evalflow.calls.http import Response, TransportError, TransportFault


def _response(status: int, code: str | None = None, message: str = "why", **headers: str) -> Response:
    return Response(status, headers, json.dumps({"error": {"code": code, "message": message}}).encode())


@pytest.mark.parametrize(
    ("response", "decision", "error_type"),
    [
        (_response(401), "stop", "authentication"),
        (_response(403), "stop", "authentication"),
        (_response(403, message="your input was flagged by moderation"), "give_up", "refused"),
        (_response(402), "stop", "quota"),
        (_response(429, "insufficient_quota"), "stop", "quota"),
        (_response(429, message="Quota exceeded, check your plan and billing"), "stop", "quota"),
        (_response(429, message="Check your plan and billing; retry in 34s"), "retry", "rate_limit"),
        (_response(400, message="Your credit balance is too low to access the API"), "stop", "quota"),
        (_response(404, "model_not_found"), "stop", "not_found"),
        (_response(404), "stop", "not_found"),
        (_response(405), "stop", "not_found"),
        (_response(307), "stop", "not_found"),
        (_response(400, "invalid_model"), "stop", "not_found"),
        (_response(400, "unsupported_value"), "stop", "request"),
        (_response(400, "context_length_exceeded"), "give_up", "context_length"),
        (_response(400, message="This model's maximum context length is 8192 tokens"), "give_up", "context_length"),
        (_response(413), "give_up", "context_length"),
        (_response(400, "content_filter"), "give_up", "refused"),
        (_response(400), "give_up", "bad_request"),
        (_response(422), "give_up", "bad_request"),
        (_response(408), "retry", "timeout"),
        (_response(409), "retry", "server"),
        (_response(429), "retry", "rate_limit"),
        (_response(429, message="too many tokens per minute"), "retry", "rate_limit"),
        (_response(500), "retry", "server"),
        (_response(503), "retry", "server"),
        (_response(529), "retry", "server"),
    ],
)
def test_each_status_has_its_decision(response: Response, decision: str, error_type: str) -> None:
    fault = faults.of_status(response)
    assert (fault.decision, fault.error_type) == (decision, error_type)
    assert str(response.status) in fault.message


def test_a_redirect_says_where_to() -> None:
    fault = faults.of_status(_response(302, location="https://host/v2/chat/completions"))
    assert fault.message == "HTTP 302: redirected to https://host/v2/chat/completions, which is not followed"
    assert fault.hint == "set base_url to the final address, without /chat/completions"


def test_a_body_that_is_no_json_is_shown_in_one_short_line() -> None:
    fault = faults.of_status(Response(502, {}, b"<html>\n<h1>Bad gateway</h1>" + b"x" * 5000))
    assert fault.message.startswith("HTTP 502: <html> <h1>Bad gateway</h1>")
    assert len(fault.message) < 350


def test_an_error_inside_a_200_counts_as_what_it_is() -> None:
    body = json.dumps({"error": {"code": 429, "message": "slow down"}}).encode()
    assert faults.of_malformed(Response(200, {}, body), "no choices").error_type == "rate_limit"


def test_an_error_as_plain_text_is_understood() -> None:
    fault = faults.of_status(Response(400, {}, b'{"error": "model is required"}'))
    assert fault.message == "HTTP 400: model is required"


@given(attempt=st.integers(1, 1000), asked=st.none() | st.floats(0, 1e9))
def test_a_wait_is_never_below_what_was_asked_nor_above_the_caps(attempt: int, asked: float | None) -> None:
    policy = RetryPolicy(base_s=0.5, cap_s=8, retry_after_cap_s=60)
    wait = policy.delay(attempt, faults.CallFault("retry", "rate_limit", "", retry_after_s=asked))
    assert min(asked or 0, 60) <= wait <= max(8, min(asked or 0, 60))
    assert wait >= 0.25


@pytest.mark.parametrize(
    ("kind", "error_type"), [("unreachable", "connection"), ("broken", "connection"), ("timeout", "timeout")]
)
def test_faults_of_the_connection_may_pass(kind: TransportFault, error_type: str) -> None:
    fault = faults.of_transport(TransportError(kind, "what"))
    assert (fault.decision, fault.error_type, fault.unreachable) == ("retry", error_type, kind == "unreachable")


@pytest.mark.parametrize("kind", ["certificate", "forbidden"])
def test_what_would_be_refused_again_is_not_tried_again(kind: TransportFault) -> None:
    assert faults.of_transport(TransportError(kind, "what")).decision == "stop"


@pytest.mark.parametrize("place", ["{}", '{{"error": {}}}'])
def test_a_body_nested_without_end_is_a_fault_like_any_other(place: str) -> None:
    body = place.format("[" * 100_000 + "]" * 100_000).encode()
    assert faults.of_status(Response(500, {}, body)).decision == "retry"
    assert faults.of_malformed(Response(200, {}, body), "no JSON").error_type == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        b'{"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}',
        b'[{"error": {"code": 404, "message": "no such model", "status": "NOT_FOUND"}}]',
        b'{"error": {"message": "no such model", "code": "404"}}',
        b'{"choices": [{"error": {"message": "no such model", "code": 404}, "message": {"content": ""}}]}',
    ],
)
def test_an_error_is_read_wherever_servers_put_it(body: bytes) -> None:
    for fault in (
        faults.of_status(Response(404, {}, body)),
        faults.of_malformed(Response(200, {}, body), "no choices"),
    ):
        assert (fault.decision, fault.error_type, fault.message) == ("stop", "not_found", "HTTP 404: no such model")


def test_what_a_provider_behind_a_gateway_said_is_shown() -> None:
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"detail": "top_p is too odd"}'}}
    fault = faults.of_status(Response(400, {}, json.dumps({"error": error}).encode()))
    assert fault.message == 'HTTP 400: Provider returned error: {"detail": "top_p is too odd"}'


def test_events_that_nobody_asked_for_are_named() -> None:
    fault = faults.of_malformed(Response(200, {}, b'data: {"choices": []}\n\n'), "no JSON")
    assert fault.message.startswith("server-sent events, though they were not asked for: data:")


def test_a_key_that_is_refused_with_400_ends_the_run() -> None:
    fault = faults.of_status(Response(400, {}, b'[{"error": {"code": 400, "message": "API key not valid."}}]'))
    assert (fault.decision, fault.error_type) == ("stop", "authentication")

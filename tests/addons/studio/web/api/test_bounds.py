"""What is too large is refused before it is read, also where nobody said how large it would be."""

from __future__ import annotations

import contextlib
import http.client
import json

import pytest

from tests.addons.studio.web.api.test_datasets import fill
from tests.addons.studio.web.conftest import Api

pytestmark = pytest.mark.slow

LARGE = 33 * 1024**2


def test_a_body_that_says_how_large_it_is(api: Api) -> None:
    answer = api("POST", "/bots", b" " * LARGE, Content_Type="application/json")
    assert answer.status == 413
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_body_that_does_not(api: Api) -> None:
    address = api.server.address
    for path in ("bots", "runs"):
        connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
        headers = {
            "Content-Type": "application/json",
            "Transfer-Encoding": "chunked",
            "Idempotency-Key": "large",
            **api.server.known,
        }
        chunks = (b" " * 1024**2 for _ in range(LARGE // 1024**2))
        with contextlib.suppress(ConnectionError):  # it was refused while more came
            connection.request("POST", f"/api/v1/{path}", chunks, headers, encode_chunked=True)
        reply = connection.getresponse()
        assert reply.status == 413
        assert json.loads(reply.read())["status"] == 413
        connection.close()


def test_json_that_is_too_deep(api: Api) -> None:
    deep = b'{"name": "deep", "config": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
    assert api("POST", "/bots", deep, Content_Type="application/json").status in (400, 422)


def test_json_that_is_too_deep_to_be_given_out_again(api: Api) -> None:
    deep = json.loads('{"a":' * 80 + "1" + "}" * 80)
    fill(api, "deep", [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    run = {"bot": "recorded", "datasets": ["deep"], "metrics": ["exact_match"]}
    bodies = {
        "/bots": {"name": "deep", "config": {"kind": "http", "url": "http://127.0.0.1:9/", "body": deep}},
        "/datasets/deep/cases": {"items": [{"id": "b", "question": "?", "metadata": deep}]},
        "/runs": {**run, "options": {"gate": deep}},
        "/runs/estimate": {**run, "judge_values": deep},
        "/bots/recorded/metrics/preview": {
            "metric": {"name": "m", "definition": {"kind": "rubric", "scale": deep}},
            "case": {"question": "?", "metadata": deep},
        },
    }
    for path, body in bodies.items():
        answer = api("POST", path, body)
        assert answer.status == 422, (path, answer.body)
        assert "within each other" in answer.body.decode(), path
    for path in ("/bots", "/datasets/deep/cases", "/runs"):
        assert api("GET", path).status == 200


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 400])
def test_numbers_beyond_all_bounds(api: Api, number: str) -> None:
    body = '{"bot": "recorded", "datasets": ["rag"], "metrics": ["exact_match"], %s}'
    for part in (
        '"thresholds": {"exact_match": %s}',
        '"options": {"limit": %s}',
        '"options": {"max_error_rate": %s}',
        '"options": {"gate": {"exact_match": {"mean": %s}}}',
    ):
        answer = api("POST", "/runs", (body % part % number).encode(), Content_Type="application/json")
        assert answer.status in (400, 422), (part, answer.body)


def test_half_of_a_surrogate_pair_is_no_fault_of_the_server(api: Api) -> None:
    check = {"name": "half", "type": "conformity", "params": {"rules": "\ud800"}}
    assert api("POST", "/checks", check).status == 422
    kind = {"kind": "check", "needs": ["answer"], "description": "d", "checks": [{"op": "contains", "value": "a"}]}
    metric = {"name": "half", "definition": kind}
    tried = api(
        "POST", "/bots/recorded/metrics/try", {"metric": metric, "case": {"question": "?", "answer": "a\ud800"}}
    )
    assert (tried.status, tried.json["scores"][0]["score"]) == (200, 1)

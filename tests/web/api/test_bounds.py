"""What is too large is refused before it is read, also where nobody said how large it would be."""

from __future__ import annotations

import contextlib
import http.client
import json

from ..conftest import Api

LARGE = 33 * 1024**2


def test_a_body_that_says_how_large_it_is(api: Api) -> None:
    answer = api("POST", "/bots", b" " * LARGE, Content_Type="application/json")
    assert answer.status == 413
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_body_that_does_not(api: Api) -> None:
    address = api.server.address
    for key in ({}, {"Idempotency-Key": "large"}):
        connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **key}
        chunks = (b" " * 1024**2 for _ in range(LARGE // 1024**2))
        with contextlib.suppress(ConnectionError):  # it was refused while more came
            connection.request("POST", "/api/v1/bots", chunks, headers, encode_chunked=True)
        reply = connection.getresponse()
        assert reply.status == 413
        assert json.loads(reply.read())["status"] == 413
        connection.close()


def test_json_that_is_too_deep(api: Api) -> None:
    deep = b'{"name": "deep", "config": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
    assert api("POST", "/bots", deep, Content_Type="application/json").status in (400, 422)

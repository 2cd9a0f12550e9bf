"""Each fault, as a client meets it."""

from __future__ import annotations

import asyncio
import errno
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from evalflow.testing import (
    Endpoint,
    Step,
    auto,
    cut,
    faulty,
    html,
    malformed,
    no_choices,
    off_schema,
    refusal,
    reply,
    reset,
    silence,
    status,
    trickle,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"verdict": {"enum": ["yes", "no"]}}}
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "Verdict", "schema": SCHEMA}},
}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def met(http: aiohttp.ClientSession, step: Step) -> tuple[aiohttp.ClientResponse, bytes]:
    async with Endpoint([step]) as endpoint, http.post(f"{endpoint.url}/chat/completions", json=BODY) as response:
        return response, await response.read()


async def choices(http: aiohttp.ClientSession, step: Step) -> list[dict[str, Any]]:
    response, body = await met(http, step)
    assert response.status == 200
    return json.loads(body)["choices"]


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 503])
async def test_status(http: aiohttp.ClientSession, code: int) -> None:
    response, body = await met(http, status(code, message="not now"))
    assert response.status == code
    assert json.loads(body)["error"]["message"] == "not now"
    assert "Retry-After" not in response.headers


@pytest.mark.parametrize("retry_after", [2, "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_retry_after(http: aiohttp.ClientSession, retry_after: float | str) -> None:
    response, _ = await met(http, status(429, retry_after=retry_after))
    assert response.headers["Retry-After"] == str(retry_after)


async def test_html(http: aiohttp.ClientSession) -> None:
    response, body = await met(http, html())
    assert (response.status, response.content_type) == (200, "text/html")
    assert body.startswith(b"<!doctype html>")


async def test_reset(http: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.ClientOSError) as raised:
        await met(http, reset())
    assert raised.value.errno == errno.ECONNRESET


async def test_half_a_body(http: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.ClientPayloadError):
        await met(http, cut("a reply that is never whole"))


async def test_silence_lasts_until_the_client_gives_up(http: aiohttp.ClientSession) -> None:
    impatient = aiohttp.ClientTimeout(total=0.1)
    async with Endpoint([silence()]) as endpoint:
        with pytest.raises(TimeoutError):
            await http.post(f"{endpoint.url}/chat/completions", json=BODY, timeout=impatient)
        while endpoint.in_flight:
            await asyncio.sleep(0.001)
    assert endpoint.count == 1


async def test_silence_ends_with_the_endpoint(http: aiohttp.ClientSession) -> None:
    async with Endpoint([silence()]) as endpoint:
        asked = asyncio.create_task(http.post(f"{endpoint.url}/chat/completions", json=BODY))
        await asyncio.to_thread(endpoint.wait_for, 1)
        assert not asked.done()
    with pytest.raises(aiohttp.ClientConnectionError):
        await asked


async def test_trickle(http: aiohttp.ClientSession) -> None:
    async with Endpoint([trickle("slow", bytes_per_second=1000)]) as endpoint:
        async with http.post(f"{endpoint.url}/chat/completions", json=BODY) as response:
            pieces = [piece async for piece, _ in response.content.iter_chunks()]
    assert json.loads(b"".join(pieces))["choices"][0]["message"]["content"] == "slow"
    assert len(pieces) > 10


def test_only_a_reply_can_be_cut() -> None:
    with pytest.raises(TypeError, match="Fault has none"):
        cut(status(500))


async def test_late(http: aiohttp.ClientSession) -> None:
    impatient = aiohttp.ClientTimeout(total=0.05)
    async with Endpoint([status(500).after(60), reply("b").after(0.001)]) as endpoint:
        with pytest.raises(TimeoutError):
            await http.post(f"{endpoint.url}/chat/completions", json=BODY, timeout=impatient)
        async with http.post(f"{endpoint.url}/chat/completions", json=BODY) as response:
            assert (await response.json())["choices"][0]["message"]["content"] == "b"


async def test_malformed(http: aiohttp.ClientSession) -> None:
    [choice] = await choices(http, malformed())
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice["message"]["content"])


async def test_off_schema(http: aiohttp.ClientSession) -> None:
    [choice] = await choices(http, off_schema())
    assert "verdict" not in json.loads(choice["message"]["content"])


async def test_no_choices(http: aiohttp.ClientSession) -> None:
    assert await choices(http, no_choices()) == []


async def test_refusal(http: aiohttp.ClientSession) -> None:
    [choice] = await choices(http, refusal("no"))
    assert (choice["message"]["content"], choice["message"]["refusal"]) == (None, "no")


async def test_a_reply_that_was_too_long(http: aiohttp.ClientSession) -> None:
    [choice] = await choices(http, reply('{"verd', finish_reason="length"))
    assert (choice["message"]["content"], choice["finish_reason"]) == ('{"verd', "length")


async def test_a_reply_without_usage(http: aiohttp.ClientSession) -> None:
    _, body = await met(http, reply("a", usage=None))
    assert "usage" not in json.loads(body)


async def test_faults_are_strewn_by_their_shares(http: aiohttp.ClientSession) -> None:
    script = faulty(lambda _: auto(), [(0.3, status(500)), (0.2, status(429))], seed=1)
    codes: list[int] = []
    async with Endpoint(script) as endpoint:
        for _ in range(200):
            async with http.post(f"{endpoint.url}/chat/completions", json=BODY) as response:
                codes.append(response.status)
    # Drawn from a fixed seed; 200 draws stay within four standard deviations of the shares.
    assert abs(codes.count(500) - 60) < 26
    assert abs(codes.count(429) - 40) < 23
    assert set(codes) == {200, 429, 500}

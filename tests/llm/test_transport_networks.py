"""Neither way to an endpoint opens a connection out of its networks, whatever its address looks like."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from evalflow.calls.http import HttpRequest, HttpTransport, Response, Transport, TransportError
from evalflow.calls.networks import Networks
from evalflow.llm.sdk import SdkTransport

pytestmark = pytest.mark.anyio
POST = HttpRequest("POST", "/chat/completions", b'{"a":1}', 5.0)
PUBLIC = Networks.of(["public"])
Make = type[HttpTransport] | type[SdkTransport]


@dataclass
class Listener:
    """Counts the connections to 127.0.0.1, 127.0.0.2 and ::1, and answers each request with the same bytes."""

    seen: list[str] = field(default_factory=list[str])
    heads: list[bytes] = field(default_factory=list[bytes])
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append(writer.get_extra_info("sockname")[0])
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(len(POST.body or b""))
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    found = Listener()
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as first:
        found.port = first.sockets[0].getsockname()[1]
        hosts = ["127.0.0.2", *(["::1"] if socket.has_ipv6 else [])]
        async with await asyncio.start_server(found.serve, hosts, found.port):
            yield found


@pytest.fixture(params=[HttpTransport, SdkTransport], ids=["http", "sdk"])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


async def send(transport: Transport) -> Response:
    try:
        return await transport.send(POST)
    finally:
        await transport.close()


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Let `rebinding.test` resolve to one address after the other, and to the last one from then on."""
    left, known = list(answers), socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **options: Any) -> Any:
        if host in ("rebinding.test", b"rebinding.test"):
            host = left.pop(0) if len(left) > 1 else left[0]
        return known(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


REACHABLE = ["127.0.0.1", "0x7f000001", "[::1]", "localhost"]
LEGACY = ["127.1", "2130706433", "017700000001"]
"""The openai SDK's client takes them for 127.0.0.1; aiohttp takes them for no address."""
UNREACHABLE = [
    "0.0.0.0",
    "[::]",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "10.0.0.1",
    "[::127.0.0.1]",
]
"""They must not be tried here without networks."""


@pytest.mark.parametrize("host", [*REACHABLE, *LEGACY, *UNREACHABLE])
async def test_no_form_of_a_private_address_is_public(make: Make, listener: Listener, host: str) -> None:
    address = f"http://{host}:{listener.port}/v1"
    is_none = make is HttpTransport and host in LEGACY
    why = "not a canonical IPv4 address" if is_none else r"outside of the connection's networks \(public\)"
    with pytest.raises(TransportError, match=why) as caught:
        await send(make(address, "a key", 1, networks=PUBLIC))
    assert caught.value.fault == ("unreachable" if is_none else "forbidden")
    assert listener.seen == []
    if host not in UNREACHABLE and not is_none:
        assert (await send(make(address, None, 1))).status == 200
        assert len(listener.seen) == 1


async def test_a_private_address_that_is_named_is_reached(make: Make, listener: Listener) -> None:
    for host, network in (("127.0.0.2", "127.0.0.2/32"), ("localhost", "127.0.0.0/8")):
        transport = make(f"http://{host}:{listener.port}/v1", "a key", 1, networks=Networks.of([network]))
        assert (await send(transport)).status == 200
    assert listener.seen == ["127.0.0.2", "127.0.0.1"]


async def test_what_goes_wrong_within_networks_is_told_apart(make: Make, listener: Listener) -> None:
    own, silence = Networks.of(["127.0.0.0/8"]), asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silence.wait()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match=r"nothing came for 0\.1 s") as caught:
            await send(make(f"http://127.0.0.1:{port}/v1", None, 1, 0.1, networks=own))
        assert caught.value.fault == "timeout"
        silence.set()
    with pytest.raises(TransportError, match="no connection") as caught:
        await send(make(f"http://127.0.0.1:{port}/v1", None, 1, networks=own))
    assert caught.value.fault == "unreachable"
    listener.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"
    with pytest.raises(TransportError, match="the connection was lost") as caught:
        await send(make(f"http://127.0.0.1:{listener.port}/v1", None, 1, networks=own))
    assert caught.value.fault == "broken"


async def test_a_name_that_resolves_anew_is_checked_anew(
    make: Make, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is connected to: a second look at the name would find the other address."""
    address, own = f"http://rebinding.test:{listener.port}/v1", Networks.of(["127.0.0.2/32"])
    resolving(monkeypatch, "127.0.0.2", "127.0.0.1")
    assert (await send(make(address, "a key", 1, networks=own))).status == 200
    with pytest.raises(TransportError, match=r"127\.0\.0\.1: it is outside") as caught:
        await send(make(address, "a key", 1, networks=own))
    assert caught.value.fault == "forbidden"
    assert listener.seen == ["127.0.0.2"]


async def test_a_proxy_is_no_way_around(make: Make, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
        monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{listener.port}")
    for scheme, own in (("http", PUBLIC), ("https", PUBLIC), ("http", Networks.of(["127.0.0.1/32"]))):
        with pytest.raises(TransportError, match="outside"):
            await send(make(f"{scheme}://10.0.0.1/v1", "a key", 1, networks=own))
    assert listener.seen == []
    assert (await send(make("http://10.0.0.1/v1", None, 1))).status == 200


@pytest.mark.parametrize("key", ["a key", None])
async def test_a_variable_of_the_sdk_adds_no_header(
    make: Make, listener: Listener, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: hush\nauthorization: Bearer hush\nAuthorization: Bearer hush")
    own = Networks.of(["127.0.0.0/8"])
    await send(make(f"http://127.0.0.1:{listener.port}/v1", key, 1, networks=own))
    assert b"hush" not in listener.heads[0]
    assert listener.heads[0].lower().count(b"authorization") == (key is not None)


async def test_a_redirect_is_not_followed(make: Make, listener: Listener) -> None:
    place = f"http://127.0.0.2:{listener.port}/"
    listener.answer = f"HTTP/1.1 307 Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
    own = Networks.of(["127.0.0.0/8"])
    response = await send(make(f"http://127.0.0.1:{listener.port}/v1", "a key", 1, networks=own))
    assert response.status == 307
    assert b"Bearer a key" in listener.heads[0]
    assert listener.seen == ["127.0.0.1"]

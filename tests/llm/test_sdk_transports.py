"""What both ways to an endpoint do alike, byte for byte where it matters, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import tracemalloc
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from openai import DefaultAsyncHttpxClient

from evalflow.calls.http import MAX_REPLY, HttpRequest, HttpTransport, Transport, TransportError
from evalflow.calls.networks import Networks
from evalflow.llm import sdk_http
from evalflow.llm.sdk import SdkTransport

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
POST = HttpRequest("POST", "/chat/completions", b'{"a":1}', 5.0)
Make = Callable[..., Transport]


@dataclass
class Server:
    """Keeps what came over each connection, and answers every request with the same bytes."""

    answer: bytes = GOOD
    after_s: float = 0.0
    connections: int = 0
    open_now: int = 0
    open_most: int = 0
    heads: list[str] = field(default_factory=list[str])
    bodies: list[bytes] = field(default_factory=list[bytes])
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                self.heads.append(head)
                length = next((line for line in head.splitlines() if line.lower().startswith("content-length")), ":0")
                self.bodies.append(await reader.readexactly(int(length.partition(":")[2])))
                await asyncio.sleep(self.after_s)
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_now -= 1
            writer.close()

    def header(self, name: str) -> str | None:
        """A header of the last request."""
        for line in self.heads[-1].splitlines()[1:]:
            if line.partition(":")[0].lower() == name:
                return line.partition(":")[2].strip()
        return None


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    state = Server()
    async with await asyncio.start_server(state.serve, "127.0.0.1", 0) as listening:
        state.port = listening.sockets[0].getsockname()[1]
        yield state


@pytest.fixture(params=[HttpTransport, SdkTransport], ids=["http", "sdk"])
async def make(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Make]:
    made: list[Transport] = []

    def build(base: str = "", key: str | None = None, connections: int = 4, **keys: Any) -> Transport:
        base_url = base or f"http://127.0.0.1:{server.port}/v1"
        made.append(request.param(base_url, key, connections, **keys))
        return made[-1]

    yield build
    for transport in made:
        await transport.close()


async def test_the_very_bytes_are_sent_and_what_came_is_given(make: Make, server: Server) -> None:
    server.answer = b"HTTP/1.1 418 Teapot\r\nX-Some: Thing\r\nContent-Length: 5\r\n\r\nshort"
    response = await make(key="abc").send(POST)
    assert server.bodies == [b'{"a":1}']
    assert server.heads[0].startswith("POST /v1/chat/completions HTTP/1.1")
    assert server.header("authorization") == "Bearer abc"
    assert server.header("content-type") == "application/json"
    assert (response.status, response.headers["x-some"], response.body) == (418, "Thing", b"short")
    assert response.elapsed_s > 0


async def test_a_long_body_is_sent_as_it_is(make: Make, server: Server) -> None:
    body = bytes(range(256)) * 8192 + b"odd"
    await make().send(HttpRequest("POST", "/x", body, 5.0))
    assert server.bodies == [body]
    assert server.header("content-type") == "application/json"
    assert server.header("content-length") == str(len(body))
    assert server.header("content-disposition") is None


async def test_a_get_has_no_body(make: Make, server: Server) -> None:
    await make().send(HttpRequest("GET", "/models", None, 5.0))
    assert server.heads[0].startswith("GET /v1/models HTTP/1.1")
    assert server.bodies == [b""]
    assert server.header("authorization") is None


async def test_one_connection_serves_one_request_after_the_other(make: Make, server: Server) -> None:
    transport = make()
    for _ in range(5):
        await transport.send(POST)
    assert (server.connections, len(server.heads)) == (1, 5)


async def test_no_more_connections_are_open_than_calls_may_be_in_flight(make: Make, server: Server) -> None:
    server.after_s = 0.02
    transport = make(connections=3)
    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(transport.send(POST))
    assert server.open_most <= 4  # one more for the watchdog's probe
    assert len(server.heads) == 12


async def test_user_and_password_of_the_address_are_sent_in_their_header(make: Make, server: Server) -> None:
    await make(f"http://me:secret@127.0.0.1:{server.port}/v1", key="abc").send(POST)
    assert server.header("authorization") == f"Basic {b64encode(b'me:secret').decode()}"
    assert "secret" not in server.heads[0]


async def test_a_redirect_is_not_followed(make: Make, server: Server) -> None:
    server.answer = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    assert (await make(key="abc").send(POST)).status == 307
    assert len(server.heads) == 1


async def test_an_interim_response_is_passed_over(make: Make, server: Server) -> None:
    server.answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + GOOD
    response = await make().send(POST)
    assert (response.status, response.body) == (200, b"{}")


async def test_no_header_can_begin_another_one(server: Server) -> None:
    transport = HttpTransport(f"http://127.0.0.1:{server.port}", "key\r\nX-Other: 1", 1)
    with pytest.raises(TransportError, match=r"a header .* control character"):
        await transport.send(POST)
    await transport.close()
    assert server.heads == []


async def test_what_is_compressed_twice_is_not_unpacked(make: Make, server: Server) -> None:
    body = gzip.compress(gzip.compress(b"{}"))
    server.answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )
    assert (await make().send(POST)).body == body


async def test_what_comes_compressed_is_unpacked(make: Make, server: Server) -> None:
    body = gzip.compress(b'{"b": 2}')
    server.answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    assert (await make().send(POST)).body == b'{"b": 2}'


@cache
def packed_zeros() -> bytes:
    """256 MiB of zeros, packed once for all tests: that takes a second."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(256)) + packer.flush()


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_of_a_reply_that_unpacks_to_gigabytes_no_more_is_unpacked_than_a_reply_may_have(
    make: Make, server: Server, status: str
) -> None:
    body = packed_zeros()
    head = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    server.answer = head.encode() + body
    transport = make()
    tracemalloc.start()
    response = await transport.send(POST)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert MAX_REPLY < len(response.body) < MAX_REPLY + (4 << 20)
    assert peak < 4 * MAX_REPLY
    server.answer = GOOD
    assert (await transport.send(POST)).body == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        b"What is this?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
    ids=["false encoding", "no HTTP", "half a body", "endless header"],
)
async def test_what_cannot_be_read_is_a_broken_connection(answer: bytes, make: Make, server: Server) -> None:
    server.answer = answer
    with pytest.raises(TransportError) as failed:
        await make().send(HttpRequest("POST", "/x", b"{}", 0.5))
    assert failed.value.fault in {"broken", "timeout"}
    assert str(failed.value)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_a_request_is_sent_once_though_its_connection_is_lost(method: Literal["GET", "PUT", "POST"]) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        transport = HttpTransport(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/?key=hush", None, 1)
        with pytest.raises(TransportError, match="the connection was lost: ") as failed:
            await transport.send(HttpRequest(method, "/x", None, 5.0))
        await transport.close()
    assert failed.value.fault == "broken"
    assert "hush" not in str(failed.value)
    assert len(heads) == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"", b"HTTP/9.9 200 OK\r\n\r\n"])
async def test_what_is_said_of_a_lost_connection_has_no_address(answer: bytes, server: Server) -> None:
    server.answer = answer
    transport = HttpTransport(f"http://127.0.0.1:{server.port}/?key=hush", None, 1, first_byte_s=0.1)
    for _ in range(2):
        with pytest.raises(TransportError) as failed:
            await transport.send(POST)
        assert "hush" not in str(failed.value)
    await transport.close()


async def test_a_reply_that_comes_before_the_whole_body_was_read_is_taken() -> None:
    taken, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        await taken.wait()
        writer.close()
        gone.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        transport = HttpTransport(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None, 1)
        response = await transport.send(HttpRequest("POST", "/x", bytes(20_000_000), 5.0))
        taken.set()
        await gone.wait()
        await transport.close()
    assert (response.status, response.body) == (413, b"big")


async def test_a_cookie_is_not_sent_back(server: Server) -> None:
    server.answer = GOOD.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\nSet-Cookie: \x01;;=\r\n\r\n")
    transport = HttpTransport(f"http://localhost:{server.port}", None, 1)
    for _ in range(2):
        assert (await transport.send(POST)).status == 200
    await transport.close()
    assert server.header("cookie") is None


async def test_the_whole_exchange_and_the_first_byte_are_timed(make: Make, server: Server) -> None:
    server.after_s = 2.0
    with pytest.raises(TransportError, match=r"no whole response within 0\.1 s") as failed:
        await make().send(HttpRequest("POST", "/x", b"{}", 0.1))
    assert failed.value.fault == "timeout"
    with pytest.raises(TransportError, match=r"nothing came for 0\.1 s") as failed:
        await make(first_byte_s=0.1).send(HttpRequest("POST", "/x", b"{}", 30))
    assert failed.value.fault == "timeout"


@pytest.mark.parametrize("exempt", [False, True])
async def test_the_proxy_of_the_environment_is_used(
    exempt: bool, make: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    if exempt:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await make().send(POST)
        assert server.heads[0].startswith("POST /v1/chat/completions ")
    else:
        await make("http://judge.invalid/v1").send(POST)
        assert server.heads[0].startswith("POST http://judge.invalid/v1/chat/completions ")


@pytest.mark.parametrize("proxy", ["socks9://127.0.0.1:1", "nonsense"])
async def test_a_proxy_that_cannot_be_used_is_no_connection(
    proxy: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(TransportError) as failed:
        await make("http://judge.invalid/v1").send(POST)
    assert failed.value.fault == "unreachable"


async def test_a_closed_transport_opens_new_connections(make: Make, server: Server) -> None:
    transport = make()
    await transport.send(POST)
    await transport.close()
    await transport.send(POST)
    assert server.connections == 2


async def test_a_query_of_the_address_stays_behind_the_path(server: Server) -> None:
    transport = HttpTransport(f"http://127.0.0.1:{server.port}/a%20b/v1/?api-version=1", None, 1)
    await transport.send(POST)
    await transport.close()
    assert server.heads[0].startswith("POST /a%20b/v1/chat/completions?api-version=1 ")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["in chunks", "announced"],
)
async def test_a_body_ends_where_the_head_says(answer: bytes, make: Make, server: Server) -> None:
    server.answer = answer
    transport = make()
    for _ in range(2):
        response = await transport.send(POST)
        assert (response.status, response.body) == (200, b"{}")
        assert "link" not in response.headers
    assert server.connections == 1


async def test_a_body_without_a_length_ends_with_its_connection(make: Make) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(POST.body or b""))
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n{")
        await writer.drain()
        writer.write(b"}")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        transport = make(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        for _ in range(2):
            response = await transport.send(POST)
            assert response.body == b"{}"


async def test_a_connection_that_is_closed_while_idle_is_not_used_again(make: Make, server: Server) -> None:
    server.answer = GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    transport = make()
    for _ in range(3):
        await transport.send(POST)
    assert server.connections == 3


async def test_a_call_that_is_cancelled_leaves_no_connection_behind(make: Make, server: Server) -> None:
    server.after_s = 0.2
    transport = make(connections=1)
    for _ in range(4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await transport.send(POST)
    server.after_s = 0.0
    assert (await transport.send(POST)).body == b"{}"


class Trusted:
    """A certificate for localhost that the environment says to trust, and its key."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
        made += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
        try:
            subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip("needs openssl, to make a certificate")
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(certificate, key)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heads: list[str], port: int) -> None:
    """A proxy that lets everything through to a port of this machine."""
    heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(4096):
            sink.write(data)
        sink.close()

    async with asyncio.TaskGroup() as both:
        both.create_task(pump(reader, there_writer))
        both.create_task(pump(there_reader, writer))


@pytest.mark.parametrize("way", ["direct", "proxied", "networks"])
async def test_a_secure_endpoint_directly_and_through_a_proxy(
    way: str, make: Make, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Trusted(tmp_path, monkeypatch).context
    heads: list[str] = []
    secure = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = secure.sockets[0].getsockname()[1]
    proxy = await asyncio.start_server(lambda r, w: tunnel(r, w, heads, port), "127.0.0.1", 0)
    async with secure, proxy:
        if way != "direct":
            monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        networks = Networks.of(["127.0.0.0/8"]) if way == "networks" else None  # which know no proxy
        transport = make(f"https://localhost:{port}/v1", key="abc", networks=networks)
        assert (await transport.send(POST)).body == b"{}"
        await transport.close()
    assert server.header("authorization") == "Bearer abc"
    assert len(heads) == (way == "proxied")
    for head in heads:
        assert head.startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n")
        assert f"proxy-authorization: basic {b64encode(b'me:secret').decode()}".lower() in head.lower()
        assert "abc" not in head


def test_its_http_library_is_the_one_of_the_sdk() -> None:
    assert issubclass(DefaultAsyncHttpxClient, sdk_http.httpx.AsyncClient)

"""The transport for plain OpenAI-compatible endpoints: kept-alive connections, one try each.

Own code over asyncio and llhttp, chosen by measurement: a call costs a third of what it costs with aiohttp, and a
thirtieth of what it costs with the openai SDK (`bench/overhead.py` measures all three).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from evalflow import __version__
from evalflow.calls.transport import CONNECT_S, Request, Response, TransportError

if TYPE_CHECKING:
    from evalflow.calls.connection import Connection
    from evalflow.calls.dial import Dialer

KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds after which common servers (uvicorn, and so vLLM) close an idle connection: one that
is closed in the very moment of a request costs a try."""

_AS_IT_IS = "%/?:@!$&'()*+,;=~"
"""What may stand in a path or a query, and is not written otherwise."""


class HttpTransport:
    """Connections to one endpoint, for requests whose bytes are ready.

    The first request makes the pool, in the event loop that sends it, so that a closed transport can be used again.
    Proxies are taken from the environment as usual (HTTPS_PROXY, NO_PROXY); redirects are not followed, since a key
    must not go where nobody sent it.

    Args:
        base_url: Up to and including /v1. A user and a password in it are sent instead of the key.
        api_key: None sends no key.
        max_connections: Connections that may be open at the same time.
        first_byte_s: Seconds without any byte after which a try is given up; None: only its timeout counts.
    """

    def __init__(
        self, base_url: str, api_key: str | None, max_connections: int, first_byte_s: float | None = None
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._pool: _Pool | None = None
        self._heads: dict[tuple[str, str], bytes] = {}

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole response. See `Transport`."""
        from evalflow.calls.connection import BrokenError, SilenceError

        pool = self._pool or self._open()
        begun = time.monotonic()
        try:
            async with pool.room:
                connection = pool.idle() or await self._connect(pool.dialer, request.timeout_s)
                left = request.timeout_s - (time.monotonic() - begun)
                status, headers, body = await connection.exchange(self._bytes(pool.dialer, request), left)
                pool.keep(connection)
        except SilenceError:
            raise TransportError("timeout", f"nothing came for {self._first_byte_s:g} s") from None
        except TimeoutError:
            raise TransportError("timeout", f"no whole response within {request.timeout_s:g} s") from None
        except BrokenError as error:
            raise TransportError("broken", f"the connection was lost: {error}") from None
        return Response(status, headers, body, time.monotonic() - begun)

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _open(self) -> _Pool:
        from evalflow.calls.dial import Dialer

        try:
            dialer = Dialer(self._base_url, self._first_byte_s)
        except ValueError as error:
            raise TransportError("unreachable", f"the address or the proxy cannot be used: {error}") from None
        # One more connection than the limiter lets calls through, for the watchdog's probe; so nothing ever waits here.
        self._pool = _Pool(dialer, self._max_connections + 1)
        self._heads.clear()
        return self._pool

    async def _connect(self, dialer: Dialer, timeout_s: float) -> Connection:
        try:
            async with asyncio.timeout(min(CONNECT_S, timeout_s)):
                return await dialer.connect()
        except TimeoutError:
            if timeout_s < CONNECT_S:
                raise
            raise TransportError("unreachable", f"no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise _connect_error(error) from None

    def _bytes(self, dialer: Dialer, request: Request) -> bytes:
        """The request as it goes out."""
        head = self._heads.get((request.method, request.path)) or self._head(dialer, request)
        body = request.body or b""
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)

    def _head(self, dialer: Dialer, request: Request) -> bytes:
        """What all requests of a path begin with. A query of the base URL stays behind the path.

        Replies are short, so that compressing them costs more than it saves; what comes compressed all the same is
        unpacked.
        """
        from evalflow.calls.dial import authorization, host_of

        base = urlsplit(self._base_url)
        path = quote(f"{base.path.rstrip('/')}{request.path}", _AS_IT_IS)
        query = f"?{quote(base.query, _AS_IT_IS)}" if base.query else ""
        lines = [
            f"{request.method} {dialer.prefix}{path}{query} HTTP/1.1",
            f"Host: {host_of(base)}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            f"User-Agent: evalflow/{__version__}",
        ]
        if base.username is None and self._api_key is not None:
            lines.append(f"Authorization: Bearer {self._api_key}")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        head += authorization("Authorization", base) + dialer.head
        return self._heads.setdefault((request.method, request.path), head)


class _Pool:
    """Open connections that nobody uses at present; the one that was used last is used first."""

    def __init__(self, dialer: Dialer, size: int) -> None:
        self.dialer = dialer
        self.room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False
        self._clock = asyncio.get_running_loop().time

    def idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._clock() - connection.idle_since < KEEP_ALIVE_S:
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
        elif connection.usable:
            self._idle.append(connection)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _connect_error(error: OSError) -> TransportError:
    """No connection, and whether that is for want of trust."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLError) and not isinstance(chain, ssl.SSLEOFError):
            return TransportError("certificate", f"no secure connection: {chain}")
        chain = chain.__cause__ or chain.__context__
    why = error.strerror if isinstance(error, socket.gaierror) or not error.errno else os.strerror(error.errno)
    return TransportError("unreachable", f"no connection: {why or error}")

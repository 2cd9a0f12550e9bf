"""The transport over plain HTTP: aiohttp's connections, kept alive, and one try each.

aiohttp was chosen by measurement: a client in Rust took a fifth more CPU in a run, since its thread competes with ours
for the interpreter's lock. Its pool, proxies, TLS and parser are used without its session, which builds and checks anew
for each request what is the same for all of one path: that costs as much as the rest of a call.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from evalflow.calls.networks import ForbiddenAddressError, Networks
from evalflow.frozen import record
from evalflow.records import Usage
from evalflow.version import __version__

if TYPE_CHECKING:
    from aiohttp import ClientConnectorError, ClientRequest, ClientTimeout, TCPConnector
    from multidict import CIMultiDict
    from yarl import URL

CONNECT_S = 5.0
"""Seconds to open one connection, including DNS and TLS."""

_MAX_ROUTES = 256
MAX_REPLY = 32 * 1024**2
"""Maximum size of a decompressed reply in bytes; little more than this is ever read."""

JSON = "application/json"
TransportFault = Literal["unreachable", "forbidden", "certificate", "broken", "timeout"]


@record()
class HttpRequest:
    """A request to send.

    Attributes:
        path: Below the endpoint's base URL, with a leading slash; perhaps with a query.
        timeout_s: Seconds for the whole exchange, connecting included.
        kind: Calls of one kind should take about the same time; the limiter compares their latencies.
        tokens: Estimated tokens of the call, for a limit of tokens per minute.
        longest: Maximum size of the reply in bytes.
        repeatable: Whether it may be sent again after a fault that leaves open whether the endpoint took it.
    """

    method: Literal["GET", "POST", "PUT", "PATCH"]
    path: str
    body: bytes | None
    timeout_s: float
    kind: str = ""
    tokens: float = 0.0
    content_type: str = JSON
    longest: int = MAX_REPLY
    repeatable: bool = True


@record()
class Response:
    """A response with any status.

    Attributes:
        body: The whole body, decompressed. Of a body that is too long only the beginning, which is too long as well.
        elapsed_s: Seconds from sending to the last byte.
        usage: Its tokens, which only a decoder can know.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float = 0.0
    usage: Usage | None = None


class TransportError(Exception):
    """No complete response came."""

    def __init__(self, fault: TransportFault, message: str) -> None:
        self.fault: TransportFault = fault
        super().__init__(message)


async def beginning(parts: AsyncIterable[bytes], longest: int) -> bytes:
    """Read a body until it ends or is too long."""
    read = bytearray()
    async for part in parts:
        read += part
        if len(read) > longest:
            break
    return bytes(read)


class Transport(Protocol):
    """One endpoint's connections. Tries once; does not know about retries, limits or the meaning of the bytes."""

    async def send(self, request: HttpRequest) -> Response:
        """Send one request and read the whole response."""
        ...

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        ...


KEEP_ALIVE_S = 4.0
"""Less than the five seconds after which common servers (uvicorn, and so vLLM) close an idle connection. A connection
that is closed just as a request is sent costs a try."""


class _Route:
    """What requests of one method, path and content type share: what aiohttp connects by, and the head's bytes."""

    def __init__(self, draft: ClientRequest, timeout: ClientTimeout) -> None:
        self.draft = draft
        self.timeout = timeout
        self._head: bytes | None = None

    def message(self, body: bytes | None) -> bytes:
        """The bytes of a request, once a connection is there: connecting may add a proxy's header to the draft."""
        if self._head is None:
            self._head = self._written()
        if body is None:
            return self._head + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)

    def _written(self) -> bytes:
        draft = self.draft
        target = str(draft.url) if draft.proxy and not draft.is_ssl() else draft.url.raw_path_qs
        lines = [f"{draft.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in draft.headers.items())]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise ValueError("a header has a line break")
        return "".join(f"{line}\r\n" for line in lines).encode()


class HttpTransport:
    """Connections to one endpoint, for requests that are encoded already.

    The first request opens them, in the event loop that sends it. So aiohttp is imported only when something is sent,
    and a closed transport can be used again. Proxies are taken from the environment (HTTPS_PROXY, NO_PROXY). Redirects
    are not followed, since they could carry the key to another server.

    Args:
        base_url: Prefix of every request's path. A user and a password in it are sent instead of the key.
        first_byte_s: Seconds without any byte before a try is given up; None: only its timeout applies.
        headers: Sent with every request; they replace default headers of the same names.
        networks: Where its connections may lead to, without any proxy; None: anywhere.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        max_connections: int,
        first_byte_s: float | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        networks: Networks | None = None,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._own_headers = headers or {}
        self._networks = networks
        self._connector: TCPConnector | None = None
        self._routes: dict[tuple[str, str, str], _Route] = {}

    async def send(self, request: HttpRequest) -> Response:
        import aiohttp

        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._exchange(request)
        except aiohttp.SocketTimeoutError:
            raise TransportError("timeout", f"nothing came for {self._first_byte_s:g} s") from None
        except TimeoutError:
            raise TransportError("timeout", f"no whole response within {request.timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise _connect_error(error) from None
        except ValueError as error:
            raise TransportError("unreachable", f"the address or the proxy cannot be used: {error}") from None
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError) as error:
            raise TransportError("broken", f"the connection was lost: {error or type(error).__name__}") from None

    async def close(self) -> None:
        connector, self._connector = self._connector, None
        self._routes.clear()
        if connector is not None:
            await connector.close()

    async def _exchange(self, request: HttpRequest) -> Response:
        begun = time.monotonic()
        connector = self._connector or self._connect()
        route = self._routes.get((request.method, request.path, request.content_type)) or self._route(request)
        try:
            connection = await connector.connect(route.draft, [], route.timeout)
        except TimeoutError:
            raise TransportError("unreachable", f"no connection within {CONNECT_S:g} s") from None
        try:
            protocol = connection.protocol
            assert protocol is not None
            assert protocol.transport is not None
            protocol.set_response_params(read_until_eof=True, read_timeout=self._first_byte_s)
            protocol.transport.write(route.message(request.body))
            protocol.start_timeout()
            head, content = await protocol.read()
            while 100 <= head.code < 200:  # an interim response, such as 103 Early Hints
                head, content = await protocol.read()
            if content.is_eof():  # a short reply, which came with its head
                body = content.read_nowait()
            else:
                body = await beginning(content.iter_any(), request.longest)
        except BaseException:
            connection.close()
            raise
        connection.release()  # which closes it if the reply was not read to its end
        return Response(head.code, head.headers, body, time.monotonic() - begun)

    def _connect(self) -> TCPConnector:
        import aiohttp

        # One more connection than the limiter lets calls through, for the watchdog's probe. So nothing ever waits for
        # the pool, and the connect timeout covers connecting alone.
        trust: ssl.SSLContext | bool = True
        if self._base_url.lower().startswith("https:"):
            import httpx2  # the same certificates as in the openai SDK: SSL_CERT_FILE, SSL_CERT_DIR, or the system's

            trust = httpx2.create_ssl_context()
        networks = self._networks
        self._connector = aiohttp.TCPConnector(
            limit=self._max_connections + 1,
            keepalive_timeout=KEEP_ALIVE_S,
            ssl=trust,
            socket_factory=networks and networks.open,
        )
        return self._connector

    def _route(self, request: HttpRequest) -> _Route:
        import aiohttp
        from yarl import URL

        url = self._url(request.path)
        proxy = None if self._networks else _proxy(self._base_url)
        draft = aiohttp.ClientRequest(
            request.method,
            url,
            headers=self._headers(request.content_type),
            proxy=None if proxy is None else URL(proxy),
            loop=asyncio.get_running_loop(),
        )
        draft.headers.pop("Content-Length", None)  # of no body; each has its own
        route = _Route(draft, aiohttp.ClientTimeout(connect=CONNECT_S))
        if len(self._routes) >= _MAX_ROUTES:  # paths with the ids of conversations
            self._routes.clear()
        return self._routes.setdefault((request.method, request.path, request.content_type), route)

    def _headers(self, content_type: str) -> CIMultiDict[str]:
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        # Replies are short, so that compressing them costs more than it saves. Compressed replies are still unpacked.
        headers = CIMultiDict(
            {
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Content-Type": content_type,
                "User-Agent": f"evalflow/{__version__}",
            }
        )
        url = URL(self._base_url)
        if url.user is not None:
            headers["Authorization"] = aiohttp.encode_basic_auth(url.user, url.password or "")
        elif self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        headers.update(self._own_headers)
        if content_type != JSON:
            headers["Content-Type"] = content_type
        return headers

    def _url(self, path: str) -> URL:
        """The address of a path below the base URL; a query of the base URL stays at the end."""
        from yarl import URL

        below, _, query = path.partition("?")
        base = URL(self._base_url).with_user(None)
        whole = base.raw_path.rstrip("/") + below if below else base.raw_path
        queries = "&".join(filter(None, (query, base.raw_query_string)))
        origin = str(base.origin())
        return URL(f"{origin}{whole}?{queries}" if queries else f"{origin}{whole}", encoded=True)


def _proxy(base_url: str) -> str | None:
    """The proxy that the environment sets for an address. Looked up once, not for each request."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(base_url)
    if not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _connect_error(error: ClientConnectorError) -> TransportError:
    """The error of a failed connection; an untrusted certificate has a fault of its own."""
    if untrusted := certificate_error(error):
        return untrusted
    cause = error.os_error
    if isinstance(cause, ForbiddenAddressError):
        return forbidden_error(cause)
    why = cause.strerror if isinstance(cause, socket.gaierror) or not cause.errno else os.strerror(cause.errno)
    return TransportError("unreachable", f"no connection: {why or error}")


def forbidden_error(error: ForbiddenAddressError) -> TransportError:
    """The error of a name that leads out of its networks."""
    return TransportError("forbidden", f"no connection to {error.address}: it is {error}")


def certificate_error(error: BaseException | None) -> TransportError | None:
    """The error of an untrusted certificate, if that is why there is no connection."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return TransportError("certificate", f"no secure connection: {error}")
        error = error.__cause__ or error.__context__
    return None

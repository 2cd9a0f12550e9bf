"""The transport over plain HTTP: one aiohttp session, kept-alive connections, one try each.

aiohttp was chosen by measurement: a client in Rust took 20% more CPU, since its thread competes with ours for the GIL.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Literal, Protocol

from evalflow.calls.networks import ForbiddenAddressError, Networks
from evalflow.records import Usage
from evalflow.version import __version__

if TYPE_CHECKING:
    from aiohttp import ClientConnectorError, ClientHandlerType, ClientRequest, ClientResponse, ClientSession
    from multidict import CIMultiDict
    from yarl import URL

CONNECT_S = 5.0
"""Seconds to open one connection, including DNS and TLS."""

MAX_REPLY = 32 * 1024**2
"""Maximum size of a decompressed reply in bytes; reading stops soon after it."""

_WHOLE = 2**20
"""Maximum size of a body that aiohttp writes in one piece; it warns about longer ones that are not files."""

JSON = "application/json"
TransportFault = Literal["unreachable", "forbidden", "certificate", "broken", "timeout"]


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class HttpRequest:
    """A request to send.

    Attributes:
        path: Below the endpoint's base URL, with a leading slash; perhaps with a query.
        timeout_s: Seconds for the whole exchange, connecting included.
        kind: Calls of one kind should take about the same time; the limiter compares their latencies.
        tokens: Estimated tokens of the call, for a limit of tokens per minute.
        replies: Number of model replies requested.
        longest: Maximum size of the reply in bytes.
        repeatable: Whether it may be sent again if the endpoint may already have processed it.
    """

    method: Literal["GET", "POST", "PUT", "PATCH"]
    path: str
    body: bytes | None
    timeout_s: float
    kind: str = ""
    tokens: float = 0.0
    replies: int = 1
    content_type: str = JSON
    longest: int = MAX_REPLY
    repeatable: bool = True


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class Response:
    """A response with any status.

    Attributes:
        body: The whole body, decompressed; a body over the limit is cut off somewhere above the limit.
        elapsed_s: Seconds from sending to the last byte.
        usage: Its token usage, set by a decoder.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float = 0.0
    usage: Usage | None = None


class TransportError(Exception):
    """No complete response was received."""

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
    """One endpoint's connections. Sends once; knows nothing about retries, limits or the content."""

    async def send(self, request: HttpRequest) -> Response:
        """Send one request and read the whole response."""
        ...

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        ...


KEEP_ALIVE_S = 4.0
"""Less than the five seconds after which common servers (uvicorn, hence vLLM) close an idle connection: a request sent
on a connection that is just being closed costs a try."""


class HttpTransport:
    """Connections to one endpoint, for requests that are already encoded.

    The first request opens them, in its event loop, so aiohttp is imported only when something is sent, and a closed
    transport can be reused. Proxies are taken from the environment (HTTPS_PROXY, NO_PROXY). Redirects
    are not followed, since they could carry the key to another server.

    Args:
        base_url: Prefix of every request's path. A user and a password in it are sent instead of the key.
        first_byte_s: Seconds to wait for the first byte; None: only the request's timeout applies.
        headers: Sent with every request; they replace default headers of the same names.
        networks: The networks that it may connect to, without a proxy; None: any.
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
        self._address = lru_cache(maxsize=64)(partial(_address, base_url))
        self._api_key = api_key
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._own_headers = headers or {}
        self._networks = networks
        self._session: ClientSession | None = None

    async def send(self, request: HttpRequest) -> Response:
        import aiohttp

        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._exchange(request)
        except aiohttp.ConnectionTimeoutError:
            raise TransportError("unreachable", f"no connection within {CONNECT_S:g} s") from None
        except aiohttp.SocketTimeoutError:
            raise TransportError("timeout", f"nothing came for {self._first_byte_s:g} s") from None
        except TimeoutError:
            raise TransportError("timeout", f"no whole response within {request.timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise _connect_error(error) from None
        except (ValueError, aiohttp.NonHttpUrlClientError) as error:
            raise TransportError("unreachable", f"the address, a header or the proxy cannot be used: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(error) from None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(self, request: HttpRequest) -> Response:
        begun, body = time.monotonic(), request.body
        session = self._session or self._connect()
        async with session.request(
            request.method,
            self._address(request.path),
            data=body if body is None or len(body) <= _WHOLE else BytesIO(body),
            headers=None if request.content_type == JSON else {"Content-Type": request.content_type},
            allow_redirects=False,
            # aiohttp itself never resends a POST.
            middlewares=None if request.method == "POST" else [_one_try],
        ) as response:
            content = response.content
            is_whole = content.is_eof()  # a short reply that arrived together with its head
            reply = content.read_nowait() if is_whole else await beginning(content.iter_any(), request.longest)
        return Response(response.status, response.headers, reply, time.monotonic() - begun)

    def _connect(self) -> ClientSession:
        import aiohttp

        # One more connection than the limiter allows calls, for the watchdog's probe. So no request waits for the pool,
        # and the connect timeout covers connecting only.
        trust = trusted_certificates() if self._base_url.lower().startswith("https:") else True
        networks = self._networks
        connector = aiohttp.TCPConnector(
            limit=self._max_connections + 1,
            keepalive_timeout=KEEP_ALIVE_S,
            ssl=trust,
            socket_factory=networks and networks.open,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers(),
            proxy=None if networks else _proxy(self._base_url),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(connect=CONNECT_S, sock_read=self._first_byte_s),
        )
        return self._session

    def _headers(self) -> CIMultiDict[str]:
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        # Replies are short, so compressing them costs more than it saves. Compressed replies are still unpacked.
        headers = CIMultiDict(
            {
                "Accept": JSON,
                "Accept-Encoding": "identity",
                "Content-Type": JSON,
                "User-Agent": f"evalflow/{__version__}",
            }
        )
        url = URL(self._base_url)
        if url.user is not None:
            headers["Authorization"] = aiohttp.encode_basic_auth(url.user, url.password or "")
        elif self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        headers.update(self._own_headers)
        return headers


def _address(base_url: str, path: str) -> URL:
    """Return the address of a path below the base URL, with the base URL's query at the end."""
    from yarl import URL

    below, _, query = path.partition("?")
    base = URL(base_url).with_user(None)
    whole = base.raw_path.rstrip("/") + below if below else base.raw_path
    queries = "&".join(filter(None, (query, base.raw_query_string)))
    origin = str(base.origin())
    return URL(f"{origin}{whole}?{queries}" if queries else f"{origin}{whole}", encoded=True)


async def _one_try(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keep the session from silently resending a request when its connection is lost."""
    import aiohttp

    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _lost(error) from None


def trusted_certificates() -> ssl.SSLContext:
    """The certificates of SSL_CERT_FILE or SSL_CERT_DIR, or else the system's."""
    import httpx2

    return httpx2.create_ssl_context()


def _lost(error: Exception) -> TransportError:
    import aiohttp

    # aiohttp's messages of these two contain the whole address, perhaps with a secret in its query.
    if isinstance(error, aiohttp.ClientResponseError):
        why = error.message
    else:
        why = error.__cause__ if isinstance(error, aiohttp.ClientOSError) and error.__cause__ else error
    return TransportError("broken", f"the connection was lost: {why or type(error).__name__}")


def _proxy(base_url: str) -> str | None:
    """Return the environment's proxy for an address. Looked up once, not for each request."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(base_url)
    if not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _connect_error(error: ClientConnectorError) -> TransportError:
    """Return the error of a failed connection; untrusted certificates have their own fault."""
    if untrusted := certificate_error(error):
        return untrusted
    cause = error.os_error
    if isinstance(cause, ForbiddenAddressError):
        return forbidden_error(cause)
    why = cause.strerror if isinstance(cause, socket.gaierror) or not cause.errno else os.strerror(cause.errno)
    return TransportError("unreachable", f"no connection: {why or error}")


def forbidden_error(error: ForbiddenAddressError) -> TransportError:
    """Return the error of a host name that resolves outside the allowed networks."""
    return TransportError("forbidden", f"no connection to {error.address}: it is {error}")


def certificate_error(error: BaseException | None) -> TransportError | None:
    """Return the error of an untrusted certificate, if that is why the connection failed."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return TransportError("certificate", f"no secure connection: {error}")
        error = error.__cause__ or error.__context__
    return None

"""The transport for any HTTP service: one aiohttp session, one try each; and what its failures mean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalflow import __version__
from evalflow.calls.allowance import retry_after_s
from evalflow.calls.faults import RETRIED, Dialect, Fault, excerpt
from evalflow.calls.transport import CONNECT_S, Request, Response, TransportError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MAX_REPLY = 32 * 1024**2
"""Bytes of a reply that are read at the most; a longer one is given cut off after one more."""


class ServiceTransport:
    """Connections to one service. The session is made on the first request, in the event loop that sends it.

    Redirects are not followed, since the headers may hold a key that must not go where nobody sent it. Proxies are
    taken from the environment as usual.

    Args:
        url: The service; a request's path is put behind it as it stands.
        headers: Sent with every request.
        max_connections: Connections that may be open at the same time.
    """

    def __init__(self, url: str, headers: Mapping[str, str], max_connections: int) -> None:
        self._url = url
        self._headers = {"Accept": "application/json", "User-Agent": f"evalflow/{__version__}", **headers}
        self._max_connections = max_connections
        self._session: ClientSession | None = None

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole response. See `Transport`."""
        import aiohttp

        session = self._session or self._connect()
        timeout = aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=CONNECT_S)
        headers = {"Content-Type": "application/json"} if request.body is not None else {}
        begun = time.monotonic()
        try:
            async with session.request(
                request.method,
                self._url + request.path,
                data=request.body,
                headers={**headers, **self._headers},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await _read(response)
        except aiohttp.ConnectionTimeoutError:
            raise TransportError("unreachable", f"no connection within {CONNECT_S:g} s") from None
        except TimeoutError:
            raise TransportError("timeout", f"no whole response within {request.timeout_s:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise TransportError("certificate", f"no secure connection: {error.certificate_error}") from None
        except aiohttp.ClientConnectorError as error:
            raise TransportError("unreachable", f"no connection: {error.strerror or error}") from None
        except ValueError as error:
            raise TransportError("unreachable", f"the address or the proxy cannot be used: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError("broken", f"the connection was lost: {error or type(error).__name__}") from None
        return Response(response.status, response.headers, body, time.monotonic() - begun)

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _connect(self) -> ClientSession:
        import aiohttp

        # One more than the limiter lets calls through, for the watchdog's probe.
        connector = aiohttp.TCPConnector(limit=self._max_connections + 1)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)
        return self._session


async def _read(response: ClientResponse) -> bytes:
    parts: list[bytes] = []
    length = 0
    async for part in response.content.iter_chunked(2**16):
        parts.append(part)
        length += len(part)
        if length > MAX_REPLY:
            break
    return b"".join(parts)


def of_status(response: Response) -> Fault:
    """The fault of a service's response whose status is not 2xx.

    What a service of one's own says to one case says little about the next, so only a refused key ends a run.
    """
    status, text = response.status, excerpt(response.body)
    message = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status == 401:
        return Fault("stop", "authentication", message, "check target.headers: the service accepts no such key", text)
    if 300 <= status < 400:
        place = response.headers.get("Location") or response.headers.get("location") or "nowhere"
        message = f"HTTP {status}: redirected to {place}, which is not followed; set target.url to the final address"
        return Fault("give_up", "redirect", message, raw=text)
    if status >= 500 or status in RETRIED:
        error_type = {429: "rate_limit", 408: "timeout"}.get(status, "server")
        return Fault("retry", error_type, message, raw=text, retry_after_s=retry_after_s(response.headers))
    return Fault("give_up", "bad_request", message, raw=text)


SERVICE = Dialect(of_status, "target.url", "check target.url, and that the service is up")
"""Services that speak JSON in their own ways."""

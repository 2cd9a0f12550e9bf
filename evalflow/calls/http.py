"""The transport over plain HTTP: one client, kept-alive connections, one try each.

pyreqwest was chosen by measurement: a call costs it a third of the CPU that it costs aiohttp, and a thirtieth of what
it costs the openai SDK (`bench/overhead.py` measures all three).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from evalflow import __version__
from evalflow.calls.transport import CONNECT_S, Request, Response, TransportError

if TYPE_CHECKING:
    from pyreqwest.client import Client
    from pyreqwest.exceptions import CauseErrorDetails, PyreqwestError
    from pyreqwest.http import Url
    from pyreqwest.response import Response as PyResponse

KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds after which common servers (uvicorn, and so vLLM) close an idle connection: one that
is closed in the very moment of a request costs a try."""
_CONNECTING = "client error (Connect)"


class HttpTransport:
    """Connections to one endpoint, for requests whose bytes are ready.

    The client is made on the first request, so that a closed transport can be used again. Whom it trusts, and its
    proxies, are those of the system and of the environment (SSL_CERT_FILE, HTTPS_PROXY, NO_PROXY); redirects are not
    followed, since a key must not go where nobody sent it.

    Args:
        base_url: What the path of a request is put behind. A user and a password in it are sent instead of the key.
        api_key: None sends no key.
        max_connections: Connections that may be open at the same time.
        first_byte_s: Seconds without any byte after which a try is given up; None: only its timeout counts.
        headers: Sent with every request.
        max_bytes: What is read of a body at the most, and one part more; None: all of it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        max_connections: int,
        first_byte_s: float | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._headers = headers or {}
        self._max_bytes = max_bytes
        self._client: Client | None = None
        self._urls: dict[str, Url] = {}

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole response. See `Transport`."""
        from pyreqwest.exceptions import PyreqwestError

        client = self._client or self._open()
        begun = time.monotonic()
        try:
            builder = client.request(request.method, self._urls.get(request.path) or self._url(request.path))
            if request.body is not None:
                builder = builder.body_bytes(request.body)
            builder = builder.timeout(timedelta(seconds=request.timeout_s))
            if self._max_bytes is None:
                response = await builder.build().send()
                body = bytes(await response.bytes())
            else:
                async with builder.build_streamed() as response:
                    body = await _beginning(response, self._max_bytes)
        except PyreqwestError as error:
            raise self._fault(error, request.timeout_s, time.monotonic() - begun) from None
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Response(response.status, headers, body, time.monotonic() - begun)

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self) -> Client:
        from pyreqwest.client import ClientBuilder

        headers = {"accept": "application/json", "content-type": "application/json"}
        base = urlsplit(self._base_url)
        if base.username is None and self._api_key is not None:
            headers["authorization"] = f"Bearer {self._api_key}"
        headers |= {name.lower(): value for name, value in self._headers.items()}
        builder = (
            ClientBuilder()
            .default_headers(headers)
            .user_agent(f"evalflow/{__version__}")
            # One more connection than the limiter lets calls through, for the watchdog's probe; so nothing waits here.
            .max_connections(self._max_connections + 1)
            .pool_idle_timeout(timedelta(seconds=KEEP_ALIVE_S))
            .connect_timeout(timedelta(seconds=CONNECT_S))
            .follow_redirects(enable=False)
        )
        if self._first_byte_s is not None:
            builder = builder.read_timeout(timedelta(seconds=self._first_byte_s))
        self._client = builder.build()
        return self._client

    def _url(self, path: str) -> Url:
        """The address of a path below the base URL, whose query stays behind it."""
        from pyreqwest.exceptions import PyreqwestError
        from pyreqwest.http import Url

        base = urlsplit(self._base_url)
        whole = urlunsplit(base._replace(path=f"{base.path.rstrip('/')}{path}")) if path else self._base_url
        try:
            return self._urls.setdefault(path, Url(whole))
        except (PyreqwestError, ValueError) as error:
            raise TransportError("unreachable", f"the address cannot be used: {error}") from None

    def _fault(self, error: PyreqwestError, timeout_s: float, elapsed_s: float) -> TransportError:
        """What an error of pyreqwest's means; its phases and reasons stand in the messages of its causes."""
        from pyreqwest.exceptions import RequestTimeoutError

        causes = _causes(error)
        connecting = any(_CONNECTING in cause for cause in causes)
        if isinstance(error, RequestTimeoutError):
            if connecting and timeout_s >= CONNECT_S:
                return TransportError("unreachable", f"no connection within {CONNECT_S:g} s")
            if self._first_byte_s is not None and elapsed_s < timeout_s:
                return TransportError("timeout", f"nothing came for {self._first_byte_s:g} s")
            return TransportError("timeout", f"no whole response within {timeout_s:g} s")
        if not connecting:
            return TransportError("broken", f"the connection was lost: {causes[-1]}")
        if any("certificate" in cause for cause in causes):
            return TransportError("certificate", f"no secure connection: {causes[-1]}")
        return TransportError("unreachable", f"no connection: {causes[-1]}")


async def _beginning(response: PyResponse, size: int) -> bytes:
    """A body, read until it is longer than `size`."""
    read = b""
    while len(read) <= size and (part := await response.body_reader.read_chunk()) is not None:
        read += bytes(part)
    return read


def _causes(error: PyreqwestError) -> list[str]:
    """From the outermost to the innermost."""
    details: CauseErrorDetails = getattr(error, "details", None) or {"causes": None}
    return [error.message, *(cause["message"] for cause in details["causes"] or ())]

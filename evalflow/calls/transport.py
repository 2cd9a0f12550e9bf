"""The seam between evalflow and the network: request bytes in, response bytes out."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Literal, Protocol

from evalflow.frozen import record

CONNECT_S = 5.0
"""Seconds to open one connection, including DNS and TLS."""

MAX_REPLY = 32 * 1024**2
"""Maximum size of a decompressed reply in bytes; little more than this is ever read."""

TransportFault = Literal["unreachable", "certificate", "broken", "timeout"]


@record()
class HttpRequest:
    """A request to send.

    Attributes:
        method: POST, GET, PUT or PATCH.
        path: Below the endpoint's base URL, with a leading slash.
        body: The exact bytes to send; None sends no body.
        timeout_s: Seconds for the whole exchange, connecting included.
        kind: Calls of one kind should take about the same time; the limiter compares their latencies.
        tokens: Estimated tokens of the call, for a limit of tokens per minute.
    """

    method: Literal["GET", "POST", "PUT", "PATCH"]
    path: str
    body: bytes | None
    timeout_s: float
    kind: str = ""
    tokens: float = 0.0


@record()
class Response:
    """A response with any status.

    Attributes:
        status: The HTTP status.
        headers: Looked up by lower-case name.
        body: The whole body, decompressed. Of a body above MAX_REPLY only the beginning, which is above MAX_REPLY too.
        elapsed_s: Seconds from sending to the last byte.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float = 0.0


class TransportError(Exception):
    """No complete response came.

    Attributes:
        fault: unreachable (no connection), certificate (no trust), broken (the connection was lost), timeout.
    """

    def __init__(self, fault: TransportFault, message: str) -> None:
        self.fault: TransportFault = fault
        super().__init__(message)


async def beginning(parts: AsyncIterable[bytes]) -> bytes:
    """Read a body until it ends or is longer than MAX_REPLY."""
    read = bytearray()
    async for part in parts:
        read += part
        if len(read) > MAX_REPLY:
            break
    return bytes(read)


class Transport(Protocol):
    """One endpoint's connections. Tries once; does not know about retries, limits or the meaning of the bytes."""

    async def send(self, request: HttpRequest) -> Response:
        """Send one request and read the whole response.

        Raises:
            TransportError: No complete response came.
        """
        ...

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        ...

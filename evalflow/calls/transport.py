"""The seam between evalflow and the network: request bytes in, response bytes out."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Literal, Protocol

from evalflow.frozen import record

CONNECT_S = 5.0
"""Seconds for making one connection, the look-up of its name and TLS included."""

MAX_REPLY = 32 * 1024**2
"""Bytes that a reply may have once it is unpacked; little more than these is ever read."""

TransportFault = Literal["unreachable", "certificate", "broken", "timeout"]


@record()
class HttpRequest:
    """What is sent.

    Attributes:
        method: POST, GET, PUT or PATCH.
        path: Below the endpoint's base URL, with a leading slash.
        body: The very bytes that go out; None sends no body.
        timeout_s: Seconds for the whole exchange, connecting included.
        kind: Calls of one kind should take alike; the limiter compares their latencies.
        tokens: What it will take, as far as that can be told; for a limit of tokens a minute.
    """

    method: Literal["GET", "POST", "PUT", "PATCH"]
    path: str
    body: bytes | None
    timeout_s: float
    kind: str = ""
    tokens: float = 0.0


@record()
class Response:
    """What came back, whatever its status.

    Attributes:
        status: The HTTP status.
        headers: Found by lower-case name.
        body: The whole body, decompressed; of one above MAX_REPLY, its beginning, which is longer than that too.
        elapsed_s: Seconds from sending to the last byte.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float = 0.0


class TransportError(Exception):
    """No whole response came.

    Attributes:
        fault: unreachable (no connection), certificate (no trust), broken (the connection was lost), timeout.
    """

    def __init__(self, fault: TransportFault, message: str) -> None:
        self.fault: TransportFault = fault
        super().__init__(message)


async def beginning(parts: AsyncIterable[bytes]) -> bytes:
    """A body that comes in parts, read until it ends or is longer than MAX_REPLY."""
    read = bytearray()
    async for part in parts:
        read += part
        if len(read) > MAX_REPLY:
            break
    return bytes(read)


class Transport(Protocol):
    """One endpoint's connections. Tries once; knows nothing of retries, limits or what the bytes mean."""

    async def send(self, request: HttpRequest) -> Response:
        """Send one request and read the whole response.

        Raises:
            TransportError: No whole response came.
        """
        ...

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        ...

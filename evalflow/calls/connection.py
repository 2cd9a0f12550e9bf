"""One connection to an HTTP/1.1 server: bytes of a request out, a whole response in, one exchange after the other."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD = 64 * 1024
"""Bytes of a response's head; more is no answer of a model."""
MAX_UNPACKED = 64 * 1024**2
"""Bytes of a body once it is unpacked."""
_ANY_ZLIB = 47  # gzip or zlib, whichever its first bytes say


class BrokenError(Exception):
    """The connection was lost before the response was whole, or what came is no HTTP."""


class SilenceError(Exception):
    """Nothing came for too long."""


class Connection(asyncio.Protocol):
    """A protocol of asyncio's. llhttp, in httptools, reads what comes.

    Args:
        silence_s: Seconds without any byte after which an exchange is given up; None: as long as it takes.

    Attributes:
        idle_since: When the last exchange ended, by the loop's clock.
    """

    def __init__(self, silence_s: float | None = None) -> None:
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._whole: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._parser = HttpResponseParser(self)
        self._heard_at = 0.0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._head_left = MAX_HEAD
        self._in_body = False
        self._kept_alive = True
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another exchange can begin."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, timeout_s: float) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read the response. An exchange that fails, or is cancelled, closes the connection.

        Args:
            request: Head and body.
            timeout_s: Seconds for the whole.

        Returns:
            Status, headers by their lower-case names, and the body, unpacked.

        Raises:
            TimeoutError: It took too long.
            SilenceError, BrokenError: No whole response came.
        """
        if self._transport is None or self._lost:
            raise self._lost or BrokenError("it is not open")
        loop = self._loop
        self._whole = loop.create_future()
        self._heard_at = loop.time()
        self._headers, self._parts, self._head_left = {}, [], MAX_HEAD
        timers = [loop.call_later(timeout_s, self._fail, TimeoutError())]
        if self._silence_s is not None:
            timers.append(loop.call_later(self._silence_s, self._listen, timers, self._silence_s))
        self._transport.write(request)
        try:
            await self._whole
            body = _unpacked(b"".join(self._parts), self._headers.get("content-encoding"))
        except BaseException:
            self.close()
            raise
        finally:
            self._whole = None
            for timer in timers:
                timer.cancel()
        self.idle_since = loop.time()
        if not self._kept_alive:
            self.close()
        return self._parser.get_status_code(), self._headers, body

    def close(self) -> None:
        """Drop the connection, at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of the response came."""
        if self._whole is None:
            self.close()  # nothing was asked
            return
        self._heard_at = self._loop.time()
        if not self._in_body:
            self._head_left -= len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(BrokenError(f"what came is no HTTP response ({error})"))
        if self._head_left < 0 and not self._in_body:
            self._fail(BrokenError(f"the response's head is longer than {MAX_HEAD:,} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended; so does a body that nothing else delimits."""
        self._lost = BrokenError(str(exc or "the server closed it"))
        if exc is None and self._in_body and not {"content-length", "transfer-encoding"} & self._headers.keys():
            self._answered()
        else:
            self._fail(self._lost)

    def on_header(self, name: bytes, value: bytes) -> None:
        """For the parser: one header; of several with one name, the values stand one after the other."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """For the parser: the head is whole."""
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """For the parser: some of the body."""
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """For the parser: a response is whole; one of 1xx only announces another."""
        self._in_body = False
        self._kept_alive = self._parser.should_keep_alive()  # only now does it know
        if self._parser.get_status_code() < 200:
            self._headers = {}
        else:
            self._answered()

    def _answered(self) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(error)

    def _listen(self, timers: list[Any], seconds: float) -> None:
        """Give up where nothing came, or look again later."""
        left = self._heard_at + seconds - self._loop.time()
        if left <= 0:
            self._fail(SilenceError())
        else:
            timers.append(self._loop.call_later(left, self._listen, timers, seconds))


def _unpacked(body: bytes, encoding: str | None) -> bytes:
    """A body as it was before it was compressed for the way, which nobody had asked for."""
    if encoding is None or encoding.lower() == "identity":
        return body
    if encoding.lower() not in {"gzip", "x-gzip", "deflate"}:
        raise BrokenError(f"the body is packed by {encoding!r}, which nobody asked for")
    unpacking = zlib.decompressobj(_ANY_ZLIB)
    try:
        unpacked = unpacking.decompress(body, MAX_UNPACKED)
    except zlib.error as error:
        raise BrokenError(f"the body cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise BrokenError("the packed body is not whole, or too large")
    return unpacked

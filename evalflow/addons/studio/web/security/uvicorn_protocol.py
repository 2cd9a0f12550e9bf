"""Protocols of uvicorn, which uvicorn does not document. Only this module uses undocumented parts of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent

HEADERS_TIMEOUT_S = 20.0
"""Seconds for the headers of a request, and for the rest of a body after the response was sent."""
LONGEST_HEADERS = 64 * 1024
"""Maximum number of bytes of a request's first line and headers, if they arrive in parts."""

READ_AT_ONCE = 8 * 1024
"""Bytes of a websocket that are parsed at a time; their messages are taken before more is parsed."""


def finished_requests() -> type[asyncio.Protocol]:
    """A protocol class for uvicorn, which otherwise waits forever for the rest of a request."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class FinishedRequests(H11Protocol):
        """Closes a connection whose request is not finished in time; `BoundedBodies` handles slow bodies."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Run the timer while the client must send something and no route is reading."""
            theirs, ours = self.conn.their_state, self.conn.our_state
            if theirs is not h11.IDLE and not (theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)):
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(HEADERS_TIMEOUT_S, self._give_up)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.close()

    return FinishedRequests


def unhurried_sockets() -> type[asyncio.Protocol]:
    """A protocol class for uvicorn, which otherwise parses all messages of 256 KB before the first one is taken."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
    from websockets.exceptions import InvalidState

    class UnhurriedSockets(WebSocketsSansIOProtocol):
        """Parses messages only as fast as they are taken; thousands at once would delay everybody's pages."""

        _unread = b""
        _left = READ_AT_ONCE  # to read after the server has closed it, up to the client's close frame

        def data_received(self, data: bytes) -> None:
            self._unread += data
            self._look()

        async def receive(self) -> ASGIReceiveEvent:
            message = await super().receive()
            self._look()
            return message

        def connection_lost(self, exc: Exception | None) -> None:
            self._look_once()  # the first 8 KB of what a page sent just before it was left
            self._unread = b""
            super().connection_lost(exc)

        def shutdown(self) -> None:
            with suppress(InvalidState):  # the client is closing it; without this, uvicorn would not end
                super().shutdown()
            self.transport.close()

        def _look(self) -> None:
            while self._unread and not self.read_paused:
                if self._left <= 0:
                    self._unread = b""
                    self.transport.close()
                self._look_once()

        def _look_once(self) -> None:
            data, self._unread = self._unread[:READ_AT_ONCE], self._unread[READ_AT_ONCE:]
            if self.close_sent:
                self._left -= len(data)
            if data:
                super().data_received(data)

    return UnhurriedSockets

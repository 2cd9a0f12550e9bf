"""HTTP whose requests must be finished: within bounds of size and time, however slowly a client sends.

uvicorn bounds neither: its quick parser takes headers of any size, and it waits for the rest of a request for ever.
"""

from __future__ import annotations

import asyncio

PATIENCE_S = 20.0
"""Seconds in which the headers of a request must be there, and what is left of a body when its answer was sent."""
LONGEST_HEADERS = 64 * 1024
"""Bytes of a request's first line and headers, as far as they have not come at once."""


def finished_requests() -> type[asyncio.Protocol]:
    """What uvicorn reads requests with."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class FinishedRequests(H11Protocol):
        """Closes a connection whose request is not finished in time; `BoundedBodies` sees to that of a body."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to wait for the first request."""
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            """Read on."""
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            """Go on with the next request, or wait for the rest of a body that nobody has read."""
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            """Let go of it."""
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Have the time run while the client is to send something that no route is waiting for."""
            theirs, ours = self.conn.their_state, self.conn.our_state
            if theirs is not h11.IDLE and not (theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)):
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(PATIENCE_S, self._give_up)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.close()

    return FinishedRequests

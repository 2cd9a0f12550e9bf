"""The guards that every request passes: host, origin, forgery, size and time of bodies and headers.

A guard is plain ASGI middleware, which refuses a request before any route sees it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from evalflow.web.api.problems import problem_response

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_JSON = 32 * 1024**2
"""Maximum number of bytes of a request to the API."""
LARGEST_UPLOAD = 64 * 1024**2
"""Maximum number of bytes of any other request, such as an uploaded file."""
GRACE_S = 20.0
"""Minimum time for every body, in seconds."""
SLOWEST = 16 * 1024
"""Minimum rate of a body after `GRACE_S`, in bytes per second."""
HEADERS_TIMEOUT_S = 20.0
"""Seconds for the headers of a request, and for the rest of a body after the response was sent."""
LONGEST_HEADERS = 64 * 1024
"""Maximum number of bytes of a request's first line and headers, if they arrive in parts."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
MARK = "x-requested-with"
"""The header that a change without a JSON body needs; its value does not matter."""


async def refuse(
    scope: Scope, receive: Receive, send: Send, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with a problem document; a websocket handshake is closed, which browsers see as 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": detail[:120]})
        return
    await problem_response(status, detail, headers=headers)(scope, receive, send)


class KnownHosts:
    """Refuses, with 421, a Host header that does not name this server (DNS rebinding)."""

    def __init__(self, app: ASGIApp, hosts: Set[str]) -> None:
        self.app = app
        self._hosts = {host.encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            found = [value.lower() for name, value in scope["headers"] if name == b"host"]
            if len(found) != 1 or found[0] not in self._hosts:
                names = ", ".join(sorted(host.decode() for host in self._hosts))
                await refuse(scope, receive, send, 421, f"this server answers to {names} only")
                return
        await self.app(scope, receive, send)


class SameOrigin:
    """Refuses, with 403, a request that a page of another origin started.

    Browsers state the origin in `Origin` (all but plain GET) and in `Sec-Fetch-Site`; scripts cannot change either.
    Other programs send neither header.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            from starlette.datastructures import Headers

            if reason := _foreign(scope, Headers(scope=scope)):
                await refuse(scope, receive, send, 403, reason)
                return
        await self.app(scope, receive, send)


class NoForgery:
    """Refuses, with 403, a change that a form of another page could have sent (CSRF).

    A form can send neither JSON nor custom headers. A script of another origin needs a CORS preflight for these, which
    this server never allows. This guard also holds if `Origin` is missing.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["method"] not in SAFE and scope["path"].startswith(self._prefix):
            from starlette.datastructures import Headers

            headers = Headers(scope=scope)
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and MARK not in headers:
                reason = "send Content-Type: application/json or, without JSON, the header X-Requested-With: evalflow"
                await refuse(scope, receive, send, 403, reason)
                return
        await self.app(scope, receive, send)


def _foreign(scope: Scope, headers: Headers) -> str | None:
    """Why the request is foreign; None if it is not."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is None and scope["type"] == "websocket":
        return "a websocket needs an Origin"
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return f"a page of {origin[:100]} may not use this server"
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin") or _is_link(scope, headers):
        return None
    return "another page may link to this server, and nothing else"


def _is_link(scope: Scope, headers: Headers) -> bool:
    """Whether a person followed a link to a whole page, not in a frame."""
    return (
        scope["type"] == "http"
        and scope["method"] in SAFE
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


class BoundedBodies:
    """Refuses a body that is too large (413) or arrives too slowly (408).

    If a route already reads the body, an HTTPException is raised from its `receive`. `largest`: bytes by path prefix;
    the first matching prefix counts.
    """

    def __init__(self, app: ASGIApp, largest: Mapping[str, int]) -> None:
        self.app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        bound = next(size for prefix, size in self._largest.items() if scope["path"].startswith(prefix))
        reason = f"at most {bound >> 20} MB may be sent here"
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if int(stated) > bound:  # uvicorn has already checked that this is a number
            await refuse(scope, receive, send, 413, reason)
            return
        await self.app(scope, _counting(receive, bound, reason), send)


def _counting(receive: Receive, bound: int, reason: str) -> Receive:
    taken, waited, is_whole = 0, 0.0, False

    async def counted() -> Message:
        nonlocal taken, waited, is_whole
        if is_whole:
            return await receive()  # the disconnect message, which may take any time
        since = time.monotonic()
        try:
            async with asyncio.timeout(GRACE_S + taken / SLOWEST - waited):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", {"Connection": "close"}) from None
        waited += time.monotonic() - since
        taken += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if taken > bound:
            raise HTTPException(413, reason)
        return message

    return counted


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

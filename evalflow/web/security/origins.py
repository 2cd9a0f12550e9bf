"""Only pages of this very origin: what another page starts in the same browser is refused.

Browsers say who started a request: `Origin` with everything that is no plain GET and with a websocket's handshake,
`Sec-Fetch-Site` with all of it. A script cannot change either. Programs that are no browser send neither, and what they
can do they could do without this server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.web.security.refusal import refuse

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Receive, Scope, Send

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
MARK = "x-requested-with"
"""The header that marks a change whose body is not JSON, or that has none; its value does not matter."""


class SameOrigin:
    """Refuses, with 403, what another origin started."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] in ("http", "websocket"):
            from starlette.datastructures import Headers

            if reason := _foreign(scope, Headers(scope=scope)):
                await refuse(scope, receive, send, 403, reason)
                return
        await self.app(scope, receive, send)


class NoForgery:
    """Refuses, with 403, a change that a form of another page could have sent without being asked for it.

    A form sends three content types and no header of its own; a script of another origin that sends more is asked
    about first (the preflight of CORS), which nothing here ever allows. It holds where Origin is absent, too.

    Args:
        app: What comes next.
        prefix: Paths that it guards.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
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
    """Why the request came from elsewhere, if it did."""
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
    """Whether a person followed a link: a page of its own, in no frame."""
    return (
        scope["type"] == "http"
        and scope["method"] in SAFE
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )

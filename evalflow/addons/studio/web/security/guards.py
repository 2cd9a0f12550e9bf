"""Guards of every route and page: no other web page or account may control or read this server.

- `KnownHosts`: the Host header must name this server, which stops DNS rebinding.
- `SameOrigin`: requests from other origins (by Origin and Sec-Fetch-Site) are refused, except links.
- `NoForgery`: changes need JSON or the header `X-Requested-With`, which no foreign form can send.
- `OutagesTold`: without its database the server says so.
- `BoundedBodies`: requests are bounded in size and time, their headers by `uvicorn_protocol`.
- `SecurityHeaders`: browsers do not show the pages in foreign frames, and run only the pages' own scripts.
- `token.KnownToken`: only requests with the server's token are answered.

A guard is plain ASGI middleware, which refuses a request before any route sees it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from evalflow.addons.studio.web.api.problems import RETRY, problem_response
from evalflow.errors import InfrastructureError

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
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
NOTES = "notes"
"""Where the state of a request keeps what is logged about it; see `observe`."""
MARK = "x-requested-with"
"""The header that a change without a JSON body needs; its value does not matter."""


def note_fields(scope: Scope, **notes: str) -> None:
    """Add to what is logged about a request."""
    scope.get("state", {}).get(NOTES, {}).update(notes)


def route_path(scope: Scope) -> str:
    """The path without the prefix of the project."""
    return scope["path"].removeprefix(scope.get("root_path", ""))


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
            host_headers = [value.lower() for name, value in scope["headers"] if name == b"host"]
            if len(host_headers) != 1 or host_headers[0] not in self._hosts:
                names = ", ".join(sorted(host.decode() for host in self._hosts))
                await refuse(scope, receive, send, 421, f"this server answers to {names} only")
                return
        await self.app(scope, receive, send)


class OutagesTold:
    """Answers 503 if another guard, or a route before its answer, finds that the database does not answer.

    Pages and API routes tell it themselves, with more detail.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        is_begun = False

        async def noted(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except InfrastructureError as error:
            if is_begun:
                raise
            await refuse(scope, receive, send, 503, str(error), RETRY)


class SameOrigin:
    """Refuses, with 403, a request that a page of another origin started.

    Browsers state the origin in `Origin` (all but plain GET) and in `Sec-Fetch-Site`; scripts cannot change either.
    Other programs send neither header.
    """

    def __init__(self, app: ASGIApp, scheme: str) -> None:
        self.app = app
        self._scheme = scheme

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            from starlette.datastructures import Headers

            if reason := _foreign(scope, Headers(scope=scope), self._scheme):
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
        if scope["type"] == "http" and scope["method"] not in SAFE and route_path(scope).startswith(self._prefix):
            from starlette.datastructures import Headers

            headers = Headers(scope=scope)
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and MARK not in headers:
                reason = "send Content-Type: application/json or, without JSON, the header X-Requested-With: evalflow"
                await refuse(scope, receive, send, 403, reason)
                return
        await self.app(scope, receive, send)


def _foreign(scope: Scope, headers: Headers, scheme: str) -> str | None:
    """Why the request is foreign; None if it is not."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is None and scope["type"] == "websocket":
        return "a websocket needs an Origin"
    if origin is not None and origin.lower() != f"{scheme}://{host.lower()}":
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
        bound = next(size for prefix, size in self._largest.items() if route_path(scope).startswith(prefix))
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


ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of a response that is not a page and sets no policy."""
_HIDDEN = "sha256-ZdHxw9eWtnxUb3mk6tBS+gIiVUPE3pGM470keHPDFlE="
"""The digest of `display: none`."""
PAGE = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'nonce-{nonce}'; "
    f"style-src-attr 'unsafe-hashes' '{_HIDDEN}'; font-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_MARK = b"x-nicegui-content"


class SecurityHeaders:
    """Adds the headers, and the nonce to the scripts and styles of pages.

    NiceGUI's pages contain inline scripts and styles. Each gets a nonce that changes with every response, so that
    injected markup cannot run. The policy is looser than it should be in two places:

    - `script-src 'unsafe-eval'`: Vue compiles templates in the browser, and NiceGUI evaluates handlers. Only scripts
      that already run may evaluate text.
    - `style-src-attr`: NiceGUI hides one element by a style attribute, which is allowed by its digest.

    `https_only`: browsers are told to use nothing else for a year. What is below `private` is stored nowhere on the
    way, nor in the browser.
    """

    def __init__(self, app: ASGIApp, *, https_only: bool = False, private: str = "") -> None:
        self.app = app
        self._private = private
        self._always = {**ALWAYS, "Strict-Transport-Security": "max-age=31536000"} if https_only else ALWAYS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        is_private = bool(self._private) and (path.startswith(self._private) or f"{self._private}/" in path)
        always = {**self._always, "Cache-Control": "no-store"} if is_private else self._always
        await self.app(scope, receive, _Response(send, always).send)


class _Response:
    """One response. A page is buffered until it is complete; everything else is passed on at once."""

    def __init__(self, send: Send, always: Mapping[str, str]) -> None:
        self._send = send
        self._always = always
        self._page: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if any(name.lower() == _MARK for name, _ in message["headers"]):
                self._page = message
            else:
                await self._send(_with_headers(message, self._always, _own_policy(message)))
        elif self._page is None:
            await self._send(message)
        else:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._send_page(self._page)

    async def _send_page(self, start: Message) -> None:
        nonce = secrets.token_urlsafe(18)
        # NiceGUI escapes the content of elements, so every <script> or <style> is from its template or ours.
        body = re.sub(rb"<(script|style)\b", rf'<\1 nonce="{nonce}"'.encode(), b"".join(self._parts))
        kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        start = {**start, "headers": [*kept, (b"content-length", str(len(body)).encode())]}
        await self._send(_with_headers(start, self._always, PAGE.format(nonce=nonce)))
        await self._send({"type": "http.response.body", "body": body})


def _own_policy(start: Message) -> str:
    """The policy that the route set, or the narrowest one."""
    own = (value for name, value in start["headers"] if name.lower() == b"content-security-policy")
    return next(own, NOTHING.encode()).decode()


def _with_headers(start: Message, always: Mapping[str, str], policy: str) -> Message:
    ours = {**always, "Content-Security-Policy": policy}
    names = {name.lower().encode() for name in ours}
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in names]
    return {**start, "headers": [*kept, *((name.lower().encode(), value.encode()) for name, value in ours.items())]}

"""Security headers of every response, and the content security policy of pages.

NiceGUI's pages contain inline scripts and styles. Each gets a nonce that changes with every response, so that injected
markup cannot run. The policy is looser than it should be in two places:

- `script-src 'unsafe-eval'`: Vue compiles templates in the browser, and NiceGUI evaluates handlers. Only scripts that
  already run may evaluate text.
- `style-src-attr`: NiceGUI hides one element by a style attribute, which is allowed by its digest.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
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
    """Adds the headers, and the nonce to the scripts and styles of pages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _Response(send).send)


class _Response:
    """One response. A page is buffered until it is complete; everything else is passed on at once."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._page: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if any(name.lower() == _MARK for name, _ in message["headers"]):
                self._page = message
            else:
                await self._send(_with_headers(message, _own_policy(message)))
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
        await self._send(_with_headers(start, PAGE.format(nonce=nonce)))
        await self._send({"type": "http.response.body", "body": body})


def _own_policy(start: Message) -> str:
    """The policy that the route set, or the narrowest one."""
    own = (value for name, value in start["headers"] if name.lower() == b"content-security-policy")
    return next(own, NOTHING.encode()).decode()


def _with_headers(start: Message, policy: str) -> Message:
    ours = {**ALWAYS, "Content-Security-Policy": policy}
    names = {name.lower().encode() for name in ours}
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in names]
    return {**start, "headers": [*kept, *((name.lower().encode(), value.encode()) for name, value in ours.items())]}

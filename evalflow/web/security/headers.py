"""What the browser is told about every answer, and the content policy of pages.

NiceGUI writes pages with scripts and styles in them; each of those gets a nonce that changes with every answer, so
nothing that found its way into a page can run. The policy is looser than it should be in two places:

- `script-src 'unsafe-eval'`: Vue compiles the components' templates in the browser, and NiceGUI evaluates handlers. No
  text becomes a script by it: only what already runs may evaluate.
- `style-src-attr`: NiceGUI's page hides one element by a style attribute; that very attribute is allowed by its digest.
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
"""The policy of what is no page and says none itself: were it shown as one, it could do nothing."""
_HIDDEN = "sha256-ZdHxw9eWtnxUb3mk6tBS+gIiVUPE3pGM470keHPDFlE="
"""The digest of `display: none`."""
PAGE = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'nonce-{nonce}'; "
    f"style-src-attr 'unsafe-hashes' '{_HIDDEN}'; font-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The policy of a page, but for its nonce."""
_MARK = b"x-nicegui-content"


class SecurityHeaders:
    """Adds the headers; a page's scripts get the nonce that its policy names."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; what is sent back goes through a fresh answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _Answer(send).send)


class _Answer:
    """One answer on its way out. A page is held until it is whole, everything else flows through."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._page: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Take in one message of ASGI."""
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
        # NiceGUI escapes what elements hold, so that what begins a script or a style is its template's or ours.
        body = re.sub(rb"<(script|style)\b", rf'<\1 nonce="{nonce}"'.encode(), b"".join(self._parts))
        kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        start = {**start, "headers": [*kept, (b"content-length", str(len(body)).encode())]}
        await self._send(_with_headers(start, PAGE.format(nonce=nonce)))
        await self._send({"type": "http.response.body", "body": body})


def _own_policy(start: Message) -> str:
    """The policy that a route gave its answer, always a narrow one."""
    own = (value for name, value in start["headers"] if name.lower() == b"content-security-policy")
    return next(own, NOTHING.encode()).decode()


def _with_headers(start: Message, policy: str) -> Message:
    ours = {**ALWAYS, "Content-Security-Policy": policy}
    names = {name.lower().encode() for name in ours}
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in names]
    return {**start, "headers": [*kept, *((name.lower().encode(), value.encode()) for name, value in ours.items())]}

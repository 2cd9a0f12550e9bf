"""Scripts, styles and fonts, kept in memory and compressed; the application's own are one file of each kind.

A browser needs all of them before it can show its first page.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import Route

from evalflow.addons.studio.web.security.guards import route_path

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ASSETS = Path(__file__).with_name("assets")
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}
_CONDITIONS = (b"range", b"if-none-match", b"if-modified-since")


def bundle(names: Sequence[str], kind: str) -> Route:
    """A route to several css or js files as one; its path changes with their content."""
    content = "\n".join((ASSETS / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}

    async def answer(_: Request) -> Response:
        return Response(content, headers=headers, media_type=_MEDIA_TYPES[kind])

    return Route(f"/assets/{blake2b(content.encode(), digest_size=8).hexdigest()}.{kind}", answer)


class KeptFiles:
    """Compresses what stands below the given paths once, and answers from memory from then on.

    For files that never change while the server runs. Guards stand before it.
    """

    def __init__(self, app: ASGIApp, paths: Sequence[str]) -> None:
        self.app = app
        self._compressed = GZipMiddleware(app)
        self._paths = tuple(paths)
        self._kept: dict[str, tuple[Message, Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or pass the request on."""
        if not self._is_plain(scope):
            await self.app(scope, receive, send)
            return
        path = route_path(scope)
        kept = self._kept.get(path)
        if kept is None:
            kept = await self._read(scope, receive)
            if kept[0]["status"] == 200:
                self._kept[path] = kept
        for message in kept:
            await send({**message})

    def _is_plain(self, scope: Scope) -> bool:
        """Whether the request is for a whole file, compressed."""
        if scope["type"] != "http" or scope["method"] != "GET" or not route_path(scope).startswith(self._paths):
            return False
        headers = dict(scope["headers"])
        return b"gzip" in headers.get(b"accept-encoding", b"") and not any(name in headers for name in _CONDITIONS)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[Message, Message]:
        messages: list[Message] = []

        async def note(message: Message) -> None:
            messages.append(message)

        await self._compressed(scope, receive, note)
        start, *parts = messages
        body = b"".join(part.get("body", b"") for part in parts)
        headers = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        start["headers"] = [*headers, (b"content-length", str(len(body)).encode())]
        return start, {"type": "http.response.body", "body": body}

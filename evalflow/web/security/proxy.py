"""The reverse proxy in front of a public server: the only peer that is answered, and what its headers say."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalflow.web.security.guards import refuse
from evalflow.web.security.token import OPEN_PATHS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX = b"x-forwarded-prefix"
"""NiceGUI would put it into addresses on pages."""


class BehindProxy:
    """Answers named proxies only, and takes the client's address from their `X-Forwarded-For`.

    Health checks are answered to every peer. Without proxies (TLS of our own) the peer is the client, and these headers
    have no meaning.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

        self.app = app
        self._networks = [ipaddress.ip_network(network) for network in proxies]
        self._forwarded = ProxyHeadersMiddleware(app, list(proxies))  # pyright: ignore[reportArgumentType] - ASGI alike

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != _PREFIX]
        scope = {**scope, "headers": headers}
        if not self._networks:
            await self.app(scope, receive, send)
        elif self._is_proxy(scope):
            await self._forwarded(scope, receive, send)  # pyright: ignore[reportArgumentType] - ASGI alike
        elif scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
        else:
            await refuse(scope, receive, send, 403, "this server answers its reverse proxy only")

    def _is_proxy(self, scope: Scope) -> bool:
        try:
            peer = ipaddress.ip_address((scope.get("client") or ("",))[0])
        except ValueError:
            return False
        return any(peer in network for network in self._networks)

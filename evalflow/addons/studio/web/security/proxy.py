"""The reverse proxy in front of a public server: the only peer that is answered, and what its headers say."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from evalflow.addons.studio.web.security.guards import refuse
from evalflow.addons.studio.web.security.token import OPEN_PATHS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX, _PROTO = b"x-forwarded-prefix", b"x-forwarded-proto"
"""NiceGUI would put the prefix into addresses on pages. A public server is reached by https, whatever a header says."""


_SECRET = b"x-evalflow-proxy-secret"


@dataclass(frozen=True, slots=True)
class UserHeader:
    """The header in which the proxy names who is signed in there; believed only with the shared secret."""

    name: str
    secret: str


class BehindProxy:
    """Answers named proxies only, and takes the client's address from their `X-Forwarded-For`.

    With a `user_header`, the account that they name is in `scope["state"]["proxy_user"]`; the header itself goes no
    further.

    Health checks are answered to every peer. Without proxies (TLS of our own) the peer is the client, and these headers
    have no meaning.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[str], user_header: UserHeader | None = None) -> None:
        from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

        self.app = app
        self._user_header = user_header
        self._networks = [ipaddress.ip_network(network) for network in proxies]
        self._forwarded: Any = ProxyHeadersMiddleware(cast("Any", self._expect_address), list(proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        user = self._user(scope["headers"])
        dropped = {_PREFIX, _PROTO, _SECRET, *self._user_names()}
        headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
        scheme = "https" if scope["type"] == "http" else "wss"
        state = {**scope.get("state", {}), "proxy_user": user}
        scope = {**scope, "scheme": scheme, "headers": headers, "state": state}
        if not self._networks:
            await self.app(scope, receive, send)
        elif self._is_proxy(scope):
            await self._forwarded(scope, receive, send)
        elif scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
        else:
            await refuse(scope, receive, send, 403, "this server answers its reverse proxy only")

    def _user_names(self) -> Sequence[bytes]:
        return [self._user_header.name.lower().encode()] if self._user_header else []

    def _user(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """The account that a proxy with the secret names; None without it, or if a header comes twice."""
        given = [value for name, value in headers if name == _SECRET]
        named = [value for name, value in headers if name in self._user_names()]
        if self._user_header is None or len(given) != 1 or len(named) != 1:
            return None
        is_known = secrets.compare_digest(given[0], self._user_header.secret.encode())
        return named[0].decode("latin-1").strip().lower() or None if is_known else None

    async def _expect_address(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a client address from the proxy that is not an address; sessions and the audit would show it."""
        if _peer(scope) is None:
            await refuse(scope, receive, send, 400, "X-Forwarded-For names no IP address")
            return
        await self.app(scope, receive, send)

    def _is_proxy(self, scope: Scope) -> bool:
        peer = _peer(scope)
        return peer is not None and any(peer in network for network in self._networks)


def _peer(scope: Scope) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address((scope.get("client") or ("",))[0])
    except ValueError:
        return None

"""Only names of this machine: no page can reach the server by a name of its own that resolves to 127.0.0.1."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from evalflow.web.security.refusal import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class KnownHosts:
    """Refuses, with 421, what was not asked of this very server.

    Args:
        app: What comes next.
        hosts: Values of the Host header, with the port.
    """

    def __init__(self, app: ASGIApp, hosts: Set[str]) -> None:
        self.app = app
        self._hosts = {host.encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] in ("http", "websocket"):
            found = [value.lower() for name, value in scope["headers"] if name == b"host"]
            if len(found) != 1 or found[0] not in self._hosts:
                names = ", ".join(sorted(host.decode() for host in self._hosts))
                await refuse(scope, receive, send, 421, f"this server answers to {names} only")
                return
        await self.app(scope, receive, send)

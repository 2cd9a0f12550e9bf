"""The answer to a request that is refused before any route sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.web.api.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send


async def refuse(
    scope: Scope, receive: Receive, send: Send, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with a problem document; a websocket's handshake is closed, which browsers see as 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": detail[:120]})
        return
    await problem_response(status, detail, headers=headers)(scope, receive, send)

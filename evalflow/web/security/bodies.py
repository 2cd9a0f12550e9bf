"""Bodies within bounds, those too whose length nobody stated; what is larger is not read to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from evalflow.web.security.refusal import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class TooLargeError(HTTPException):
    """Raised where a route reads on; routes know it as an answer with 413."""


class BoundedBodies:
    """Refuses, with 413, what brings more than it may.

    Args:
        app: What comes next.
        largest: Bytes by the prefix of a path; the first that fits counts.
    """

    def __init__(self, app: ASGIApp, largest: Mapping[str, int]) -> None:
        self.app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        bound = next(size for prefix, size in self._largest.items() if scope["path"].startswith(prefix))
        reason = f"at most {bound >> 20} MB may be sent here"
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if int(stated) > bound:  # the server has seen to it that it is a number
            await refuse(scope, receive, send, 413, reason)
            return
        await self.app(scope, _counting(receive, bound, reason), send)


def _counting(receive: Receive, bound: int, reason: str) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > bound:
            raise TooLargeError(413, reason)
        return message

    return counted

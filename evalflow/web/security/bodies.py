"""Bodies within bounds of size and time, those too whose length nobody stated; others are not read to their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from evalflow.web.security.refusal import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_JSON = 32 * 1024**2
"""Bytes of a request to the API."""
LARGEST_UPLOAD = 64 * 1024**2
"""Bytes of any other request, such as a file of cases."""
GRACE_S = 20.0
SLOWEST = 16 * 1024
"""Bytes a second that a body must bring, after `GRACE_S`."""


class BoundedBodies:
    """Refuses, with 413, what brings more than it may, and with 408 what brings it too slowly.

    Where a route reads on, that is raised as an HTTPException.

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
    taken, waited, is_whole = 0, 0.0, False

    async def counted() -> Message:
        nonlocal taken, waited, is_whole
        if is_whole:
            return await receive()  # that the client has gone, which may take as long as it likes
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

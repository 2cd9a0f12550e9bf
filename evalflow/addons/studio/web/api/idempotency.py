"""`Idempotency-Key`: a repeated POST gets the stored first response, and nothing is created twice.

Responses are stored in the database for 30 days, so they survive a restart. A request that was in progress when the
server was killed has no response yet and may be sent again. A name that already exists then gives a conflict; a run is
found by its key, which is stored with it. A response with a secret (`Cache-Control: no-store`) is not stored.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.exceptions import HTTPException

from evalflow.addons.studio.web.api.problems import problem_response
from evalflow.addons.studio.work.space import StoredResponse, answered, store_response
from evalflow.errors import InfrastructureError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

HEADER = b"idempotency-key"
LONGEST = 200
"""Maximum number of characters of a key."""
_LARGEST = 64 * 1024
"""Maximum number of bytes of a stored response; responses to creations are far smaller."""


class IdempotencyKeys:
    """Answers a POST with a known key with the first response; failed requests may be repeated."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._in_progress: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer from the stored response."""
        key = _key(scope)
        if key is None:
            await self.app(scope, receive, send)
            return
        if not 0 < len(key) <= LONGEST:
            await problem_response(400, f"an Idempotency-Key has 1 to {LONGEST} characters")(scope, receive, send)
            return
        try:
            body = await _body(receive)
        except HTTPException as error:  # the body is too large
            await problem_response(error.status_code, error.detail)(scope, receive, send)
            return
        if body is None:
            return
        workspace: Workspace = scope["state"]["workspace"]
        path = scope["path"].encode("utf-8", "surrogateescape")
        name = await to_thread.run_sync(workspace.personal_key, f"{path!r} {key!r}")
        if name in self._in_progress:
            await problem_response(409, "a request with this Idempotency-Key is under way")(scope, receive, send)
            return
        self._in_progress.add(name)
        try:
            await self._answer(
                workspace, name, _digest(scope["query_string"], body), scope, _replayed(body, receive), send
            )
        finally:
            self._in_progress.discard(name)

    async def _answer(
        self, workspace: Workspace, name: str, request: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        known = await to_thread.run_sync(answered, workspace, name)
        if known is None:
            await self._run_first(workspace, name, request, scope, receive, send)
        elif known.request != request:
            await problem_response(422, "this Idempotency-Key came with another request before")(scope, receive, send)
        else:
            headers = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in known.headers]
            await send({"type": "http.response.start", "status": known.status, "headers": headers})
            await send({"type": "http.response.body", "body": known.body})

    async def _run_first(
        self, workspace: Workspace, name: str, request: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        messages: list[Message] = []

        async def hold(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, hold)
        answer = _storable(messages, request)
        if answer is not None:
            with contextlib.suppress(InfrastructureError):  # what was asked for is done, and says so
                await to_thread.run_sync(store_response, workspace, name, answer)
        for message in messages:
            await send(message)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _key(scope: Scope) -> bytes | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    return next((value for name, value in scope["headers"] if name == HEADER), None)


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": waiting.pop()} if waiting else await receive()

    return replay


def _storable(messages: list[Message], request: str) -> StoredResponse | None:
    start = next((message for message in messages if message["type"] == "http.response.start"), None)
    if start is None or not 200 <= start["status"] < 300 or (b"cache-control", b"no-store") in start["headers"]:
        return None
    body = b"".join(message.get("body", b"") for message in messages)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
    return StoredResponse(request, start["status"], headers, body) if len(body) <= _LARGEST else None

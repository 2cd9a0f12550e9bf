"""`Idempotency-Key`: a creation that is sent again, since its answer was lost, is answered again and not done again.

Answers are kept in memory, so that a key holds until the server ends, or a thousand others came. A run's key is kept
with the run, too, and holds for good.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from evalflow.web.problem import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"idempotency-key"
LONGEST = 200
"""Characters of a key."""
KEPT = 1000
"""Answers that are remembered."""
_AT_MOST = 64 * 1024
"""Bytes of an answer that is remembered; what is created is answered in far less."""


@dataclass(slots=True)
class _Answer:
    """What was answered to a request; no messages while it is being worked on."""

    request: bytes
    messages: list[Message] = field(default_factory=list["Message"])
    finished: bool = False


class OnceByKey:
    """Answers a POST with a known key as it was answered the first time; what failed may be tried again.

    Args:
        app: What comes next. It has seen to it that bodies are bounded.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._answers: OrderedDict[tuple[str, bytes], _Answer] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer from memory."""
        key = _key(scope)
        if key is None:
            await self.app(scope, receive, send)
            return
        if not 0 < len(key) <= LONGEST:
            await problem_response(400, f"an Idempotency-Key has 1 to {LONGEST} characters")(scope, receive, send)
            return
        try:
            body = await _body(receive)
        except HTTPException as error:  # it is too large
            await problem_response(error.status_code, error.detail)(scope, receive, send)
            return
        if body is not None:
            await self._once((scope["path"], key), hashlib.sha256(body).digest(), scope, _again(body, receive), send)

    async def _once(self, name: tuple[str, bytes], request: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        known = self._answers.get(name)
        if known is None:
            await self._first(name, _Answer(request), scope, receive, send)
        elif known.request != request:
            await problem_response(422, "this Idempotency-Key came with another request before")(scope, receive, send)
        elif not known.finished:
            await problem_response(409, "a request with this Idempotency-Key is under way")(scope, receive, send)
        else:
            for message in known.messages:
                await send(message)

    async def _first(
        self, name: tuple[str, bytes], answer: _Answer, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._answers[name] = answer

        async def remember(message: Message) -> None:
            answer.messages.append(message)
            await send(message)

        try:
            await self.app(scope, receive, remember)
            answer.finished = _worth_keeping(answer.messages)
        finally:
            if not answer.finished:
                del self._answers[name]
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)


def _key(scope: Scope) -> bytes | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    return next((value for name, value in scope["headers"] if name == HEADER), None)


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where the client has gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, and then what else comes."""
    waiting = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": waiting.pop()} if waiting else await receive()

    return replay


def _worth_keeping(messages: list[Message]) -> bool:
    start = next((message for message in messages if message["type"] == "http.response.start"), None)
    if start is None or not 200 <= start["status"] < 300:
        return False
    return sum(len(message.get("body", b"")) for message in messages) <= _AT_MOST

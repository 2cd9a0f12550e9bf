"""Turns of people, so that nobody waits for all requests of one person, or for all events of their pages."""

from __future__ import annotations

import asyncio
import time
from asyncio import Semaphore
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from evalflow.addons.studio.web.api.problems import RETRY
from evalflow.addons.studio.web.security.guards import refuse, route_path
from evalflow.addons.studio.work.sessions import Identity

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

AT_ONCE = 2
"""Requests of one person that are answered at the same time."""
WAITING = 60
"""Requests of one person that may wait for their turn; more are refused."""
WAITING_EVENTS = 200
"""Events of one person's pages that may wait; more are dropped."""
RATE, BURST = 50.0, 200.0
"""Messages of one person's pages that are taken a second, in the long run and at first; later ones are read later."""
_WITHOUT = ("/assets/", "/_nicegui")
"""Paths of files, and of the connections of open pages."""
_SOCKET, _IN_A_REQUEST = "/_nicegui_ws/", 5.0
"""The path of these connections, and how many messages a request there counts for, which can hold several."""
_EVENTS = b"text/event-stream"


class FairTurns:
    """Lets requests of one person wait for each other. What waits holds no thread; sending a response takes no turn."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._people = WeakValueDictionary[str, _PersonalTurns]()
        self._paces: dict[str, MessagePace] = {}  # not forgotten with the last connection, as one may open another

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when it is its turn; 429 if too many wait already."""
        if scope["type"] != "lifespan" and route_path(scope).startswith(_SOCKET):
            pace = self._paces.setdefault(_name(scope), MessagePace())
            if scope["type"] == "http":
                await pace.wait(_IN_A_REQUEST)
            await self.app(scope, receive if scope["type"] == "http" else pace.paced(receive), send)
            return
        person = _person(scope)
        if person is None:
            await self.app(scope, receive, send)
            return
        turns = self._people.get(person) or self._people.setdefault(person, _PersonalTurns())
        if turns.waiting >= WAITING:
            await refuse_waiting(scope, receive, send)
            return
        turn = _RequestTurn(turns, send)
        await turn.begin()
        try:
            await self.app(scope, receive, turn.send)
        finally:
            turn.end()


class MessagePace:
    """How fast the messages of one person's pages are taken: what comes faster waits, unread, with its sender."""

    def __init__(self) -> None:
        self._due = 0.0

    async def wait(self, messages: float = 1.0) -> None:
        """Wait until so many more may be taken."""
        now = time.monotonic()
        self._due = max(self._due, now - BURST / RATE) + messages / RATE
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def paced(self, receive: Receive) -> Receive:
        """The messages of a websocket, at this pace."""

        async def received() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                await self.wait()
            return message

        return received


class KeyTurns:
    """Lets requests with one key wait for each other until it is known who sends them, which takes a thread."""

    def __init__(self) -> None:
        self._keys = WeakValueDictionary[str, _PersonalTurns]()

    @asynccontextmanager
    async def turn(self, key: str | None) -> AsyncGenerator[bool]:
        """Wait for a turn; False if too many wait already. Requests without a key need none."""
        if key is None:
            yield True
            return
        turns = self._keys.get(key) or self._keys.setdefault(key, _PersonalTurns())
        if turns.waiting >= WAITING:
            yield False
            return
        turns.waiting += 1
        try:
            await turns.free.acquire()
        finally:
            turns.waiting -= 1
        try:
            yield True
        finally:
            turns.free.release()


class EventTurns:
    """Lets events of one person's pages wait for each other, and the event loop do other work between them."""

    def __init__(self) -> None:
        self._people = WeakValueDictionary[str, _PersonalTurns]()

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncGenerator[bool]:
        """Wait for a turn; False if too many wait already. Whoever used the loop lets it to others for as long."""
        turns = self._people.get(person) or self._people.setdefault(person, _PersonalTurns(1))
        if turns.waiting >= WAITING_EVENTS:
            yield False
            return
        turns.waiting += 1
        try:
            await turns.free.acquire()
        finally:
            turns.waiting -= 1
        began = time.monotonic()
        try:
            yield True
            await asyncio.sleep(0)  # the first steps of what it has started
            await asyncio.sleep(time.monotonic() - began)
        finally:
            turns.free.release()


async def refuse_waiting(scope: Scope, receive: Receive, send: Send) -> None:
    """429: too many wait already."""
    await refuse(scope, receive, send, 429, f"{WAITING} of your requests wait already: send fewer", RETRY)


def _person(scope: Scope) -> str | None:
    """Who sends a request that takes a turn; None for files, websockets and strangers."""
    if scope["type"] != "http" or route_path(scope).startswith(_WITHOUT):
        return None
    return _name(scope) or None


def _name(scope: Scope) -> str:
    """The name of the person who sends a request; empty for strangers."""
    workspace: Workspace = scope["state"]["workspace"]
    identity = workspace.identify
    actor = identity.first if isinstance(identity, Identity) else None  # which asks no database
    return actor.name if actor else ""


class _PersonalTurns:
    """The turns of one person, and how many of their requests wait for one."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.free = Semaphore(at_once)
        self.waiting = 0


class _RequestTurn:
    """The turn of one request."""

    def __init__(self, turns: _PersonalTurns, send: Send) -> None:
        self._turns, self._send = turns, send
        self._is_held = self._is_over = False

    async def begin(self) -> None:
        self._turns.waiting += 1
        try:
            await self._turns.free.acquire()
        finally:
            self._turns.waiting -= 1
        self._is_held = True

    def end(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.free.release()

    async def send(self, message: Message) -> None:
        """Pass a message on, without the turn: whoever reads slowly keeps none."""
        self.end()
        await self._send(message)
        is_start = message["type"] == "http.response.start"
        self._is_over |= is_start and _is_endless(message)
        if message.get("more_body", is_start) and not self._is_over:
            await self.begin()


def _is_endless(start: Message) -> bool:
    """Whether events follow, for as long as the reader likes, which take no time between them."""
    return any(name.lower() == b"content-type" and value.startswith(_EVENTS) for name, value in start["headers"])

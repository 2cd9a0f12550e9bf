"""Turns of people, so that nobody waits for all requests of somebody else, or for all events of their pages."""

from __future__ import annotations

import asyncio
import math
import time
from asyncio import Event, Semaphore
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from evalflow.addons.studio.web.api.problems import RETRY
from evalflow.addons.studio.web.security.guards import refuse, route_path
from evalflow.addons.studio.work.sessions import Identity

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

AT_ONCE = 2
"""REST requests of one person that are answered at the same time. Pages are built one at a time."""
WAITING = 60
"""REST requests of one person that may wait for a turn, and the same number of pages. More are refused."""
PAGE_RATE, PAGE_BURST = 0.5, 6.0
REQUEST_RATE, REQUEST_BURST = 2.0, 40.0
"""Pages and REST requests of one person: how many a second in the long run, and how many at first. Those beyond wait
until no other page is being built."""
LONGEST_GAP_S = 3.0
"""Maximum seconds of that wait; without a maximum, a busy server would never answer them."""
WAITING_EVENTS = 200
"""Events of one person's pages that may wait; more are dropped."""
LONGEST_EVENT_S = 1.0
"""An event may start work that takes long, or that waits for the person; the next event waits this many seconds at
most."""
RATE, BURST = 50.0, 200.0
"""Messages a second that are read from one session's pages, in the long run and at first. The rest are read later."""
LONGEST_WAIT_S = 5.0
"""Maximum seconds that a request with messages waits; one that would wait longer is refused."""
_API, _FILES = "/api/", ("/assets/", "/_nicegui/")
"""Paths of the REST API, and of files. A page requests all its files at once, so files take no turn."""
_SOCKET, _IN_A_REQUEST = "/_nicegui_ws/", 5.0
"""The path of open pages' connections. A new connection counts as this number of messages, and so does a request there,
which can contain several."""
_EVENTS = b"text/event-stream"


class FairTurns:
    """Makes requests of one person take turns. A waiting request holds no thread; sending a response takes no turn."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._people = WeakValueDictionary[str, _YieldingTurns]()
        self._pages = WeakValueDictionary[str, _PageTurns]()
        self._building = _PagesBuilt()
        self._page_pace, self._request_pace = KeyPace(PAGE_RATE, PAGE_BURST), KeyPace(REQUEST_RATE, REQUEST_BURST)
        self.pace = KeyPace(RATE, BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when it is its turn; 429 if too many wait already."""
        if scope["type"] != "lifespan" and route_path(scope).startswith(_SOCKET):
            key = _key(scope)
            if scope["type"] == "websocket":
                await self.pace.wait(key, _IN_A_REQUEST)
                await self.app(scope, self.pace.paced(key, receive), send)
            elif self.pace.delay(key, _IN_A_REQUEST) > LONGEST_WAIT_S:
                await refuse(scope, receive, send, 429, "your pages send too fast: send less", RETRY)
            else:
                await self.pace.wait(key, _IN_A_REQUEST)
                await self.app(scope, receive, send)
            return
        person = _person(scope)
        if person is None:
            await self.app(scope, receive, send)
            return
        if route_path(scope).startswith(_API):
            turns = self._people.setdefault(person, _YieldingTurns(person, self._request_pace, self._building, AT_ONCE))
        else:
            turns = self._pages.setdefault(person, _PageTurns(person, self._page_pace, self._building, 1))
        if turns.waiting >= WAITING:
            await refuse_waiting(scope, receive, send)
            return
        turn = _RequestTurn(turns, send)
        await turn.begin()
        try:
            await self.app(scope, receive, turn.send)
        finally:
            turn.end()


class KeyPace:
    """Limits the rate of each person's requests, or of each session's messages.

    Messages of a page that come faster stay unread at their sender.

    Args:
        rate: How many a second in the long run.
        burst: How many at first.

    Attributes:
        due: When the last one that was asked for is taken, by person or session. Entries older than `burst / rate`
            seconds are dropped, since their owner may then ask for as much as a new one.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst_s = rate, burst / rate
        self.due: dict[str, float] = {}

    def delay(self, key: str, number: float = 1.0) -> float:
        """The seconds that `number` more would have to wait."""
        return self._next(key, number) - time.monotonic()

    async def wait(self, key: str, number: float = 1.0) -> None:
        """Wait until `number` more may be taken. If the sender leaves during the wait, they do not count."""
        now = time.monotonic()
        if key not in self.due:
            self.due = {one: due for one, due in self.due.items() if due > now - self._burst_s}
        due = self.due[key] = self._next(key, number)
        if due <= now:
            return
        try:
            await asyncio.sleep(due - now)
        except asyncio.CancelledError:
            if key in self.due:
                self.due[key] -= number / self._rate
            raise

    def paced(self, key: str, receive: Receive) -> Receive:
        """The messages of a websocket, at this pace."""

        async def received() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                await self.wait(key)
            return message

        return received

    def _next(self, key: str, number: float) -> float:
        return max(self.due.get(key, -math.inf), time.monotonic() - self._burst_s) + number / self._rate


class KeyTurns:
    """Makes requests with one key take turns until their sender is known; finding the sender takes a thread."""

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
        await turns.take()
        try:
            yield True
        finally:
            turns.release()


class EventTurns:
    """Makes events of one person's pages take turns, and lets the event loop do other work between them."""

    def __init__(self) -> None:
        self._people = WeakValueDictionary[str, _PersonalTurns]()

    @asynccontextmanager
    async def turn(self, person: str, begun: Set[asyncio.Task[Any]] = frozenset()) -> AsyncGenerator[bool]:
        """Wait for a turn; False if too many wait already. After a turn, the loop is free for others for as long.

        The block adds to `begun` the tasks that the event started; the next turn waits for them too.
        """
        turns = self._people.get(person) or self._people.setdefault(person, _PersonalTurns(1))
        if turns.waiting >= WAITING_EVENTS:
            yield False
            return
        await turns.take()
        began = time.monotonic()
        try:
            yield True
            await asyncio.sleep(0)  # the first steps of what it has started
            used_s = time.monotonic() - began
            if begun:
                await asyncio.wait(begun, timeout=LONGEST_EVENT_S)
            await asyncio.sleep(used_s)
        finally:
            turns.release()


async def refuse_waiting(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request with 429, since too many wait already."""
    await refuse(scope, receive, send, 429, f"{WAITING} of your requests wait already: send fewer", RETRY)


def is_file(scope: Scope) -> bool:
    """Whether a request is for a file, which takes no turn."""
    return route_path(scope).startswith(_FILES)


def _person(scope: Scope) -> str | None:
    """Who sends a request that takes a turn; None for files, websockets and strangers."""
    if scope["type"] != "http" or is_file(scope):
        return None
    identity = _identity(scope)
    return identity.first.queue if identity and identity.first else None  # without a query


def _key(scope: Scope) -> str:
    """The session or token of a request; empty for strangers."""
    identity = _identity(scope)
    return f"{identity.kind} {identity.key}" if identity else ""


def _identity(scope: Scope) -> Identity | None:
    workspace: Workspace = scope["state"]["workspace"]
    return workspace.identify if isinstance(workspace.identify, Identity) else None


class _PersonalTurns:
    """The turns of one person, and how many of their requests wait for one."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = Semaphore(at_once)
        self.waiting = 0

    async def begin(self) -> None:
        """Take the first turn of a request; `take` takes those after parts of its response."""
        await self.take()

    async def take(self) -> None:
        """Wait until one is free, and take it."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    def release(self) -> None:
        """End a turn."""
        self._free.release()


class _PagesBuilt:
    """Counts the pages that the event loop is building, of all people."""

    def __init__(self) -> None:
        self._number = 0
        self._is_none = Event()

    async def wait(self) -> None:
        """Wait until no page is being built, at most LONGEST_GAP_S seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_GAP_S):
                while self._number:
                    await self._is_none.wait()

    def begin(self) -> None:
        """Count a page that is being built."""
        self._number += 1
        self._is_none.clear()

    def end(self) -> None:
        """Stop counting a page that was being built."""
        self._number -= 1
        if not self._number:
            self._is_none.set()


class _YieldingTurns(_PersonalTurns):
    """The turns of one person. After too many requests, the pages of others go first."""

    def __init__(self, person: str, pace: KeyPace, building: _PagesBuilt, at_once: int) -> None:
        super().__init__(at_once)
        self._person, self._pace, self._building = person, pace, building

    async def begin(self) -> None:
        await _PersonalTurns.take(self)
        try:
            if self._pace.delay(self._person) <= 0:
                await self._pace.wait(self._person)  # which counts the request
            else:
                await self._building.wait()
        except asyncio.CancelledError:
            _PersonalTurns.release(self)
            raise


class _PageTurns(_YieldingTurns):
    """The turns of one person's pages."""

    async def begin(self) -> None:
        await super().begin()
        self._building.begin()

    async def take(self) -> None:
        await super().take()
        self._building.begin()

    def release(self) -> None:
        self._building.end()
        super().release()


class _RequestTurn:
    """The turn of one request."""

    def __init__(self, turns: _PersonalTurns, send: Send) -> None:
        self._turns, self._send = turns, send
        self._is_held = self._is_over = False

    async def begin(self) -> None:
        await self._turns.begin()
        self._is_held = True

    def end(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.release()

    async def send(self, message: Message) -> None:
        """Pass a message on without holding the turn, so that a slow reader does not keep it."""
        self.end()
        await self._send(message)
        is_start = message["type"] == "http.response.start"
        self._is_over |= is_start and _is_endless(message)
        if message.get("more_body", is_start) and not self._is_over:
            await self._turns.take()
            self._is_held = True


def _is_endless(start: Message) -> bool:
    """Whether a stream of events follows. It lasts as long as the reader likes, and needs no turn between events."""
    return any(name.lower() == b"content-type" and value.startswith(_EVENTS) for name, value in start["headers"])

"""Turns of people: how many requests and events of one person are under way, and how fast their messages are read.

The `scheduler` decides whose work is done next.
"""

from __future__ import annotations

import asyncio
import math
import time
from asyncio import Semaphore
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from evalflow.addons.studio.web.api.problems import RETRY
from evalflow.addons.studio.web.security.guards import SAFE, refuse, route_path
from evalflow.addons.studio.web.security.scheduler import SCHEDULER, SLOTS_EACH, Scheduler, Slot
from evalflow.addons.studio.work.sessions import Identity

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

AT_ONCE = SLOTS_EACH
"""REST requests of one person that are answered at the same time. Pages are built one at a time."""
WAITING = 60
"""REST requests of one person that may wait for a turn, and the same number of pages. More are refused."""
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
        self._programs = WeakValueDictionary[str, _PersonalTurns]()
        self._pages = WeakValueDictionary[str, _PersonalTurns]()
        self._scheduler = Scheduler()
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
            turns = self._programs.setdefault(person, _PersonalTurns(AT_ONCE))
        else:
            turns = self._pages.setdefault(person, _PersonalTurns(1))
        if turns.waiting >= WAITING:
            await refuse_waiting(scope, receive, send)
            return
        scope["state"][SCHEDULER] = self._scheduler  # also for the events of a page
        turn = _RequestTurn(turns, self._scheduler, person, receive, send)
        await turn.begin()
        try:
            await self.app(scope, receive if scope["method"] in SAFE else turn.receive, turn.send)
        finally:
            turn.end()


class KeyPace:
    """Limits the rate of each session's messages.

    Messages of a page that come faster stay unread at their sender.

    Args:
        rate: How many a second in the long run.
        burst: How many at first.

    Attributes:
        due: When the last one that was asked for is taken, by session. Entries older than `burst / rate`
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
    """Makes events of one person's pages take turns."""

    def __init__(self) -> None:
        self._people = WeakValueDictionary[str, _PersonalTurns]()

    @asynccontextmanager
    async def turn(
        self, person: str, scheduler: Scheduler, begun: Set[asyncio.Task[Any]] = frozenset()
    ) -> AsyncGenerator[bool]:
        """Wait for a turn and a slot; False if too many wait already.

        The block adds to `begun` the tasks that the event started; slot and turn last until they are done, or for their
        maximum.
        """
        turns = self._people.get(person) or self._people.setdefault(person, _PersonalTurns(1))
        if turns.waiting >= WAITING_EVENTS:
            yield False
            return
        await turns.take()
        try:
            async with scheduler.slot(person):
                yield True
                await asyncio.sleep(0)  # the first steps of what it has started
                if begun:
                    await asyncio.wait(begun, timeout=LONGEST_EVENT_S)
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


class _RequestTurn:
    """The turn of one request, and its slot."""

    def __init__(self, turns: _PersonalTurns, scheduler: Scheduler, person: str, receive: Receive, send: Send) -> None:
        self._turns, self._scheduler, self._person = turns, scheduler, person
        self._receive, self._send = receive, send
        self._slot: Slot | None = None
        self._is_held = self._is_over = self._is_received = False

    async def begin(self) -> None:
        await self._turns.take()
        self._is_held = True
        try:
            await self._take_slot()
        except asyncio.CancelledError:
            self.end()
            raise

    def end(self) -> None:
        self._give_up_slot()
        if self._is_held:
            self._is_held = False
            self._turns.release()

    async def receive(self) -> Message:
        """Wait for a message without holding the slot, so that a slow sender does not keep it."""
        if self._is_received or not self._is_held:
            return await self._receive()
        self._give_up_slot()
        message = await self._receive()
        self._is_received = not message.get("more_body", False)
        if self._is_received and self._is_held:
            await self._take_slot()
        return message

    async def send(self, message: Message) -> None:
        """Pass a message on without holding turn and slot, so that a slow reader does not keep them."""
        self.end()
        await self._send(message)
        is_start = message["type"] == "http.response.start"
        self._is_over |= is_start and _needs_no_more(message)
        if message.get("more_body", is_start) and not self._is_over:
            await self.begin()

    async def _take_slot(self) -> None:
        slot = await self._scheduler.acquire(self._person)
        if self._is_held and self._slot is None:
            self._slot = slot
        else:  # the turn has ended meanwhile, or a message that is sent has got a slot
            slot.release()

    def _give_up_slot(self) -> None:
        if self._slot is not None:
            self._slot.release()
            self._slot = None


def _needs_no_more(start: Message) -> bool:
    """Whether a body follows that is made already, since its length is known, or a stream of events.

    A stream lasts as long as the reader likes.
    """
    headers = {name.lower(): value for name, value in start["headers"]}
    return b"content-length" in headers or headers.get(b"content-type", b"").startswith(_EVENTS)

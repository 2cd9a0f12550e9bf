"""Slots for the work of people: who has used the server least goes first.

A page, a REST request, an event of a page and what a page reads later each need a slot. The order is that of start-time
fair queueing (Goyal, Vin and Cheng, 1996): each person has an account of the seconds that their work has held a slot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count

SCHEDULER = "scheduler"
"""Where the state of a request of somebody with an account keeps the scheduler."""
SLOTS = 6
"""Pieces of work under way at once, of all people: one thread computes most of it, and others wait for the database."""
LONGEST_SLOT_S = 0.25
"""Seconds after which work gives its slot up and continues without: it may wait for a judge, for a person, or for a
long computation, of which `work.trials` bounds the number. Slots must not become what a server waits for whose database
is slow: there are at least `SLOTS / LONGEST_SLOT_S` a second, more than the pages that one process can build."""
MOST_ACCOUNTS = 1000
"""Number of accounts from which those of people who may begin anew are dropped."""


@dataclass(slots=True)
class _Account:
    """What a person has used.

    Attributes:
        due: Virtual time at which their next work begins: the seconds that somebody has had who always waits.
        is_running: Whether they hold a slot. Each person holds one at a time.
    """

    due: float = 0.0
    is_running: bool = False


@dataclass(slots=True)
class Slot:
    """A slot that is held; `release` it, any number of times."""

    scheduler: Scheduler
    account: _Account
    began: float
    is_held: bool = True
    _late: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._late = asyncio.get_running_loop().call_later(LONGEST_SLOT_S, self.release)

    def release(self) -> None:
        """Give the slot up."""
        if self.is_held:
            self.is_held = False
            assert self._late
            self._late.cancel()
            self.scheduler.released(self)


_CURRENT = ContextVar["Slot | None"]("_CURRENT", default=None)


@dataclass(slots=True)
class _Waiting:
    account: _Account
    number: int
    granted: asyncio.Future[Slot]


class Scheduler:
    """Gives slots to people. It belongs to one event loop."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._held: list[Slot] = []
        self._waiting: list[_Waiting] = []
        self._accounts: dict[str, _Account] = {}
        self._virtual = 0.0
        self._numbers = count()

    async def acquire(self, person: str) -> Slot:
        """Wait for a slot."""
        account = self._accounts.get(person)
        if account is None:
            self._drop_old()
            account = self._accounts[person] = _Account()
        if not account.is_running and all(one.account is not account for one in self._waiting):
            account.due = max(account.due, self._virtual)
        waiting = _Waiting(account, next(self._numbers), asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._grant()
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif not waiting.granted.cancelled():
                waiting.granted.result().release()
            raise

    @asynccontextmanager
    async def slot(self, person: str) -> AsyncGenerator[None]:
        """Hold a slot during the block, at most LONGEST_SLOT_S. Work that other work has begun uses that one's slot."""
        if (outer := _CURRENT.get()) is not None and outer.is_held:
            yield
            return
        slot = await self.acquire(person)
        token = _CURRENT.set(slot)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            slot.release()

    def released(self, slot: Slot) -> None:
        """Count what a slot was held for, and give it to the next."""
        self._held.remove(slot)
        account = slot.account
        account.is_running = False
        account.due += time.monotonic() - slot.began
        if not self._held and not self._waiting:
            self._virtual = max(self._virtual, account.due)
        self._grant()

    def _grant(self) -> None:
        while len(self._held) < self._slots and (first := self._first()) is not None:
            self._waiting.remove(first)
            if first.granted.cancelled():
                continue
            first.account.is_running = True
            self._virtual = max(self._virtual, first.account.due)
            slot = Slot(self, first.account, time.monotonic())
            self._held.append(slot)
            first.granted.set_result(slot)

    def _first(self) -> _Waiting | None:
        free = (one for one in self._waiting if not one.account.is_running)
        return min(free, key=lambda one: (one.account.due, one.number), default=None)

    def _drop_old(self) -> None:
        if len(self._accounts) < MOST_ACCOUNTS:
            return
        busy = {id(one.account) for one in (*self._waiting, *self._held)}
        self._accounts = {
            person: account
            for person, account in self._accounts.items()
            if id(account) in busy or account.due > self._virtual
        }

"""Slots for the work of people: who has used the server least goes first.

A page, a REST request, an event of a page and what a page reads later each need a slot. The order is that of start-time
fair queueing (Goyal, Vin and Cheng, 1996): each person has an account of the seconds that their work has taken, from
getting a slot to its end.
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
SLOTS_EACH = 2
"""Slots of one person at once; the second is given only while nobody waits who has none."""
LONGEST_SLOT_S = 0.25
"""Seconds after which work gives its slot up and continues without: it may wait for a judge, or for a long computation,
of which `work.trials` bounds the number. Slots must not become what a server waits for whose database is slow: there
are at least `SLOTS / LONGEST_SLOT_S` a second, more than the pages that one process can build.

The time after that is counted too, until the owner releases the slot: a request when its response begins, or while its
body arrives; an event of a page when it has been waited for."""
MOST_ACCOUNTS = 1000
"""Number of accounts from which those of people who may begin anew are dropped."""


@dataclass(slots=True)
class _Account:
    """What a person has used.

    Attributes:
        due: Virtual time at which their next work begins: the seconds that somebody has had who always waits.
        held: Number of slots that they hold.
        working: Number of pieces of work that have had a slot and have not ended.
    """

    due: float = 0.0
    held: int = 0
    working: int = 0


@dataclass(slots=True)
class Slot:
    """A slot of a piece of work; `release` it when the work ends, any number of times.

    Attributes:
        counted: Until when the work is counted, by the monotonic clock.
        is_held: False once the slot is given up, which may be before the work ends.
        is_over: Whether the work has ended.
    """

    scheduler: Scheduler
    account: _Account
    counted: float
    is_held: bool = True
    is_over: bool = False
    _late: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._late = asyncio.get_running_loop().call_later(LONGEST_SLOT_S, self.scheduler.give_up, self)

    def release(self) -> None:
        """End the work, and give the slot up if it is still held."""
        if not self.is_over:
            assert self._late
            self._late.cancel()
            self.scheduler.end(self)


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
        if not account.held:
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
        """Hold a slot during the block, at most LONGEST_SLOT_S.

        Work that other work has begun uses that one's slot. If that has been given up, it needs its own, and is counted
        in the place of the other.
        """
        if (outer := _CURRENT.get()) is not None and outer.is_held:
            yield
            return
        if outer is not None:
            outer.release()
        slot = await self.acquire(person)
        token = _CURRENT.set(slot)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            slot.release()

    def give_up(self, slot: Slot) -> None:
        """Count what the work has taken so far, and give its slot to the next."""
        account, now = slot.account, time.monotonic()
        account.due += now - slot.counted
        slot.counted = now
        if slot.is_held:
            slot.is_held = False
            self._held.remove(slot)
            account.held -= 1
        if not self._held and not self._waiting:
            self._virtual = max(self._virtual, account.due)
        self._grant()

    def end(self, slot: Slot) -> None:
        """End a piece of work, and give up its slot if it is still held."""
        slot.is_over = True
        slot.account.working -= 1
        self.give_up(slot)

    def _grant(self) -> None:
        while len(self._held) < self._slots and (first := self._first()) is not None:
            self._waiting.remove(first)
            if first.granted.cancelled():
                continue
            first.account.held += 1
            first.account.working += 1
            self._virtual = max(self._virtual, first.account.due)
            slot = Slot(self, first.account, time.monotonic())
            self._held.append(slot)
            first.granted.set_result(slot)

    def _first(self) -> _Waiting | None:
        allowed = (one for one in self._waiting if one.account.held < SLOTS_EACH)
        return min(allowed, key=lambda one: (one.account.held, one.account.due, one.number), default=None)

    def _drop_old(self) -> None:
        if len(self._accounts) < MOST_ACCOUNTS:
            return
        waiting = {id(one.account) for one in self._waiting}
        self._accounts = {
            person: account
            for person, account in self._accounts.items()
            if account.working or id(account) in waiting or account.due > self._virtual
        }

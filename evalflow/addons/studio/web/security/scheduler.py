"""Slots for the work of people: who has used the server least goes first.

A page, a REST request, an event of a page and what a page reads later each need a slot. The order is that of start-time
fair queueing (Goyal, Vin and Cheng, 1996): each person has an account of the seconds that their work has taken, from
getting a slot to its end, at most `LONGEST_WORK_S` for each piece of work.

While a slot is free nobody queues, so somebody who always works would share the one event loop with all others. Anyone
who has lately used much more than somebody who is at work therefore waits until that work has ended, or is no longer
counted.
"""

from __future__ import annotations

import asyncio
import math
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

The time after that is counted too, up to `LONGEST_WORK_S`, until the owner releases the slot: a request when its
response begins, or while its body arrives; an event of a page when it has been waited for."""
LONGEST_WORK_S = 1.0
"""Seconds after which work is not counted any longer, and nobody waits for it: it may wait for a judge for minutes."""
LATELY_S = 5.0
"""Seconds in which what somebody has lately used falls to 1/e, if they use nothing more."""
TIMES_MORE, MORE_S = 2.0, 1.0
"""Somebody has used much more than another if they have lately used more than `TIMES_MORE` times the other's seconds
plus `MORE_S`. Anyone who has lately used U seconds waits for others at most `LATELY_S * ln(U / MORE_S)` seconds after
none of their work is counted. While new people always work, somebody who always asks still gets at least
`MORE_S / LATELY_S` of the time, if slots are free."""
MOST_ACCOUNTS = 1000
"""Number of accounts from which those of people who may begin anew are dropped."""


@dataclass(slots=True, eq=False)
class _Account:
    """What a person has used.

    Attributes:
        due: Virtual time at which their next work begins: the seconds that somebody has had who always waits.
        held: Number of slots that they hold.
        working: Number of pieces of work that are counted now.
        used: Seconds that their work has lately taken, as of `noted`.
        noted: When `used` or `working` was last changed, by the monotonic clock.
    """

    due: float = 0.0
    held: int = 0
    working: int = 0
    used: float = 0.0
    noted: float = 0.0

    def lately(self, now: float) -> float:
        """The seconds that their work has lately taken, with what is counted now."""
        kept = math.exp((self.noted - now) / LATELY_S)
        return self.used * kept + self.working * LATELY_S * (1 - kept)

    def work(self, change: int, now: float) -> None:
        """Note that the counting of a piece of work begins (1) or ends (-1)."""
        self.used, self.noted = self.lately(now), now
        self.working += change


@dataclass(slots=True, eq=False)
class Slot:
    """A slot of a piece of work; `release` it when the work ends, any number of times.

    Attributes:
        counted: Until when `due` of the account has the work, by the monotonic clock.
        is_held: False once the slot is given up, which may be before the work ends.
    """

    scheduler: Scheduler
    account: _Account
    counted: float
    is_held: bool = True
    _late: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._late = asyncio.get_running_loop().call_later(LONGEST_SLOT_S, self._continue)

    def _continue(self) -> None:
        """Continue without the slot; the work of others waits for it somewhat longer."""
        self.scheduler.give_up(self)
        rest_s = LONGEST_WORK_S - LONGEST_SLOT_S
        self._late = asyncio.get_running_loop().call_later(rest_s, self.scheduler.stop_counting, self)

    def release(self) -> None:
        """End the work, and give the slot up if it is still held."""
        assert self._late
        self._late.cancel()
        self.scheduler.stop_counting(self)
        self.scheduler.give_up(self)


_CURRENT = ContextVar["Slot | None"]("_CURRENT", default=None)


@dataclass(slots=True, eq=False)
class _Waiting:
    account: _Account
    number: int
    granted: asyncio.Future[Slot]


class Scheduler:
    """Gives slots to people. It belongs to one event loop."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._held: list[Slot] = []
        self._at_work: list[Slot] = []
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
        self._count(slot)
        if slot.is_held:
            slot.is_held = False
            self._held.remove(slot)
            slot.account.held -= 1
        if not self._held and not self._waiting:
            self._virtual = max(self._virtual, slot.account.due)
        self._grant()

    def stop_counting(self, slot: Slot) -> None:
        """Count the work no longer, and let those who have used more work at the same time."""
        if slot in self._at_work:
            self._count(slot)
            self._at_work.remove(slot)
            slot.account.work(-1, slot.counted)
            self._grant()

    def _count(self, slot: Slot) -> None:
        """Add to the account what the work has taken since that was done last."""
        if slot in self._at_work:
            now = time.monotonic()
            slot.account.due += now - slot.counted
            slot.counted = now

    def _grant(self) -> None:
        while len(self._held) < self._slots and (first := self._first()) is not None:
            self._waiting.remove(first)
            if first.granted.cancelled():
                continue
            first.account.held += 1
            self._virtual = max(self._virtual, first.account.due)
            now = time.monotonic()
            first.account.work(1, now)
            slot = Slot(self, first.account, now)
            self._held.append(slot)
            self._at_work.append(slot)
            first.granted.set_result(slot)

    def _first(self) -> _Waiting | None:
        now = time.monotonic()
        least = min((one.account.lately(now) for one in self._at_work), default=math.inf)
        most = TIMES_MORE * least + MORE_S
        allowed = (one for one in self._waiting if one.account.held < SLOTS_EACH and one.account.lately(now) <= most)
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

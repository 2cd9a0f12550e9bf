"""How many calls may be in flight to one (endpoint, model, key): as many as it bears."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

SHRINK = 0.5


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to have one call in flight. `started` is the monotonic time at which it was given."""

    started: float


class Limiter:
    """Concurrency that adapts, additive increase and multiplicative decrease (Chiu and Jain, 1989).

    It doubles each round trip until the endpoint first objects, then grows by one a round trip, and halves when the
    endpoint objects again. Slots are given in the order in which they were asked for.

    Args:
        start: Calls in flight at first, at least 1.
        maximum: Never more than this.
    """

    def __init__(self, start: int, maximum: int) -> None:
        self._limit = float(min(start, maximum))
        self._maximum = maximum
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._shrunk_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """Calls that are in flight now."""
        return self._in_flight

    def cap(self, maximum: int) -> None:
        """Lower the maximum; used where two configurations share one endpoint, model and key."""
        self._maximum = min(self._maximum, maximum)
        self._limit = min(self._limit, float(self._maximum))

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Slot]:
        """Wait for a slot and hold it."""
        await self._acquire()
        try:
            yield Slot(time.monotonic())
        finally:
            self._in_flight -= 1
            self._wake()

    def succeeded(self) -> None:
        """A call was answered: allow more, if the present limit was in use at all."""
        if self._in_flight >= self.limit:
            growth = 1.0 if self._shrunk_at is None else 1.0 / self._limit
            self._limit = min(self._limit + growth, float(self._maximum))

    def overloaded(self, slot: Slot) -> None:
        """The endpoint asked for less: halve, once for all calls that were in flight together."""
        if self._shrunk_at is None or slot.started > self._shrunk_at:
            self._limit = max(1.0, self._limit * SHRINK)
            self._shrunk_at = time.monotonic()

    def pause(self, seconds: float) -> None:
        """Start no call for that long."""
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)

    async def _acquire(self) -> None:
        if not self._waiting and self._free():
            self._in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given in the very moment of the cancellation
                self._in_flight -= 1
            self._wake()
            raise

    def _free(self) -> bool:
        return self._in_flight < self.limit and time.monotonic() >= self._resume_at

    def _wake(self) -> None:
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        while self._waiting and self._free():
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
        self._wake_later()

    def _wake_later(self) -> None:
        pause = self._resume_at - time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and pause > 0:
            self._timer = asyncio.get_running_loop().call_later(pause, self._wake)


class Limiters:
    """One limiter per (endpoint, model, key), shared by all judges and targets that use it."""

    def __init__(self) -> None:
        self._limiters: dict[tuple[str, ...], Limiter] = {}

    def get(self, key: tuple[str, ...], start: int, maximum: int) -> Limiter:
        """The limiter of that key. Where two callers differ in their maximum, the smaller one holds."""
        limiter = self._limiters.setdefault(key, Limiter(start, maximum))
        limiter.cap(maximum)
        return limiter

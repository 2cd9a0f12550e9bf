"""Limit concurrent requests to one endpoint, and requests and tokens per minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from evalflow.calls.known_limits import KnownLimits

BURST_S = 1.0  # unused capacity expires, except for the last second's share
_LOOK_S = 0.05
LATENCY_GAIN = 1 / 16  # weight of a new latency in the moving average
OUTLIER = 3.0  # cap of a latency, as a multiple of the average: one slow reply is not a trend
SETTLED = 8  # minimum number of calls of a kind before their latency is used


class Pace:
    """Spreads requests, or tokens, over the minute (the generic cell rate algorithm).

    An amount passes once the earlier ones have been worked off, however large it is; if it exceeds the limit, the next
    ones wait longer.
    """

    __slots__ = ("_part", "_ready_at", "_seconds_each", "_unused", "per_minute")

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._part = 1.0
        self._seconds_each = 60.0 / per_minute
        self._ready_at = 0.0
        self._unused = 0.0

    def wait_s(self, now: float) -> float:
        return self._ready_at - now

    def take(self, amount: float, now: float) -> None:
        """Use up an amount; a negative one gives back an overestimate."""
        self._ready_at = max(self._ready_at, now - BURST_S) + amount * self._seconds_each

    def use_part(self, part: float, now: float) -> None:
        """Use this fraction of the limit from now on, keeping the current credit or debt.

        At 0 the credit stays constant.
        """
        if self._part:
            self._unused = min(now - self._ready_at, BURST_S) / self._seconds_each
        self._part = part
        if part:
            self._seconds_each = 60.0 / (self.per_minute * part)
            self._ready_at = now - self._unused * self._seconds_each
        else:
            self._unused = min(self._unused, 0.0)


class Pressure:
    """The average latency of calls relative to its minimum, by kind, since a metric's steps take different times."""

    __slots__ = ("_count", "_least", "_smoothed")

    def __init__(self) -> None:
        self._count = 0
        self._smoothed = 0.0
        self._least = float("inf")

    def add(self, latency_s: float) -> float:
        """Add a latency; return the average divided by its minimum, or 1 while there is too little data."""
        self._count += 1
        if self._count <= SETTLED:
            self._smoothed += (latency_s - self._smoothed) / self._count
            return 1.0
        self._smoothed += LATENCY_GAIN * (min(latency_s, OUTLIER * self._smoothed) - self._smoothed)
        self._least = min(self._least, self._smoothed)
        return self._smoothed / self._least if self._least > 0 else 1.0

    def accept(self) -> None:
        """Take the current latency as the new minimum, since our load is not its cause."""
        self._least = self._smoothed


SHRINK = 0.5  # the limit is multiplied by this when the endpoint is overloaded
TOLERATED, GAIN = 0.15, 1 / 64
"""The fraction of refused calls that is tolerated, and the weight of the latest call in this moving average. Busy
gateways refuse some calls at any load; resending those costs less than sending fewer. An exhausted endpoint refuses all
calls, which is detected after eleven."""
EASE = 0.9  # the limit is multiplied by this when the endpoint only becomes slow
HOLDS, SLOW = 2.0, 4.0
"""The limit grows while the average latency is below HOLDS times its minimum, shrinks above SLOW times its minimum, and
stays in between. In a saturated endpoint calls queue: more of them would only wait longer and finally time out."""


STEP, STEP_S = 8, 0.1
"""The calls added per step before any reply, and the seconds between steps. An overloaded endpoint refuses calls much
sooner than it answers any, so a step too far is noticed within two steps."""
WAIT_S = 15.0
"""A quarter of the usual timeout. Once a reply shows how long calls take, steps continue as long as calls would not
wait longer than this even if the endpoint processed only `start` calls at once."""


class Limiter:
    """Adaptive concurrency: additive increase and multiplicative decrease (Chiu and Jain, 1989).

    At first the limit grows by steps without waiting for replies: up to the `likely` capacity of the endpoint, and
    further once the first replies show their latency. The first refused call or a higher latency ends this. The limit
    also doubles each round trip while the latency is stable, until the first overload; after that it grows by one per
    round trip. On overload, when the endpoint refuses more than a few calls, the limit halves. If the latency has
    risen, the limit shrinks by a tenth, but never below its start. If the latency is high even there, our load is not
    the cause, and that latency becomes the new normal. A slot is the right to have one call in flight; slots are given
    first come, first served.

    Attributes:
        maximum: Maximum number of calls in flight, over all processes of the run.
        starved: Called when a call has to wait for a larger share.
    """

    def __init__(self, start: int, maximum: int, likely: int = 0) -> None:
        self._limit = float(min(start, maximum))
        self._start = self._limit
        self._likely = min(likely, maximum)  # the limit that steps may reach
        self._before = self._limit  # limit before the last step
        self._steps = True  # until the endpoint objects
        self._growth = 1.0  # slots added per reply, until the first overload
        self._step_timer: asyncio.TimerHandle | None = None
        self.maximum = maximum
        self._share = math.inf
        self._failed: Exception | None = None
        self.starved: Callable[[], None] = lambda: None
        self.in_flight = 0
        self._waiting: deque[tuple[asyncio.Future[float], float]] = deque()
        self._resume_at = 0.0
        self._shrunk_at: float | None = None
        self._refused = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pressures: dict[str, Pressure] = {}
        self.requests: Pace | None = None
        self.tokens: Pace | None = None

    @property
    def limit(self) -> int:
        return int(min(self._limit, self._share))

    @property
    def waiting(self) -> int:
        """The number of calls waiting for a slot."""
        return sum(not turn.done() for turn, _ in self._waiting)

    @property
    def borne(self) -> int:
        """The concurrent calls that the endpoint has sustained; 0 if there were never more than at the start."""
        return int(self._limit) if self._limit > self._start or not self._steps else 0

    @property
    def starving(self) -> bool:
        """Whether calls are waiting for a larger share."""
        return bool(self._waiting) and self.in_flight >= self._share

    def cap(self, maximum: int) -> None:
        self.maximum = min(self.maximum, maximum)
        self._likely = min(self._likely, self.maximum)
        self._limit = min(self._limit, float(self.maximum))
        self._start = min(self._start, self._limit)

    def share(self, slots: int) -> None:
        """Use at most this many slots and the same fraction of the limits per minute; others have the rest."""
        if slots == self._share:
            return
        self._share = slots
        self._pace_shares()
        if self._waiting:
            self._wake()

    def fail(self, error: Exception) -> None:
        """Raise an error in all waiting and future calls."""
        self._failed = error
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)

    def keep_to(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        """Limit requests and tokens per minute; the lowest limit ever set applies."""
        self.requests = _slower(self.requests, requests_per_minute)
        self.tokens = _slower(self.tokens, tokens_per_minute)
        self._pace_shares()

    def _pace_shares(self) -> None:
        part, now = min(self._share / self.maximum, 1.0), time.monotonic()
        for pace in (self.requests, self.tokens):
            if pace is not None:
                pace.use_part(part, now)

    @asynccontextmanager
    async def slot(self, tokens: float = 0.0) -> AsyncGenerator[float]:
        """Wait for a slot and hold it; yields the monotonic time when it was given. `tokens` are an estimate."""
        started = await self.acquire(tokens)
        try:
            yield started
        finally:
            self.release()

    def succeeded(self, started: float, latency_s: float, kind: str = "", excess_tokens: float = 0.0) -> None:
        """Record an answered call: raise the limit if it was fully used, lower it if the endpoint has become slow."""
        if self.tokens is not None:
            self.tokens.take(excess_tokens, time.monotonic())
        self._refused -= GAIN * self._refused
        pressure = self._pressures.get(kind) or self._pressures.setdefault(kind, Pressure())
        times = pressure.add(latency_s)
        if times >= HOLDS:
            self._steps = False
        elif self._steps:
            self._reach(latency_s)
        if times > SLOW:
            if self._limit <= self._start:
                pressure.accept()
            else:
                self._shrink(started, EASE, self._start)
        elif times < HOLDS and self.in_flight >= int(self._limit):
            growth = self._growth if self._shrunk_at is None else 1.0 / self._limit
            self._limit = min(self._limit + growth, float(self.maximum))

    def refused(self, started: float, wait_s: float) -> None:
        """Record a refused call. If many are refused, pause, and halve the limit once for all calls in flight."""
        self.stay()
        self._refused += GAIN * (1.0 - self._refused)
        if self._refused > TOLERATED:
            self._shrink(started, SHRINK, 1.0)
            self.pause(wait_s)

    def stay(self) -> None:
        """Undo the last step and stop stepping, since a call was refused or got no answer.

        From then on the limit grows by half each round trip: the real limit may be near, or the endpoint refuses some
        calls at any load.
        """
        if self._steps:
            self._steps, self._growth = False, 0.5
            self._limit = min(self._limit, max(self._before, self._start))

    def _reach(self, latency_s: float) -> None:
        """Extend the steps, now that the duration of a call is known."""
        far = self.maximum if latency_s <= 0 else int(self._start * WAIT_S / latency_s)
        self._likely = max(self._likely, min(self.maximum, far))
        self._plan_step()

    def _plan_step(self) -> None:
        if self._waiting and self._steps and self._step_timer is None and self._limit < self._likely:
            self._step_timer = asyncio.get_running_loop().call_later(STEP_S, self._step)

    def _step(self) -> None:
        self._step_timer = None
        if self._steps and self.waiting and self._limit < self._likely and self.in_flight >= int(self._limit):
            self._before = self._limit
            self._limit = float(min(self._limit + STEP, self._likely))
            self._wake()
        self._plan_step()

    def pause(self, seconds: float) -> None:
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)

    async def drained(self, seconds: float) -> None:
        """Wait, up to this time, until no call is in flight and the results of the last ones are stored."""
        end = time.monotonic() + seconds
        while self.in_flight and time.monotonic() < end:
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(_LOOK_S)

    def _shrink(self, started: float, factor: float, least: float) -> None:
        if self._shrunk_at is None or started > self._shrunk_at:
            self._limit = max(min(least, self._limit), self._limit * factor)
            self._shrunk_at = time.monotonic()

    async def acquire(self, tokens: float) -> float:
        if self._failed is not None:
            raise self._failed
        if not self._waiting and self.in_flight < self.limit:
            now = time.monotonic()
            if self._take(tokens, now) <= 0:
                return now
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self._wake()
        if self._step_timer is None:
            self._plan_step()
        if not turn.done() and self.starving:
            self.starved()
        try:
            return await turn
        except asyncio.CancelledError:
            if (
                turn.done() and not turn.cancelled() and not turn.exception()
            ):  # the task was cancelled just as it got the slot
                self.in_flight -= 1
            self._wake()
            raise

    def release(self) -> None:
        self.in_flight -= 1
        if self._waiting:
            self._wake()

    def _take(self, tokens: float, now: float) -> float:
        """Take a slot if one is free. Return the seconds until one can be; 0 or less if it was taken."""
        wait = self._resume_at - now
        for pace in (self.requests, self.tokens):
            if pace is not None:
                wait = max(wait, pace.wait_s(now))
        if wait <= 0:
            self.in_flight += 1
            if self.requests is not None:
                self.requests.take(1.0, now)
            if self.tokens is not None:
                self.tokens.take(tokens, now)
        return wait

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        while self._waiting and self.in_flight < self.limit:
            turn, tokens = self._waiting[0]
            if not turn.done():
                wait = self._take(tokens, now)
                if wait > 0:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._wake)
                    return
                turn.set_result(now)
            self._waiting.popleft()


def _slower(pace: Pace | None, per_minute: float | None) -> Pace | None:
    if per_minute is None or (pace is not None and pace.per_minute <= per_minute):
        return pace
    return Pace(per_minute)


class Limiters:
    """One limiter per (endpoint, model, key), shared by all judges and targets that use it."""

    @property
    def in_flight(self) -> int:
        return sum(limiter.in_flight for limiter in self._limiters.values())

    def __init__(self, known: KnownLimits | None = None) -> None:
        self._limiters: dict[tuple[str, ...], Limiter] = {}
        self._known = known

    def get(self, key: tuple[str, ...], start: int, maximum: int, *, hosted: bool = False) -> Limiter:
        """Return the limiter of a key. It starts from what earlier runs found; a known provider's has no bound."""
        if key not in self._limiters:
            known = self._known.get(key) if self._known else 0
            self._limiters[key] = Limiter(start, maximum, known or (maximum if hosted else 0))
        limiter = self._limiters[key]
        limiter.cap(maximum)
        return limiter

    def close(self) -> None:
        """Store the concurrent calls that endpoints have sustained."""
        if self._known is not None:
            borne = {key: limiter.borne for key, limiter in self._limiters.items() if limiter.borne}
            if borne:
                self._known.remember(borne)

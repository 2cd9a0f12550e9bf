"""How many requests may be in flight to one endpoint, and how many a minute."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType

from evalflow.frozen import record

BURST_S = 1.0
"""What was left unused is lost but for the last second's share."""


class Pace:
    """Spreads requests, or tokens, over the minute (the generic cell rate algorithm).

    An amount is let through as soon as earlier ones have been worked off, however large it is itself: what it is too
    large for the following ones wait out.

    Args:
        per_minute: How much a minute.
    """

    __slots__ = ("_ready_at", "_seconds_each", "per_minute")

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._seconds_each = 60.0 / per_minute
        self._ready_at = 0.0

    def wait_s(self, now: float) -> float:
        """Seconds until something may be taken again; 0 or less: now.

        Args:
            now: A monotonic time in seconds, here and below.
        """
        return self._ready_at - now

    def take(self, amount: float, now: float) -> None:
        """Use up so much; what turns out to have been too much is given back as a negative amount."""
        self._ready_at = max(self._ready_at, now - BURST_S) + amount * self._seconds_each


LATENCY_GAIN = 1 / 16
"""The share of a new latency in the smoothed one."""
OUTLIER = 3.0
"""A latency counts for at most so many times the smoothed one: one slow reply is no trend."""
SETTLED = 8
"""Calls of a kind before their latency says anything."""


class Pressure:
    """The smoothed latency of calls of one kind, relative to the least that it has been.

    Calls of different kinds, such as a metric's steps, take different times by nature, so that each kind is compared
    with itself.
    """

    __slots__ = ("_count", "_least", "_smoothed")

    def __init__(self) -> None:
        self._count = 0
        self._smoothed = 0.0
        self._least = float("inf")

    def add(self, latency_s: float) -> float:
        """Take in the latency of an answered call.

        Returns:
            How many times its least the smoothed latency is now, at least 1; 1 while there is too little to tell.
        """
        self._count += 1
        if self._count <= SETTLED:
            self._smoothed += (latency_s - self._smoothed) / self._count
            return 1.0
        self._smoothed += LATENCY_GAIN * (min(latency_s, OUTLIER * self._smoothed) - self._smoothed)
        self._least = min(self._least, self._smoothed)
        return self._smoothed / self._least if self._least > 0 else 1.0

    def accept(self) -> None:
        """Take the present latency for the least: it is not our doing."""
        self._least = self._smoothed


SHRINK = 0.5
"""What is left of the limit when the endpoint says that it is too much."""
TOLERATED, GAIN = 0.15, 1 / 64
"""The share of refused calls up to which the endpoint does not say so, and the share of the latest call in it. Busy
gateways refuse some calls at any load; to send these again costs less than to send fewer. One that is really used up
refuses all, and is believed after eleven."""
EASE = 0.9
"""What is left of it when the endpoint merely grows slow."""
HOLDS, SLOW = 2.0, 4.0
"""The limit grows while the smoothed latency is below HOLDS times its least, and shrinks where it is above SLOW times
that; in between it stays. An endpoint that is full makes calls wait for each other: more of them in flight would only
wait longer, and in the end time out."""


@record()
class Slot:
    """The right to have one call in flight. `started` is the monotonic time at which it was given."""

    started: float


class Limiter:
    """Concurrency that adapts, additive increase and multiplicative decrease (Chiu and Jain, 1989).

    It doubles each round trip while the endpoint's latency holds, until the endpoint first objects; then it grows by
    one a round trip. To object is to refuse more than a few of the calls: then it halves. It shrinks by a tenth, never
    below where it started, when the latency has risen. If that is high even there, it is not our doing, and is taken
    for normal from then on. Slots are given in the order in which they were asked for.

    Args:
        start: Calls in flight at first, at least 1.
        maximum: Never more than this.
    """

    def __init__(self, start: int, maximum: int) -> None:
        self._limit = float(min(start, maximum))
        self._start = self._limit
        self._maximum = maximum
        self._in_flight = 0
        self._waiting: deque[tuple[asyncio.Future[Slot], float]] = deque()
        self._resume_at = 0.0
        self._shrunk_at: float | None = None
        self._refused = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pressures: dict[str, Pressure] = {}
        self._requests: Pace | None = None
        self._tokens: Pace | None = None

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """Calls that are in flight now."""
        return self._in_flight

    @property
    def requests_per_minute(self) -> float | None:
        """What it keeps to beside the limit; None: nothing."""
        return self._requests.per_minute if self._requests else None

    @property
    def tokens_per_minute(self) -> float | None:
        """The same for tokens."""
        return self._tokens.per_minute if self._tokens else None

    def cap(self, maximum: int) -> None:
        """Lower the maximum; used where two configurations share one endpoint, model and key."""
        self._maximum = min(self._maximum, maximum)
        self._limit = min(self._limit, float(self._maximum))
        self._start = min(self._start, self._limit)

    def keep_to(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        """Give slots for no more than so many requests and tokens a minute. The least that was asked for holds."""
        self._requests = _slower(self._requests, requests_per_minute)
        self._tokens = _slower(self._tokens, tokens_per_minute)

    def slot(self, tokens: float = 0.0) -> Turn:
        """Wait for a slot and hold it, for an `async with`.

        Args:
            tokens: What the call will take, as far as that can be told; `settle` corrects it.
        """
        return Turn(self, tokens)

    def succeeded(self, slot: Slot, latency_s: float, kind: str = "", excess_tokens: float = 0.0) -> None:
        """A call was answered: allow more if the present limit was in use, less if the endpoint has become slow.

        Args:
            slot: What the call was sent with.
            latency_s: How long it took.
            kind: Calls of one kind should take alike.
            excess_tokens: How many more tokens it took than was said before it; fewer, where negative.
        """
        if self._tokens is not None:
            self._tokens.take(excess_tokens, time.monotonic())
        self._refused -= GAIN * self._refused
        pressure = self._pressures.get(kind) or self._pressures.setdefault(kind, Pressure())
        times = pressure.add(latency_s)
        if times > SLOW:
            if self._limit <= self._start:
                pressure.accept()
            else:
                self._shrink(slot, EASE, self._start)
        elif times < HOLDS and self._in_flight >= int(self._limit):
            growth = 1.0 if self._shrunk_at is None else 1.0 / self._limit
            self._limit = min(self._limit + growth, float(self._maximum))

    def refused(self, slot: Slot, wait_s: float) -> None:
        """The endpoint refused a call. Where it refuses many, halve, once for all calls that were in flight together.

        Args:
            slot: What the call was sent with.
            wait_s: How long the endpoint wants to be left alone; where it refuses many, no call is started until then.
        """
        self._refused += GAIN * (1.0 - self._refused)
        if self._refused > TOLERATED:
            self._shrink(slot, SHRINK, 1.0)
            self.pause(wait_s)

    def pause(self, seconds: float) -> None:
        """Start no call for that long."""
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)

    def _shrink(self, slot: Slot, factor: float, least: float) -> None:
        if self._shrunk_at is None or slot.started > self._shrunk_at:
            self._limit = max(min(least, self._limit), self._limit * factor)
            self._shrunk_at = time.monotonic()

    async def acquire(self, tokens: float) -> Slot:
        """Wait for a slot; see `slot`."""
        if not self._waiting:
            now = time.monotonic()
            if self._in_flight < int(self._limit) and self._wait_s(now) <= 0:
                return self._give(tokens, now)
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self._wake()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given in the very moment of the cancellation
                self._in_flight -= 1
            self._wake()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self._in_flight -= 1
        if self._waiting:
            self._wake()

    def _give(self, tokens: float, now: float) -> Slot:
        self._in_flight += 1
        if self._requests is not None:
            self._requests.take(1.0, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        return Slot(now)

    def _wait_s(self, now: float) -> float:
        """Seconds until a slot may be given, were one free; 0 or less: now."""
        wait = self._resume_at - now
        for pace in (self._requests, self._tokens):
            if pace is not None:
                wait = max(wait, pace.wait_s(now))
        return wait

    def _wake(self) -> None:
        """Give slots to those who wait, as far as they go, and come back when the next may be given."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        while self._waiting and self._in_flight < int(self._limit):
            if self._waiting[0][0].done():
                self._waiting.popleft()
                continue
            wait = self._wait_s(now)
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait, self._wake)
                return
            turn, tokens = self._waiting.popleft()
            turn.set_result(self._give(tokens, now))


def _slower(pace: Pace | None, per_minute: float | None) -> Pace | None:
    if per_minute is None or (pace is not None and pace.per_minute <= per_minute):
        return pace
    return Pace(per_minute)


class Turn:
    """Waits for a slot on entering, and gives it back on leaving."""

    __slots__ = ("_limiter", "_tokens")

    def __init__(self, limiter: Limiter, tokens: float) -> None:
        self._limiter = limiter
        self._tokens = tokens

    async def __aenter__(self) -> Slot:
        return await self._limiter.acquire(self._tokens)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release()


class Limiters:
    """One limiter per (endpoint, model, key), shared by all judges and targets that use it."""

    def __init__(self) -> None:
        self._limiters: dict[tuple[str, ...], Limiter] = {}

    def get(self, key: tuple[str, ...], start: int, maximum: int) -> Limiter:
        """The limiter of that key. Where two callers differ in their maximum, the smaller one holds."""
        limiter = self._limiters.setdefault(key, Limiter(start, maximum))
        limiter.cap(maximum)
        return limiter


LIMITS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
)
"""What is left of a limit, and when it is whole again: OpenAI and those that follow it, OpenRouter, Anthropic."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EPOCH_S = 1e9
"""A number this large is no duration but a time since 1970, in seconds or in milliseconds."""


def rest_s(headers: Mapping[str, str]) -> float:
    """Seconds until the endpoint takes requests again where one of its limits is used up; 0 where none is.

    Args:
        headers: Found by lower-case name.
    """
    longest = 0.0
    for remaining, reset in LIMITS:
        left = headers.get(remaining)
        if left is not None and _number(left) == 0:
            longest = max(longest, _until(headers.get(reset), headers) or 0.0)
    return longest


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date, RFC 9110 10.2.3).

    Never negative; None where the header is absent or makes no sense.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    return _until(text, headers) if seconds is None else seconds


def _until(text: str | None, headers: Mapping[str, str]) -> float | None:
    """Seconds from a duration (`20`, `0.5`, `6m0s`, `20ms`), a time since 1970, or a date."""
    number = _number(text)
    if number is not None:
        if number < _EPOCH_S or math.isinf(number):
            return number
        seconds = number / 1000 if number >= 1000 * _EPOCH_S else number
        return max(0.0, seconds - _now(headers).timestamp())
    if text is None:
        return None
    parts = _PART.findall(text)
    if parts and not _PART.sub("", text).strip():
        return sum(float(count) * _SECONDS[unit] for count, unit in parts)
    date = _date(text)
    return None if date is None else max(0.0, (date - _now(headers)).total_seconds())


def _now(headers: Mapping[str, str]) -> datetime:
    """The time by the endpoint's own clock where it tells it, since that is the clock that it counts by."""
    return _date(headers.get("date", "")) or datetime.now(UTC)


def _date(text: str) -> datetime | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = parse(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else max(0.0, number)

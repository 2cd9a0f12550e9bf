"""So much a minute and no more: a token bucket, in its form as a clock."""

from __future__ import annotations

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

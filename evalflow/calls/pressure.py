"""How much slower an endpoint has become since it was least busy."""

from __future__ import annotations

GAIN = 1 / 16
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
        self._smoothed += GAIN * (min(latency_s, OUTLIER * self._smoothed) - self._smoothed)
        self._least = min(self._least, self._smoothed)
        return self._smoothed / self._least if self._least > 0 else 1.0

    def accept(self) -> None:
        """Take the present latency for the least: it is not our doing."""
        self._least = self._smoothed

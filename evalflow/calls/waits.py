"""How long an endpoint asks to wait, and the current waits."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from evalflow.calls.http import Response
from evalflow.calls.limiter import rest_s, retry_after_s
from evalflow.values.jsonvalues import as_list, as_map

LONGEST_WAIT_S = 120.0
"""The longest wait in seconds that an endpoint may ask for; if it asks for more, the run ends and can be resumed
later."""
SHOWN_S = 2.0  # shorter waits are not shown
_REASON = 80  # maximum length of a displayed reason
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)"
_IN_WORDS = re.compile(
    r"(?:try again|retry|wait|available)(?: again)?(?: your request)?(?: in| after| for)? (?:about |approximately )?"
    rf"(?P<time>(?:\d+(?:\.\d+)?\s*{_UNIT}(?![a-z])[ ,]*(?:and )?)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def asked_wait_s(response: Response) -> float | None:
    """Return the seconds that a refused request should wait, from the headers or else the body; None if unstated."""
    known = retry_after_s(response.headers)
    if known is not None:
        return known
    if rest := rest_s(response.headers):
        return rest
    text = response.body[:10_000].decode("utf-8", "replace")
    delays = (as_map(one).get("retryDelay") for one in as_list(_error(text).get("details")))  # Google's
    delay = next((one for one in delays if isinstance(one, str)), None)
    found = _IN_WORDS.search(text)
    return _seconds(delay or (found["time"] if found else ""))


def _error(text: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return as_map(as_map(next(iter(as_list(value)), value)).get("error"))


def _seconds(text: str) -> float | None:
    parts = _PART.findall(text)
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in parts) if parts else None


def in_words(seconds: float) -> str:
    """Return a duration such as `45 s`, `3 min` or `24 h`, rounded up."""
    if not math.isfinite(seconds):
        return "for ever"
    size, unit = (1, "s") if seconds <= 120 else (60, "min") if seconds <= 7200 else (3600, "h")
    return f"{math.ceil(round(seconds / size, 3)):,} {unit}"


def moment(seconds: float) -> str:
    """Return the UTC time of day in this many seconds, with the date if it is not today."""
    try:
        then = datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return "never"
    return f"{then:%H:%M:%S} UTC" if seconds < 3600 else f"{then:%Y-%m-%d %H:%M} UTC"


@dataclass(slots=True)
class Waits:
    """The current waits of calls, by endpoint."""

    _ends: dict[tuple[str, str], list[float]] = field(default_factory=dict[tuple[str, str], list[float]])

    @contextmanager
    def waiting(self, where: str, reason: str, seconds: float) -> Generator[None]:
        """Show a wait until it ends, unless it is short."""
        if seconds < SHOWN_S:
            yield
            return
        end, ends = time.monotonic() + seconds, self._ends.setdefault((where, reason), [])
        ends.append(end)
        try:
            yield
        finally:
            ends.remove(end)

    def lines(self) -> Iterator[str]:
        """Return a line for each reason: which endpoint asks to wait, until when, and why."""
        for (where, reason), ends in self._ends.items():
            left = max(ends, default=0.0) - time.monotonic()
            if left > 0:
                said = reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."
                yield f"waits until {moment(left)} for {where} ({said})"

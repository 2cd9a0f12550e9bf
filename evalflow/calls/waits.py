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
from email.utils import parsedate_to_datetime

from evalflow.calls.http import Response
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
_EPOCH_S = 1e9  # larger numbers are not durations but Unix times, in seconds or in milliseconds
LIMITS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
)  # headers with the remaining quota and its reset time: OpenAI and compatible services, OpenRouter, Anthropic


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
    match = _IN_WORDS.search(text)
    return _seconds(delay or (match["time"] if match else ""))


def _error(text: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return as_map(as_map(next(iter(as_list(value)), value)).get("error"))


def _seconds(text: str) -> float | None:
    parts = _PART.findall(text)
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in parts) if parts else None


def rest_s(headers: Mapping[str, str]) -> float:
    """Return the seconds until an exhausted limit of the endpoint resets; 0 if none is exhausted."""
    longest = 0.0
    for remaining, reset in LIMITS:
        left = headers.get(remaining)
        if left is not None and _number(left) == 0:
            longest = max(longest, _until(headers.get(reset), headers) or 0.0)
    return longest


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds (>= 0) to wait by `retry-after-ms` or `retry-after` (RFC 9110 10.2.3); None if invalid."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return _until(headers.get("retry-after"), headers)


def _until(text: str | None, headers: Mapping[str, str]) -> float | None:
    """Return seconds from a duration (`20`, `0.5`, `6m0s`, `20ms`), a Unix time, or a date."""
    number = _number(text)
    if number is not None:
        if number < _EPOCH_S or math.isinf(number):
            return number
        seconds = number / 1000 if number >= 1000 * _EPOCH_S else number
        return max(0.0, seconds - _now(headers).timestamp())
    if text is None:
        return None
    if not _PART.sub("", text).strip() and (seconds := _seconds(text)) is not None:
        return seconds
    date = _date(text)
    return None if date is None else max(0.0, (date - _now(headers)).total_seconds())


def _now(headers: Mapping[str, str]) -> datetime:
    """Return the time by the endpoint's clock, if it sends one, since the times in its headers refer to that clock."""
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
                excerpt = reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."
                yield f"waits until {moment(left)} for {where} ({excerpt})"

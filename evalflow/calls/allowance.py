"""How long an endpoint asks to be left alone, by the headers of its responses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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

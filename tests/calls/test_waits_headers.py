from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls.waits import LIMITS, rest_s, retry_after_s

NOON = {"date": "Wed, 21 Oct 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1792584030", **NOON}, 30.0),
        ({"retry-after": "1d2h"}, 93_600.0),
        ({"retry-after": "inf"}, float("inf")),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 12:00:30 GMT", **NOON}, 30.0),
        ({"retry-after": "Wed, 99 Oct 99999 07:28:00 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def test_a_date_counts_from_now_where_the_endpoint_does_not_tell_its_time() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    seconds = retry_after_s({"retry-after": date})
    assert seconds is not None
    assert 25 < seconds <= 30


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("20", 20.0),
        ("0.5", 0.5),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("20ms", 0.02),
        ("1792584060", 60.0),
        ("1792584060000", 60.0),
        ("2026-10-21T12:01:00Z", 60.0),
        ("Wed, 21 Oct 2026 12:01:00 GMT", 60.0),
        ("2026-10-21T11:00:00Z", 0.0),
        ("later", 0.0),
    ],
)
@pytest.mark.parametrize("names", LIMITS, ids=lambda names: names[0])
def test_a_limit_that_is_used_up_is_waited_out(names: tuple[str, str], reset: str, seconds: float) -> None:
    remaining, until = names
    assert rest_s({**NOON, remaining: "0", until: reset}) == pytest.approx(seconds)
    assert rest_s({**NOON, remaining: "1", until: reset}) == 0.0


def test_the_longest_of_several_rests_counts_and_one_that_is_not_told_is_none() -> None:
    both = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "0"}
    assert rest_s({**both, "x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}) == 3.0
    assert rest_s(both) == 0.0
    assert rest_s({}) == 0.0


@given(st.text(), st.text(), st.text())
def test_no_header_is_too_strange_to_be_read(retry_after: str, reset: str, date: str) -> None:
    headers = {"retry-after": retry_after, "date": date, "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    assert (retry_after_s(headers) or 0.0) >= 0.0
    assert rest_s(headers) >= 0.0

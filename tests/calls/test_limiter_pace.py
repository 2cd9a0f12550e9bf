from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls.limiter import BURST_S, Pace


@given(st.floats(1, 100_000), st.lists(st.floats(0, 500), min_size=1, max_size=200))
def test_no_more_than_the_pace_goes_through_whatever_was_left_unused(per_minute: float, amounts: list[float]) -> None:
    pace, now, used = Pace(per_minute), 1000.0, 0.0
    for amount in amounts:
        now = max(now, now + pace.wait_s(now))
        pace.take(amount, now)
        used += amount
    allowed = (now - 1000.0 + BURST_S) * per_minute / 60
    assert used - amounts[-1] <= allowed * (1 + 1e-9) + 1e-6


def test_what_was_taken_in_vain_is_given_back() -> None:
    pace = Pace(60)
    pace.take(10, 100.0)
    assert pace.wait_s(100.0) == 9.0
    pace.take(-4, 100.0)
    assert pace.wait_s(100.0) == 5.0
    assert pace.wait_s(105.0) <= 0


def test_an_amount_beyond_any_burst_goes_through_and_is_waited_out_by_the_next() -> None:
    pace = Pace(60)
    assert pace.wait_s(100.0) <= 0
    pace.take(600, 100.0)
    assert pace.wait_s(100.0) == 600 - BURST_S


@given(st.lists(st.tuples(st.floats(0.1, 30), st.integers(0, 4), st.integers(0, 40)), min_size=1, max_size=30))
def test_parts_of_a_limit_never_take_more_than_the_whole(steps: list[tuple[float, int, int]]) -> None:
    """Two take turns with their parts, each takes all that it may; in between some of it is left unused."""
    paces = [Pace(60), Pace(60)]
    for pace in paces:
        pace.use_part(0.0, 0.0)
    now, taken = 0.0, 0
    for seconds, quarter, wanted in steps:
        for pace, part in zip(paces, (quarter, 4 - quarter), strict=True):
            pace.use_part(part / 4, now)
        for tick in range(10):
            now += seconds / 10
            for pace, part in zip(paces, (quarter, 4 - quarter), strict=True):
                for _ in range(wanted if tick % 3 else 0):
                    if part and pace.wait_s(now) <= 1e-9:
                        pace.take(1, now)
                        taken += 1
    assert taken <= now + 2 * BURST_S + 2

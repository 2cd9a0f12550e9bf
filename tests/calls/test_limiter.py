from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from evalflow.calls.limiter import Limiter, Limiters

pytestmark = pytest.mark.anyio


async def _saturate(limiter: Limiter, calls: int) -> int:
    """Run so many calls that all succeed; the most that were in flight."""
    most = 0

    async def call() -> None:
        nonlocal most
        async with limiter.slot() as slot:
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)
            limiter.succeeded(slot, 1.0)

    async with asyncio.TaskGroup() as group:
        for _ in range(calls):
            group.create_task(call())
    return most


async def test_starts_at_start_and_grows_to_the_maximum_while_calls_succeed() -> None:
    limiter = Limiter(2, 10)
    assert limiter.limit == 2
    assert await _saturate(limiter, 200) == 10
    assert limiter.limit == 10
    assert limiter.in_flight == 0


async def test_does_not_grow_when_the_limit_is_not_in_use() -> None:
    limiter = Limiter(4, 10)
    for _ in range(20):
        async with limiter.slot() as slot:
            limiter.succeeded(slot, 1.0)
    assert limiter.limit == 4


async def test_halves_once_for_all_calls_that_were_in_flight_together_and_never_below_one() -> None:
    limiter = _used_up(Limiter(8, 8))
    assert limiter.limit == 8
    async with limiter.slot() as first, limiter.slot() as second:
        limiter.refused(first, 0.0)
        limiter.refused(second, 0.0)
    assert limiter.limit == 4
    for _ in range(5):
        async with limiter.slot() as later:
            limiter.refused(later, 0.0)
    assert limiter.limit == 1


def _used_up(limiter: Limiter) -> Limiter:
    """A limiter that has been refused so often that it believes the next refusal."""
    for _ in range(10):
        limiter.refused(0.0, 0.0)
    return limiter


async def test_a_few_refusals_among_many_calls_change_nothing() -> None:
    limiter = Limiter(8, 8)
    for call in range(2000):
        async with limiter.slot() as slot:
            if call % 20:
                limiter.succeeded(slot, 1.0)
            else:
                limiter.refused(slot, 60.0)
    assert limiter.limit == 8


async def test_grows_by_one_a_round_trip_after_the_first_objection() -> None:
    limiter = _used_up(Limiter(8, 64))
    limiter.refused(0.0, 0.0)
    await _saturate(limiter, 4)
    assert limiter.limit <= 5


async def test_what_an_endpoint_asks_for_that_refuses_all_holds_back_every_call() -> None:
    limiter = _used_up(Limiter(8, 8))
    began = asyncio.get_running_loop().time()
    limiter.refused(0.0, 0.05)
    async with limiter.slot():
        assert asyncio.get_running_loop().time() - began >= 0.045


async def _answer(limiter: Limiter, latency_s: float, calls: int, kind: str = "") -> None:
    """Run so many calls, always as many at once as the limit allows, each answered after that time as far as told."""
    for _ in range(calls):
        async with AsyncExitStack() as stack:
            slots = [await stack.enter_async_context(limiter.slot()) for _ in range(limiter.limit)]
            limiter.succeeded(slots[-1], latency_s, kind)


async def test_stays_where_it_is_when_latency_rises_and_shrinks_when_it_rises_much() -> None:
    limiter = Limiter(4, 1000)
    await _answer(limiter, 1.0, 60)
    grown = limiter.limit
    assert grown > 50
    await _answer(limiter, 3.0, 60)
    held = limiter.limit
    assert held - grown < 20
    await _answer(limiter, 3.0, 60)
    assert limiter.limit == held
    await _answer(limiter, 9.0, 500)
    assert limiter.limit < held / 2


async def test_latency_never_takes_it_below_where_it_started_and_is_normal_if_high_even_there() -> None:
    limiter = Limiter(4, 8)
    await _answer(limiter, 1.0, 30)
    assert limiter.limit == 8
    seen: list[int] = []
    for _ in range(300):
        await _answer(limiter, 20.0, 1)
        seen.append(limiter.limit)
    assert min(seen) == 4
    assert seen[-1] > 4


async def test_one_slow_reply_is_no_trend() -> None:
    limiter = Limiter(4, 100)
    await _answer(limiter, 1.0, 20)
    before = limiter.limit
    await _answer(limiter, 600.0, 1)
    await _answer(limiter, 1.0, 20)
    assert limiter.limit == before + 21


async def test_a_kind_of_calls_that_takes_longer_by_nature_is_no_rise() -> None:
    limiter = Limiter(4, 100)
    for _ in range(40):
        await _answer(limiter, 0.1, 1, "short")
        await _answer(limiter, 30.0, 1, "long")
    assert limiter.limit == 84


async def test_keeps_to_requests_and_tokens_a_minute() -> None:
    limiter = Limiter(50, 50)
    limiter.keep_to(6000, None)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await _saturate(limiter, 130)  # the first hundred are the burst of one second
    assert loop.time() - begun >= 0.25

    limiter = Limiter(50, 50)
    limiter.keep_to(None, 60_000)
    begun = loop.time()
    for _ in range(3):
        async with limiter.slot(tokens=1100):
            pass
    assert loop.time() - begun >= 1.1


def test_the_stricter_pace_holds_for_those_who_share_a_limiter() -> None:
    limiter = Limiter(1, 1)
    limiter.keep_to(60, 600)
    limiter.keep_to(6, None)
    limiter.keep_to(600, 6000)
    assert limiter.requests
    assert limiter.tokens
    assert (limiter.requests.per_minute, limiter.tokens.per_minute) == (6, 600)


async def test_slots_are_given_in_the_order_of_asking() -> None:
    limiter, order = Limiter(1, 1), list[int]()

    async def call(number: int) -> None:
        async with limiter.slot():
            order.append(number)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(call(number))
    assert order == list(range(10))


async def test_a_pause_holds_back_every_new_call() -> None:
    limiter = Limiter(4, 4)
    limiter.pause(0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with limiter.slot():
        assert loop.time() - begun >= 0.04


async def test_a_cancelled_waiter_leaves_its_place_to_the_next() -> None:
    limiter = Limiter(1, 1)
    async with limiter.slot():
        waiting = [asyncio.create_task(_saturate(limiter, 1)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    assert await waiting[1] == 1
    assert limiter.in_flight == 0


async def test_a_slot_given_in_the_moment_of_cancellation_is_given_back() -> None:
    limiter = Limiter(1, 1)
    async with limiter.slot():
        waiting = asyncio.create_task(_saturate(limiter, 1))
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises((asyncio.CancelledError, BaseExceptionGroup)):
        await waiting
    assert limiter.in_flight == 0


def test_one_limiter_per_key_works_in_one_event_loop_after_another() -> None:
    limiter = Limiter(1, 2)
    assert asyncio.run(_saturate(limiter, 20)) == 2
    limiter.pause(0.01)
    assert asyncio.run(_saturate(limiter, 20)) == 2


def test_the_smaller_maximum_holds_for_those_who_share_a_limiter() -> None:
    limiters = Limiters()
    first = limiters.get(("url", "model", "KEY"), 8, 64)
    assert limiters.get(("url", "model", "KEY"), 8, 4) is first
    assert first.limit == 4
    assert limiters.get(("url", "other", "KEY"), 8, 64) is not first


async def test_a_share_limits_at_once_and_lets_calls_in_flight_end() -> None:
    limiter = Limiter(8, 8)
    limiter.share(3)
    assert limiter.limit == 3
    assert await _saturate(limiter, 20) == 3
    limiter.share(8)
    starved = list[int]()
    limiter.starved = lambda: starved.append(limiter.waiting)
    async with AsyncExitStack() as stack:
        for _ in range(8):
            await stack.enter_async_context(limiter.slot())
        limiter.share(2)
        assert limiter.in_flight == 8
        waiting = asyncio.create_task(_saturate(limiter, 1))
        await asyncio.sleep(0.01)
        assert (starved, limiter.waiting) == ([1], 1)
    assert await asyncio.wait_for(waiting, 5) <= 2


async def test_a_share_is_the_same_part_of_the_limits_per_minute() -> None:
    limiter = Limiter(8, 8)
    limiter.share(0)
    limiter.keep_to(600, 6000)
    limiter.share(4)
    async with limiter.slot(tokens=1000):
        pass
    assert limiter.requests
    assert limiter.tokens
    limiter.requests.take(100, now := time.monotonic())
    assert 19 < limiter.requests.wait_s(now) < 20.5
    assert 19 < limiter.tokens.wait_s(now) < 20.5


async def test_calls_that_wait_for_a_share_and_later_ones_fail_with_it() -> None:
    limiter = Limiter(4, 4)
    limiter.share(0)
    waiting = asyncio.create_task(_saturate(limiter, 1))
    await asyncio.sleep(0.01)
    limiter.fail(ZeroDivisionError("no more"))
    for task in (waiting, asyncio.create_task(_saturate(limiter, 1))):
        with pytest.raises(ExceptionGroup) as failed:
            await task
        assert failed.value.subgroup(ZeroDivisionError)
    assert limiter.in_flight == 0

from __future__ import annotations

import asyncio

import pytest

from evalflow.calls.limiter import Limiter, Limiters, Slot

pytestmark = pytest.mark.anyio


async def _saturate(limiter: Limiter, calls: int) -> int:
    """Run so many calls that all succeed; the most that were in flight."""
    most = 0

    async def call() -> None:
        nonlocal most
        async with limiter.slot():
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)
            limiter.succeeded()

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
        async with limiter.slot():
            limiter.succeeded()
    assert limiter.limit == 4


async def test_halves_once_for_all_calls_that_were_in_flight_together_and_never_below_one() -> None:
    limiter = Limiter(8, 8)
    async with limiter.slot() as first, limiter.slot() as second:
        limiter.overloaded(first)
        limiter.overloaded(second)
    assert limiter.limit == 4
    for _ in range(5):
        async with limiter.slot() as later:
            limiter.overloaded(later)
    assert limiter.limit == 1


async def test_grows_by_one_a_round_trip_after_the_first_objection() -> None:
    limiter = Limiter(8, 64)
    limiter.overloaded(Slot(0.0))
    await _saturate(limiter, 4)
    assert limiter.limit <= 5


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

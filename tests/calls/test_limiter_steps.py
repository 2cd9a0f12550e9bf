"""How the limit grows before replies come: by steps, as far as an endpoint is likely to bear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from evalflow.calls import limiter as limits
from evalflow.calls.known_limits import MOST, KnownLimits
from evalflow.calls.limiter import HOLDS, SETTLED, STEP, Limiter, Limiters

pytestmark = pytest.mark.anyio
KEY = ("http://127.0.0.1:1/v1", "model", "")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_S", 0.002)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def calls(limiter: Limiter, number: int) -> list[asyncio.Task[float]]:
    """So many calls that want a slot, none of which is answered."""
    tasks = [asyncio.create_task(limiter.acquire(0.0)) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


def end(tasks: list[asyncio.Task[float]]) -> None:
    for task in tasks:
        task.cancel()


async def test_a_likely_limit_is_reached_without_a_reply_and_not_passed() -> None:
    limiter = Limiter(4, 64, likely=30)
    tasks = await calls(limiter, 100)
    assert limiter.in_flight == 4
    await until(lambda: limiter.in_flight == 30)
    await asyncio.sleep(0.02)
    assert limiter.in_flight == limiter.borne == 30
    end(tasks)


async def test_an_unknown_endpoint_gets_no_more_than_the_start_before_its_first_reply() -> None:
    limiter = Limiter(4, 64)
    tasks = await calls(limiter, 100)
    await asyncio.sleep(0.02)
    assert (limiter.in_flight, limiter.borne) == (4, 0)
    limiter.succeeded(await tasks[0], 1.5)
    limiter.release()
    await until(lambda: limiter.in_flight == 40)  # 4 at once for 15 s at 1.5 s
    await asyncio.sleep(0.02)
    assert limiter.in_flight == 40
    end(tasks)


async def test_a_slow_endpoint_gets_no_more_before_it_has_shown_that_it_keeps_its_pace() -> None:
    limiter = Limiter(4, 64)
    tasks = await calls(limiter, 100)
    limiter.succeeded(await tasks[0], 20.0)
    limiter.release()
    await asyncio.sleep(0.02)
    assert limiter.in_flight == 5  # one for the reply
    end(tasks)


async def test_the_first_refusal_takes_the_last_step_back_and_ends_them() -> None:
    limiter = Limiter(8, 64, likely=64)
    tasks = await calls(limiter, 100)
    await until(lambda: limiter.in_flight >= 8 + 2 * STEP)
    reached = limiter.limit
    limiter.refused(await tasks[0], 0.0)
    limiter.release()
    assert limiter.limit == reached - STEP
    await asyncio.sleep(0.02)
    assert limiter.limit == limiter.borne == reached - STEP
    limiter.refused(await tasks[1], 0.0)  # once is enough
    assert limiter.limit == reached - STEP
    end(tasks)


async def test_a_call_without_an_answer_ends_steps_too() -> None:
    limiter = Limiter(8, 64, likely=64)
    limiter.stay()
    tasks = await calls(limiter, 100)
    await asyncio.sleep(0.02)
    assert limiter.in_flight == 8
    end(tasks)


async def test_a_risen_latency_ends_steps() -> None:
    limiter = Limiter(1, 64)
    for _ in range(SETTLED + 1):
        limiter.succeeded(0.0, 0.01)
    for _ in range(100):
        limiter.succeeded(0.0, 0.01 * HOLDS * 1.5)
    tasks = await calls(limiter, 100)
    await asyncio.sleep(0.02)
    assert limiter.in_flight == limiter.limit < 64
    end(tasks)


async def test_a_run_that_ends_takes_no_step_any_more() -> None:
    limiter = Limiter(2, 64, likely=64)
    end(await calls(limiter, 10))
    await asyncio.sleep(0.02)
    assert limiter.limit == 2


async def test_what_an_endpoint_bore_is_remembered_for_the_next_run(tmp_path: Path) -> None:
    cache = tmp_path / "deep" / "cache.db"
    first = Limiters(KnownLimits(cache))
    tasks = await calls(first.get(KEY, 4, 64, hosted=True), 100)
    await until(lambda: first.get(KEY, 4, 64).in_flight == 64)
    end(tasks)
    first.get(("http://127.0.0.1:2/v1", "other", ""), 4, 64)
    first.close()
    second = Limiters(KnownLimits(cache))
    assert second.get(KEY, 4, 20).limit == 4
    tasks = await calls(second.get(KEY, 4, 20), 100)
    await until(lambda: second.get(KEY, 4, 20).in_flight == 20)
    end(tasks)
    known = KnownLimits(cache)
    assert (known.get(KEY), known.get(("http://127.0.0.1:2/v1", "other", ""))) == (64, 0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b"}', '{"a": -1}', "[" * 100_000])
async def test_a_damaged_memory_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "cache.db.limits").write_text(text, encoding="utf-8")
    known = KnownLimits(tmp_path / "cache.db")
    assert known.get(KEY) == 0
    known.remember({KEY: 9})
    assert KnownLimits(tmp_path / "cache.db").get(KEY) == 9


async def test_only_so_many_endpoints_are_remembered(tmp_path: Path) -> None:
    known = KnownLimits(tmp_path / "cache.db")
    known.remember({(str(number),): 1 + number for number in range(MOST + 5)})
    assert (known.get(("4",)), known.get(("5",))) == (0, 6)

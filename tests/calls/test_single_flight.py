from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry
from evalflow.calls.single_flight import SingleFlight, UnreadableEntry
from evalflow.errors import InfrastructureError, JudgeError
from evalflow.records import Spend, Usage

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


class Model:
    """Answers when it is told to, and counts how often it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.error = error

    async def __call__(self) -> tuple[tuple[str, bool], Entry]:
        self.asked += 1
        number = self.asked
        await self.go.wait()
        if self.error:
            raise self.error
        return (f"fresh {number}", False), Entry(body=b"%d" % number)


def read(entry: Entry, free: bool) -> tuple[str, bool]:
    return f"known {entry.body.decode()}", free


async def started(*calls: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0.01)
    return tasks


async def test_equal_keys_under_way_are_asked_once() -> None:
    once, model = SingleFlight(), Model()
    tasks = await started(*(once(KEY, model, read) for _ in range(5)), once(b"other", model, read))
    model.go.set()
    done = [await task for task in tasks]
    assert model.asked == 2
    assert done == [("fresh 1", False), *[("known 1", True)] * 4, ("fresh 2", False)]


async def test_without_a_cache_a_later_call_asks_again() -> None:
    once, model = SingleFlight(), Model()
    model.go.set()
    assert [await once(KEY, model, read) for _ in range(2)] == [("fresh 1", False), ("fresh 2", False)]


async def test_with_a_cache_it_does_not(tmp_path: Path) -> None:
    once, model = SingleFlight(Cache(tmp_path / "c.db")), Model()
    model.go.set()
    assert [await once(KEY, model, read) for _ in range(2)] == [("fresh 1", False), ("known 1", True)]
    once.close()


async def test_a_failure_reaches_everybody_its_cost_one(tmp_path: Path) -> None:
    failed = JudgeError("schema", "no valid reply", "raw", Spend(requests=3, usage=Usage(9, 9), cost_usd=1.0))
    once, model = SingleFlight(Cache(tmp_path / "c.db")), Model(failed)
    tasks = await started(*(once(KEY, model, read) for _ in range(3)))
    model.go.set()
    errors = [await asyncio.wait_for(_error(task), 5) for task in tasks]
    assert model.asked == 1
    assert {(type(e), e.error_type, e.raw, str(e)) for e in errors} == {(JudgeError, "schema", "raw", "no valid reply")}
    assert [e.spend for e in errors] == [failed.spend, None, None]
    assert isinstance(await _error((await started(once(KEY, model, read)))[0]), JudgeError)
    assert model.asked == 2  # errors are not remembered
    once.close()


async def test_a_fault_of_everything_is_told_as_it_is() -> None:
    once, model = SingleFlight(), Model(InfrastructureError("gone", "check"))
    tasks = await started(*(once(KEY, model, read) for _ in range(2)))
    model.go.set()
    assert {str(await _error(task)) for task in tasks} == {"gone\n  hint: check"}


async def test_a_failure_that_nobody_waits_for_leaves_no_complaint() -> None:
    """Warnings are errors here: an exception that nobody has fetched would fail this test."""
    once, model = SingleFlight(), Model(JudgeError("timeout", "late"))
    model.go.set()
    with pytest.raises(JudgeError):
        await once(KEY, model, read)


async def test_the_cancellation_of_one_leaves_the_others() -> None:
    once, model = SingleFlight(), Model()
    waiting = await started(*(once(KEY, model, read) for _ in range(3)))
    waiting[1].cancel()
    await asyncio.sleep(0.01)
    model.go.set()
    assert [await waiting[0], await waiting[2]] == [("fresh 1", False), ("known 1", True)]
    assert waiting[1].cancelled()
    assert model.asked == 1


async def test_when_the_one_that_asks_is_cancelled_another_takes_over() -> None:
    once, model = SingleFlight(), Model()
    waiting = await started(*(once(KEY, model, read) for _ in range(3)))
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    model.go.set()
    assert [await waiting[1], await waiting[2]] == [("fresh 2", False), ("known 2", True)]


async def test_what_cannot_be_read_is_asked_again_and_replaced(tmp_path: Path) -> None:
    def strict(entry: Entry, free: bool) -> tuple[str, bool]:
        if entry.body == b"1":
            raise UnreadableEntry("an older one")
        return read(entry, free)

    once, model = SingleFlight(Cache(tmp_path / "c.db")), Model()
    model.go.set()
    values = [await once(KEY, model, strict) for _ in range(3)]
    assert values == [("fresh 1", False), ("fresh 2", False), ("known 2", True)]
    once.close()


async def test_callers_of_one_key_look_for_it_afar_once() -> None:
    looked: list[bytes] = []

    class Afar(SingleFlight):
        async def _find(self, key: bytes, unreadable: Entry | None) -> Entry | None:
            looked.append(key)
            await asyncio.sleep(0.01)
            return Entry(body=b"afar") if key == KEY else None

    once, model = Afar(), Model()
    model.go.set()
    tasks = await started(*(once(key, model, read) for key in (KEY, KEY, b"other", b"other")))
    assert [await task for task in tasks] == [
        ("known afar", True),
        ("known afar", True),
        ("fresh 1", False),
        ("known 1", True),
    ]
    assert looked == [KEY, b"other"]


async def _error(task: asyncio.Task[Any]) -> Any:
    with pytest.raises(Exception) as failed:  # noqa: PT011 - which one it is, is what is tested
        await task
    return failed.value

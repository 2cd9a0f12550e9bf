from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.calls.budget import REPLY_TOKENS, Account, Amount, Budget, RunNote
from evalflow.calls.http import HttpRequest
from evalflow.config.judges import Price
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError, UserError
from evalflow.records import Usage

PRICE = Price(input_per_million=1.0, output_per_million=10.0)


def budget(**limits: Any) -> Budget:
    return Budget(BudgetConfig(**limits))


def post(size: int) -> HttpRequest:
    return HttpRequest("POST", "/p", bytes(size), 1.0)


@pytest.mark.anyio
async def test_a_reservation_is_what_a_call_may_take_and_a_settlement_what_it_took() -> None:
    run = budget(usd=1, requests=10, tokens=10_000)
    account = Account(run, PRICE, 100)
    reserved = await account.reserve(post(1000))
    assert reserved == Amount(1, 500, 0.0014)
    run.settle(reserved, account.actual(Usage(200, 10)))
    assert run.spent == Amount(1, 210, 0.0003)
    assert (await Account(run, None, None).reserve(post(0))) == Amount(1, REPLY_TOKENS, 0.0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"usd": 0.0005}, "budget.usd=0.0005"),
        ({"requests": 0}, "budget.requests=0"),
        ({"tokens": 400}, "budget.tokens"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_key_to_raise(limits: dict[str, Any], named: str) -> None:
    with pytest.raises(BudgetError, match=named) as refused:
        await Account(budget(**limits), PRICE, 100).reserve(post(1000))
    assert "resume" in str(refused.value)


@pytest.mark.anyio
async def test_it_waits_for_what_is_in_flight_before_it_refuses() -> None:
    run = budget(tokens=100)
    first = Amount(1, 90)
    await run.reserve(first)
    second = asyncio.create_task(run.reserve(Amount(1, 60)))
    third = asyncio.create_task(run.reserve(Amount(1, 60)))
    await asyncio.sleep(0.01)
    assert not second.done()
    assert not third.done()
    run.settle(first, Amount(1, 30))
    await second
    await asyncio.sleep(0.01)
    assert not third.done()
    run.settle(Amount(1, 60), Amount(1, 60))
    with pytest.raises(BudgetError, match="90 is spent, and the next call may take 60"):
        await third


@pytest.mark.anyio
async def test_who_gives_up_waiting_takes_nothing_with_him() -> None:
    run = budget(requests=1)
    held = Amount(1)
    await run.reserve(held)
    waiting = asyncio.create_task(run.reserve(Amount(1)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    run.settle(held, Amount())
    await asyncio.wait_for(run.reserve(Amount(1)), 1)


@settings(max_examples=50)
@given(st.integers(0, 2000), st.integers(0, 40), st.integers(1, 20), st.randoms(use_true_random=False))
def test_it_is_never_exceeded_where_reservations_hold(
    tokens: int, requests: int, width: int, chance: random.Random
) -> None:
    """Any number of workers, any order: what is spent stays within both limits, and all end."""
    run = budget(tokens=tokens, requests=requests)
    refused = 0

    async def worker() -> None:
        nonlocal refused
        for _ in range(5):
            reserved = Amount(1, chance.randint(1, 200))
            try:
                await run.reserve(reserved)
            except BudgetError:
                refused += 1
                return
            await asyncio.sleep(0)
            run.settle(reserved, Amount(chance.randint(0, 1), chance.randint(0, reserved.tokens)))
            assert run.spent.tokens <= tokens
            assert run.spent.requests <= requests

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(width):
                group.create_task(worker())

    asyncio.run(asyncio.wait_for(work(), 10))
    assert refused or run.spent.requests <= width * 5


@pytest.mark.anyio
async def test_what_an_earlier_part_of_the_run_has_spent_counts() -> None:
    run = Budget(BudgetConfig(requests=3), Amount(requests=2))
    await run.reserve(Amount(1))
    run.settle(Amount(1), Amount(1))
    with pytest.raises(BudgetError, match="3 is spent"):
        await run.reserve(Amount(1))


@pytest.mark.anyio
async def test_a_note_has_what_is_spent_and_what_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    run = budget(requests=9, usd=1)
    run.take_up(Amount(5, 5, 0.5), Amount(), RunNote.read(path))
    run.keep_note(path)
    assert RunNote.read(path) == RunNote(Amount(), Amount(), 0)
    await run.reserve(Amount(1, 60, 0.1))
    await run.reserve(Amount(1, 60, 0.1))
    assert RunNote.read(path) == RunNote(Amount(2, 120, 0.2), Amount(2, 120, 0.2), 0)
    run.settle(Amount(1, 60, 0.1), Amount(1, 20, 0.05))
    run.settle(Amount(1, 60, 0.1), Amount(1, 20, 0.05))
    run.close()
    assert RunNote.read(path) == RunNote(run.spent - Amount(5, 5, 0.5), Amount(), 0)


def test_what_no_record_has_counts_once_even_if_its_reply_turns_up(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    killed = budget(requests=20)
    killed.keep_note(path)
    for _ in range(4):
        asyncio.run(killed.reserve(Amount(1, 60)))
    run = budget(requests=20)
    run.take_up(Amount(), Amount(1, 10), RunNote.read(path))
    assert (run.spent, run.lost_requests) == (Amount(4, 240), 3)
    run.claim(Amount(2, 300))  # a reply that the cache has, and its re-ask
    assert (run.spent, run.lost_requests) == (Amount(4, 310), 1)
    run.keep_note(path)
    again = budget(requests=20)
    again.take_up(Amount(), Amount(3, 310), RunNote.read(path))
    assert (again.spent, again.lost_requests) == (Amount(4, 310), 1)


def test_an_empty_note_is_none_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    path.touch()
    assert RunNote.read(path) is None
    path.write_text('{"used": 3}', encoding="utf-8")
    with pytest.raises(UserError, match="not a record of a run's spending"):
        RunNote.read(path)

"""Workers of one run over one coordinator, all in one event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest

from evalflow.addons.cluster import coordinator_client
from evalflow.addons.cluster.coordinator import Coordinator
from evalflow.addons.cluster.coordinator_client import CoordinatorClient
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.calls.budget import Amount, Budget
from evalflow.calls.cache_store import Entry
from evalflow.calls.client import CallSession
from evalflow.calls.shared_cache import SharedCache
from evalflow.calls.single_flight import UnreadableEntry
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError, InfrastructureError, JudgeError, Problem, UserError
from evalflow.records import Spend, Usage
from tests.addons.cluster.coordinator_workers import MemoryCache, hurry, joined

KEY = b"k" * 32
LIMITER = ("https://models.example/v1", "small", "KEY")
COST = Amount(1, 10, 0.5)


class Model:
    """Answers after a while, and counts how often it was asked for each key, and how many at once."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: Counter[bytes] = Counter()
        self.error = error
        self.in_flight = self.most = 0

    async def answer(self, key: bytes) -> tuple[str, Entry]:
        self.asked[key] += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(0.05)
        finally:
            self.in_flight -= 1
        if self.error:
            raise self.error
        return "paid", Entry(body=key, usage=Usage(7, 3))

    async def is_asked(self, key: bytes) -> None:
        """Wait until it is."""
        while not self.asked[key]:
            await asyncio.sleep(0.001)

    def call(self, session: CallSession, key: bytes = KEY) -> Awaitable[str]:
        """A call as judges make it."""
        limiter = session.limiters.get(LIMITER, 64, 64)

        async def ask() -> tuple[str, Entry]:
            if session.budget:
                await session.budget.reserve(COST)
            spent = COST
            try:
                async with limiter.slot():
                    return await self.answer(key)
            finally:
                if session.budget:
                    session.budget.settle(COST, spent)

        return session.single_flight(key, ask, said, lambda _: 0.5)


def said(entry: Entry, free: bool) -> str:
    return "free" if free else "owed"


def key(number: int) -> bytes:
    return b"%-32d" % number


async def together(calls: list[Awaitable[str]]) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_awaited(call)) for call in calls]
    return [task.result() for task in tasks]


async def _awaited(call: Awaitable[str]) -> str:
    return await call


def test_what_several_workers_want_is_asked_once() -> None:
    async def work() -> None:
        model, coordinator = Model(), Coordinator(MemoryCache())
        clients = [joined(coordinator, name) for name in "abc"]
        sessions = [one.session() for one in clients]
        answers = await together([model.call(one, key(n)) for n in range(20) for one in sessions for _ in range(2)])
        assert Counter(answers) == {"paid": 20, "free": 100}
        assert set(model.asked.values()) == {1}
        assert await model.call(sessions[1], key(3)) == "free"
        for one in clients:
            await one.close()

    hurry(work())


class Shared(SharedCache):
    """A shared cache that answers after a while."""

    def __init__(self, *keys: bytes) -> None:
        super().__init__("postgresql://nowhere")
        self.entries = {key: Entry(body=b"shared", run_id="another") for key in keys}
        self.looked: list[bytes] = []

    async def get(self, key: bytes) -> Entry | None:
        self.looked.append(key)
        await asyncio.sleep(0.1)
        return self.entries.get(key)

    def put(self, key: bytes, entry: Entry) -> None:
        self.entries[key] = entry


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_shared_cache_is_looked_into_once_for_all(cancelled: bool) -> None:
    async def work() -> None:
        model, shared = Model(), Shared(KEY)
        coordinator = Coordinator(MemoryCache(), shared)
        sessions = [joined(coordinator, name).session() for name in "abc"]
        first = [asyncio.ensure_future(model.call(sessions[0], one)) for one in (KEY, b"o" * 32)]
        await asyncio.sleep(0.05)
        for task in first if cancelled else ():
            task.cancel()
        others = await together([model.call(one, key) for one in sessions[1:] for key in (KEY, b"o" * 32)])
        assert Counter(others) == ({"free": 3, "paid": 1} if cancelled else {"free": 4})
        assert sorted(shared.looked) == [KEY, b"o" * 32]
        assert model.asked == {b"o" * 32: 1}
        assert shared.entries[b"o" * 32].run_id == "run"
        coordinator.close()

    hurry(work())


def test_a_failure_reaches_all_who_wait_once_and_costs_one() -> None:
    async def work() -> None:
        failed = JudgeError("schema", "no valid reply", "raw", Spend(requests=3, cost_usd=1.0))
        model, coordinator = Model(failed), Coordinator(MemoryCache())
        sessions = [joined(coordinator, name).session() for name in "abc"]
        errors = await asyncio.wait_for(_errors([model.call(one) for one in sessions for _ in range(2)]), 5)
        assert {(type(e), e.error_type, str(e), e.raw) for e in errors} == {
            (JudgeError, "schema", "no valid reply", "raw")
        }
        assert Counter(e.spend is None for e in errors) == {True: 5, False: 1}
        assert model.asked[KEY] == 1
        model.error = None
        assert await model.call(sessions[2]) == "paid"

    hurry(work())


@pytest.mark.parametrize(
    "error",
    [
        InfrastructureError("gone", "check"),
        BudgetError("out"),
        UserError([Problem("wrong", "here", "so"), Problem("odd")]),
        ZeroDivisionError("odd"),
    ],
)
def test_a_fault_of_everything_reaches_all_who_wait(error: Exception) -> None:
    async def work() -> None:
        model, coordinator = Model(error), Coordinator(MemoryCache())
        sessions = [joined(coordinator, name).session() for name in "ab"]
        first, second = await _errors([model.call(one) for one in sessions])
        assert first is error
        assert str(error) in str(second)
        assert isinstance(second, InfrastructureError if isinstance(error, ZeroDivisionError) else type(error))

    hurry(work())


def test_another_takes_over_what_was_cancelled() -> None:
    async def work() -> None:
        model, coordinator = Model(), Coordinator(MemoryCache())
        one, other = (joined(coordinator, name).session() for name in "ab")
        call = asyncio.ensure_future(model.call(one))
        await model.is_asked(KEY)
        waiting = asyncio.ensure_future(model.call(other))
        await asyncio.sleep(0.01)
        assert model.asked[KEY] == 1
        call.cancel()
        assert await waiting == "paid"
        assert model.asked[KEY] == 2

    hurry(work())


@pytest.mark.parametrize("after_s", [0.0, 0.0005, 0.0015, 0.002, 0.0025, 0.012])
def test_a_claim_of_a_cancelled_call_is_left_to_others(after_s: float) -> None:
    async def work() -> None:
        model, coordinator = Model(), Coordinator(MemoryCache())
        mine, other = (joined(coordinator, name).session() for name in "ab")
        call = asyncio.ensure_future(model.call(mine))
        await asyncio.sleep(after_s)
        call.cancel()
        assert sorted(await together([model.call(mine), model.call(other)])) == ["free", "paid"]

    hurry(work())


def test_what_cannot_be_read_is_asked_again_and_replaced_by_one() -> None:
    async def work() -> None:
        model, coordinator = Model(), Coordinator(cache := MemoryCache())
        cache.put(KEY, Entry(body=b"old"))

        def strict(entry: Entry, free: bool) -> str:
            if entry.body == b"old":
                raise UnreadableEntry("an older one")
            return said(entry, free)

        async def call(name: str) -> str:
            return await joined(coordinator, name).session().single_flight(KEY, lambda: model.answer(KEY), strict)

        assert sorted(await together([call(name) for name in "abc"])) == ["free", "free", "paid"]
        assert model.asked[KEY] == 1

    hurry(work())


@pytest.mark.parametrize("calls", [900, 300])
def test_a_budget_is_used_up_and_never_exceeded(calls: int) -> None:
    async def work() -> None:
        model, budget = Model(), Budget(BudgetConfig(requests=500))
        coordinator = Coordinator(MemoryCache(), budget=budget)
        clients = [joined(coordinator, name, budget=budget.limits) for name in "abcd"]
        refused = set[str]()

        async def strand(session: CallSession, numbers: range) -> None:
            for number in numbers:
                try:
                    await model.call(session, key(number))
                except BudgetError as error:
                    refused.add(str(error))
                    return

        async with asyncio.TaskGroup() as group:
            for place, client in enumerate(clients):
                session = client.session()
                for turn in range(20):
                    group.create_task(strand(session, range(4 * turn + place, calls, 80)))
        assert sum(model.asked.values()) == min(500, calls)
        told = "the budget ran out; budget.requests=500: 500 is spent, and the next call may take 1"
        assert [one.splitlines()[0] for one in refused] == [told] * (calls > 500)
        for client in clients:
            await client.close()
        assert budget.spent == Amount(min(500, calls), 10 * min(500, calls), 0.5 * min(500, calls))

    hurry(work())


def test_calls_of_all_workers_stay_below_the_maximum_and_use_it() -> None:
    async def work() -> None:
        model, coordinator = Model(), Coordinator(MemoryCache())
        sessions = [joined(coordinator, name).session() for name in "abc"]
        await together([model.call(sessions[n % 3], key(n)) for n in range(600)])
        assert model.most == 64
        await together([model.call(sessions[0], key(n)) for n in range(600, 900)])
        assert model.most == 64

    hurry(work())


def test_more_workers_than_slots_all_get_their_turn() -> None:
    async def work() -> None:
        coordinator, model = Coordinator(MemoryCache()), Model()

        async def call(name: str) -> str:
            client = joined(coordinator, name)
            session = client.session()
            session.limiters.get(LIMITER, 2, 2)
            answers = await together([model.call(session, name.encode() * 16 + key(n)[:16]) for n in range(5)])
            await client.close()
            return answers[0]

        assert set(await together([call(f"{n:02}") for n in range(7)])) == {"paid"}
        assert model.most == 2

    hurry(work())


def test_the_end_of_the_coordinator_ends_all_calls() -> None:
    async def work() -> None:
        coordinator, model = Coordinator(MemoryCache(), budget=(budget := Budget(BudgetConfig(requests=1)))), Model()
        gone = False

        async def send(name: str, message: WorkerMessage) -> CoordinatorReply:
            if gone:
                raise ConnectionError("the node is gone")
            return await coordinator.exchange(name, message)

        client = CoordinatorClient("a", send, budget=budget.limits)
        other = joined(coordinator, "b", budget=budget.limits)
        session = client.session()
        limited = session.limiters.get(("other",), 1, 1)
        under_way = asyncio.ensure_future(model.call(other.session()))
        await asyncio.sleep(0.03)
        waiting = [model.call(session), model.call(session, key(1)), _slot(limited)]
        failed = asyncio.ensure_future(_errors(waiting))
        await asyncio.sleep(0)
        gone = True
        for error in [*await failed, *await _errors([model.call(session, key(2)), _slot(limited)])]:
            assert isinstance(error, InfrastructureError)
            assert "the run's coordinator does not answer: ConnectionError: the node is gone" in str(error)
        await client.close()
        assert await under_way == "paid"

    hurry(work())


def test_a_silent_coordinator_ends_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async def send(*_: object) -> CoordinatorReply:
            await asyncio.sleep(1e9)
            raise AssertionError

        (error,) = await _errors([Model().call(CoordinatorClient("a", send).session())])
        assert "does not answer: no answer within 60 s" in str(error)

    hurry(work())


def test_a_worker_that_was_given_up_can_make_no_more_calls() -> None:
    async def work() -> None:
        coordinator, model = Coordinator(cache := MemoryCache()), Model()
        client = joined(coordinator, "a")
        session = client.session()
        call = asyncio.ensure_future(model.call(session))
        await model.is_asked(KEY)
        coordinator.lost("a", ())
        await call
        assert coordinator.totals.unaccounted_requests == 1
        (error,) = await _errors([model.call(session, key(1))])
        assert "the run gave up worker a" in str(error)
        assert cache.get(KEY)  # what it has paid for is kept
        assert await model.call(joined(coordinator, "b").session()) == "owed"

    hurry(work())


def test_after_the_end_of_a_worker_its_calls_fail() -> None:
    async def work() -> None:
        coordinator, model = Coordinator(MemoryCache()), Model()
        client = joined(coordinator, "a")
        session = client.session()
        await model.call(session)
        await client.close()
        (error,) = await _errors([model.call(session, key(1))])
        assert "has ended" in str(error)
        await joined(coordinator, "b").close()

    hurry(work())


def test_what_was_seen_lately_needs_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(coordinator_client, "RECENT_BYTES", 10 * (500 + 32))
        model, coordinator = Model(), Coordinator(MemoryCache())
        session = joined(coordinator, "a").session()
        await together([model.call(session, key(n)) for n in range(20)])
        known = [n for n in range(20) if session.single_flight.known(key(n))]
        assert len(known) == 10

    hurry(work())


async def _slot(limiter: Any) -> str:
    async with limiter.slot():
        return "held"


async def _errors(calls: list[Awaitable[str]]) -> list[Any]:
    async def error(call: Awaitable[str]) -> Exception:
        with pytest.raises(Exception) as failed:  # noqa: PT011 - which one it is, is what is tested
            await call
        return failed.value

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(error(call)) for call in calls]
    return [task.result() for task in tasks]

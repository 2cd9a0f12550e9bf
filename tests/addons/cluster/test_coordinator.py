"""The rules of the coordinator, whatever its workers do and whenever they are lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.cluster.budget_leases import BudgetLeases, LeaseUse
from evalflow.addons.cluster.coordinator import Coordinator
from evalflow.addons.cluster.coordinator_client import CoordinatorClient
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.addons.cluster.slot_shares import SlotShares, SlotUse, divided
from evalflow.addons.cluster.worker import CoordinatorSpec
from evalflow.calls.budget import UNITS, Amount, Budget, Lease, RunNote
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, short
from evalflow.calls.client import CallSession
from evalflow.config.schema import BudgetConfig, CacheConfig
from evalflow.errors import BudgetError, InfrastructureError, JudgeError
from evalflow.records import Spend, Usage
from tests.addons.cluster.coordinator_workers import MemoryCache, hurry

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
KEY = b"k" * 32
ENTRY = Entry(body=b"reply", usage=Usage(70, 30))
CHANCES = st.builds(random.Random, st.integers(0, 2**32))


@given(st.integers(0, 40), st.lists(st.integers(0, 60), max_size=12))
def test_slots_are_divided_fairly_and_none_is_left_while_somebody_wants_more(slots: int, wanted: list[int]) -> None:
    shares = divided(slots, wanted)
    wanting = sum(want > 0 for want in wanted)
    assert sum(shares) == (slots if wanting else 0)
    for share, want in zip(shares, wanted, strict=True):
        assert share >= min(want, slots // max(1, wanting))
        assert want or not share


@given(st.integers(1, 12), st.integers(2, 6), CHANCES)
def test_calls_in_flight_stay_below_the_maximum_however_late_shares_are_known(
    maximum: int, workers: int, chance: random.Random
) -> None:
    """Workers start and end calls while their reports and the answers are on the way, and some are lost."""
    shares = SlotShares()
    known, flying, sent = Counter[int](), Counter[int](), dict[int, int]()
    wanted = Counter(dict.fromkeys(range(workers), 3))
    for _ in range(300):
        worker = chance.randrange(workers)
        match chance.randrange(7):
            case 0 if worker not in sent:
                use = SlotUse(maximum, max(wanted[worker], flying[worker]), flying[worker])
                sent[worker] = shares.report(str(worker), use)
            case 1 if worker in sent:
                known[worker] = sent.pop(worker)
            case 2:
                flying[worker] = max(0, flying[worker] - chance.randrange(3))
            case 3:
                wanted[worker] = chance.randrange(2 * maximum)
            case 4 if not chance.randrange(8):
                shares.lost(str(worker))
                for lost in (known, flying, sent):
                    lost.pop(worker, None)
            case _:
                flying[worker] = max(flying[worker], min(known[worker], wanted[worker]))
        assert sum(flying.values()) <= maximum
    wanted = Counter(dict.fromkeys(range(workers), maximum))
    for _ in range(4):
        found = [shares.report(str(worker), SlotUse(maximum, maximum, 0)) for worker in range(workers)]
    assert sum(found) == maximum
    assert min(found) >= maximum // workers


@given(st.integers(0, 60), st.integers(0, 3000), st.floats(0, 5), st.integers(1, 5), st.booleans(), CHANCES)
def test_what_is_spent_and_leased_never_exceeds_a_limit(
    requests: int, tokens: int, usd: float, workers: int, lent: bool, chance: random.Random
) -> None:
    """Workers spend from their leases, return parts of them, want more, and are lost with what they have."""
    limits: dict[str, Any] = {"requests": requests, "tokens": tokens, "usd": usd}
    budget = Budget(BudgetConfig(), lease=Lease(id=1, **limits)) if lent else Budget(BudgetConfig(**limits))
    coordinator, leases, lost = BudgetLeases(budget), dict[str, Amount](), 0
    for _ in range(150):
        worker = str(chance.randrange(workers))
        lease = leases.get(worker, Amount())
        if not chance.randrange(20):
            lost += coordinator.lost(worker)
            leases.pop(worker, None)
        else:
            part, kept = chance.random(), chance.choice([0.0, chance.random(), 1.0])
            spent = Amount(int(lease.requests * part), int(lease.tokens * part), lease.usd * part)
            rest = lease - spent
            rest = Amount(int(rest.requests * kept), int(rest.tokens * kept), rest.usd * kept)
            needed = Amount(1, chance.randrange(300), chance.random()) if chance.randrange(3) else None
            ahead = Amount(chance.randrange(9), chance.randrange(900), chance.random())
            grant = coordinator.report(worker, LeaseUse(spent, rest, needed, ahead), workers)
            leases[worker] = rest + grant.granted
            if needed and grant.granted != Amount():
                assert all(getattr(grant.granted, unit) >= getattr(needed, unit) for unit in UNITS)
            if grant.refused:
                assert all(one == Amount() for one in leases.values())
        for unit in UNITS:
            held = sum(getattr(one, unit) for one in leases.values())
            assert getattr(budget.spent, unit) + held <= limits[unit] + 1e-9
    for worker in leases:
        coordinator.lost(worker)
    assert coordinator.report("last", LeaseUse(Amount(), Amount(), Amount(requests + 1)), 1).refused


async def test_a_worker_waits_for_what_others_hold_and_gets_what_they_return() -> None:
    coordinator = BudgetLeases(Budget(BudgetConfig(requests=10)))
    assert coordinator.report("a", LeaseUse(Amount(), Amount(), Amount(10)), 2).granted == Amount(10)
    waits = LeaseUse(Amount(), Amount(), Amount(2), Amount(8))
    assert coordinator.report("b", waits, 2).granted == Amount()
    told = coordinator.report("a", LeaseUse(Amount(3), Amount(7), None, Amount(50)), 2)
    assert (told.scarce, told.granted) == (True, Amount())
    assert coordinator.report("a", LeaseUse(Amount(), Amount(4)), 2).scarce
    granted = coordinator.report("b", waits, 2)
    assert (granted.granted, granted.refused) == (Amount(2), "")
    assert not coordinator.report("a", LeaseUse(Amount(4), Amount()), 2).scarce
    assert coordinator.report("b", LeaseUse(Amount(2), Amount(), Amount(2)), 2).refused.startswith("the budget ran out")


def test_what_all_workers_hold_is_noted_for_a_run_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "budget.json"
    spec = CoordinatorSpec(
        run_id="r",
        cache=CacheConfig(path=str(tmp_path / "cache.db")),
        budget=BudgetConfig(requests=100),
        spent=Amount(5),
        before=Amount(2),
        unaccounted=Amount(1),
        lost_requests=1,
        sent=Amount(),
        lease=None,
        settled=(),
        counted=False,
        note=note,
    )
    coordinator = spec.build()
    assert RunNote.read(note) == RunNote(Amount(3), Amount(), 1)
    leases = coordinator._leases
    assert leases is not None
    use = LeaseUse(Amount(1), Amount(), Amount(2), Amount(8))
    first = leases.report("a", use, 2).granted
    held = first + leases.report("b", use, 2).granted
    assert held.requests >= 4
    assert RunNote.read(note) == RunNote(Amount(5) + held, held, 1)  # before it is granted
    leases.lost("a")
    leases.report("b", LeaseUse(Amount(1), Amount()), 1)
    coordinator.close()
    assert RunNote.read(note) == RunNote(Amount(6) + first, Amount(), 1)


def test_a_lease_of_a_project_notes_what_all_workers_hold(tmp_path: Path) -> None:
    budget = Budget(BudgetConfig(), lease=Lease(id=4, folder=tmp_path, requests=20))
    coordinator = BudgetLeases(budget)
    note = tmp_path / "lease.json"
    coordinator.report("a", LeaseUse(Amount(), Amount(), Amount(1), Amount(40)), 1)
    assert '"used": {"requests": 5,' in note.read_text()
    coordinator.report("a", LeaseUse(Amount(3), Amount()), 1)
    assert '"used": {"requests": 3,' in note.read_text()
    assert (
        "part of the project's budget" in coordinator.report("a", LeaseUse(Amount(), Amount(), Amount(18)), 1).refused
    )
    assert '"wanted": {"requests": 18,' in note.read_text()


async def test_replies_are_kept_in_the_cache_and_found_there_by_later_runs(tmp_path: Path) -> None:
    for run, (payment, asked) in {"first": (None, 1), "second": ("settled", 0)}.items():
        coordinator = Coordinator(Cache(tmp_path / "cache.db", run_id=run))
        reply = await coordinator.exchange("a", WorkerMessage(asked=[(KEY, None)]))
        assert len(reply.yours) == asked
        assert [one[2] for one in reply.replies] == [payment] * (1 - asked)
        await coordinator.exchange("a", WorkerMessage(made=[(KEY, ENTRY)] * asked, last=True))
        coordinator.close()


async def test_who_pays_for_a_reply_of_a_worker_that_was_lost() -> None:
    coordinator = Coordinator(MemoryCache())
    keys = [b"%-32d" % number for number in range(4)]
    await coordinator.exchange("a", WorkerMessage(made=[(key, ENTRY) for key in keys]))
    assert await payments(coordinator, "a", keys) == ["settled"] * 4
    assert await payments(coordinator, "b", keys) == ["elsewhere"] * 4
    coordinator.lost("a", {short(keys[0])})
    assert await payments(coordinator, "b", keys[:3]) == ["elsewhere", "lost", "lost"]
    assert await payments(coordinator, "b", keys[:3]) == ["elsewhere", "settled", "settled"]
    assert await payments(coordinator, "c", keys) == ["elsewhere", "elsewhere", "elsewhere", "lost"]
    await coordinator.exchange("b", WorkerMessage(unbilled=[keys[1]]))
    coordinator.lost("b", {short(keys[0]), short(keys[2])})
    assert await payments(coordinator, "c", keys) == ["elsewhere", "lost", "elsewhere", "settled"]
    assert await payments(coordinator, "a", keys) == []
    coordinator.lost("a", ())
    coordinator.lost("never seen", ())
    coordinator.lost("c", None)
    assert await payments(coordinator, "d", keys) == ["elsewhere", "elsewhere", "elsewhere", "elsewhere"]


@pytest.mark.parametrize("counted", [True, False])
async def test_what_an_earlier_part_of_the_run_paid_for_and_did_not_note_is_billed_once(counted: bool) -> None:
    cache, budget = MemoryCache(), Budget(BudgetConfig(usd=100.0))
    noted, left = b"n" * 32, b"l" * 32
    for key in (noted, left):
        cache.put(key, ENTRY)
    coordinator = Coordinator(cache, budget=budget, settled=[short(noted)], counted=counted)
    assert await payments(coordinator, "a", [noted, left]) == ["settled", "before"]
    coordinator.lost("a", ())
    assert await payments(coordinator, "b", [noted, left]) == ["settled", "before"]
    spend = Spend(requests=1, usage=ENTRY.usage, cost_usd=0.25)
    await coordinator.exchange("b", WorkerMessage(billed=[(left, spend)]))
    coordinator.lost("b", ())
    assert await payments(coordinator, "c", [left]) == ["lost"]
    assert coordinator.totals.billed.cost_usd == (0.25 if counted else 0.0)
    assert coordinator.totals.spent == (Amount() if counted else Amount(1, 100, 0.25))


async def payments(coordinator: Coordinator, worker: str, keys: list[bytes]) -> list[str]:
    return [
        one[2]
        for one in (await coordinator.exchange(worker, WorkerMessage(asked=[(key, None) for key in keys]))).replies
    ]


class Run:
    """The driver of a run: it gives cells to workers, takes their records, and replaces workers that are lost.

    A cell asks for some keys; its record names those that it pays for.
    """

    def __init__(self, coordinator: Coordinator, cells: list[list[int]], chance: random.Random) -> None:
        self.coordinator, self.cells, self.chance = coordinator, cells, chance
        self.queue = deque(range(len(cells)))
        self.records: dict[int, list[bytes]] = {}
        self.sent = self.in_flight = self.most = 0
        self.refused = False
        self.replies = Counter[bytes]()
        self.taken: dict[str, set[int]] = {}
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self.killed: set[str] = set()
        self.clients: list[CoordinatorClient] = []

    def begin(self, name: str) -> None:
        async def send(worker: str, message: WorkerMessage) -> CoordinatorReply:
            await asyncio.sleep(0.002 * self.chance.random())
            if name in self.killed and self.chance.random() < 0.5:
                raise ConnectionError
            reply = await self.coordinator.exchange(worker, message)
            await asyncio.sleep(0.002 * self.chance.random())
            if name in self.killed:
                raise ConnectionError
            return reply

        client = CoordinatorClient(name, send, budget=BudgetConfig(requests=10_000))
        self.clients.append(client)
        self.taken[name] = set()
        self.tasks[name] = [asyncio.create_task(self.work(name, client.session())) for _ in range(4)]

    async def work(self, name: str, session: CallSession) -> None:
        while len(self.records) < len(self.cells) and not self.refused:
            if name not in self.taken or not self.queue:
                await asyncio.sleep(0.01)
                continue
            cell = self.queue.popleft()
            self.taken[name].add(cell)
            try:
                paid = [key for key in self.cells[cell] if await self.pays(session, b"%-32d" % key)]
            except InfrastructureError:
                return  # it was given up
            except BudgetError:
                self.refused = True
                return
            await asyncio.sleep(0.005 * self.chance.random())
            if name in self.taken:
                self.taken[name].discard(cell)
                self.records[cell] = [b"%-32d" % key for key in paid]

    async def pays(self, session: CallSession, key: bytes) -> bool:
        assert session.budget
        budget, limiter = session.budget, session.limiters.get(("endpoint",), 3, 5)

        async def ask() -> tuple[bool, Entry]:
            await budget.reserve(Amount(1))
            try:
                async with limiter.slot():
                    self.sent += 1
                    self.in_flight += 1
                    self.most = max(self.most, self.in_flight)
                    try:
                        await asyncio.sleep(0.03 * self.chance.random())
                    finally:
                        self.in_flight -= 1
                    if self.chance.random() < 0.1:
                        raise JudgeError("timeout", "late", None, Spend(requests=1))
                    self.replies[key] += 1
                    return True, ENTRY
            finally:
                budget.settle(Amount(1), Amount(1))

        try:
            return await session.single_flight(key, ask, lambda _, free: not free)
        except JudgeError:
            return False

    def lose(self, name: str, silent: bool) -> None:
        """Give a worker up; a silent one goes on and learns of it later."""
        cells = self.taken.pop(name)
        if not silent:
            self.killed.add(name)
            for task in self.tasks.pop(name):
                task.cancel()
        self.coordinator.lost(name, [short(key) for paid in self.records.values() for key in paid])
        self.queue.extendleft(cells)
        self.begin(f"{name}+")

    async def end(self) -> None:
        async with asyncio.timeout(60):
            for tasks in self.tasks.values():
                await asyncio.wait(tasks)
            for client in self.clients:
                await client.close()


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=40),
    st.lists(st.tuples(st.floats(0, 0.05), st.booleans()), max_size=6),
    st.integers(1, 4),
    st.sampled_from([1000, 40, 10]),
    CHANCES,
)
def test_each_reply_is_paid_and_billed_once_over_losses(
    cells: list[list[int]], losses: list[tuple[float, bool]], workers: int, limit: int, chance: random.Random
) -> None:
    async def work() -> None:
        budget, cache = Budget(BudgetConfig(requests=limit)), MemoryCache()
        run = Run(Coordinator(cache, budget=budget), cells, chance)
        for number in range(workers):
            run.begin(f"{number}")
        for seconds, silent in losses:
            await asyncio.sleep(seconds)
            run.lose(chance.choice(list(run.taken)), silent)
        await run.end()
        assert budget.spent.requests - run.coordinator.totals.unaccounted_requests <= run.sent <= budget.spent.requests
        assert budget.spent.requests <= limit
        assert run.most <= 5 or any(silent for _, silent in losses)
        billed = Counter(key for paid in run.records.values() for key in paid)
        assert billed <= run.replies
        if not run.refused:
            assert len(run.records) == len(cells)
            assert billed >= Counter(cache.entries.keys())
        if not losses:
            assert max(run.replies.values(), default=1) == 1
            assert budget.spent.requests == run.sent

    hurry(work())

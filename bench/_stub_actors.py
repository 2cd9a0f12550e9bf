"""The driver and the coordinator of a cluster run with actors that do nothing: without Ray, without calls.

What Ray would have the same process do is in: messages are packed and unpacked. Ray's own transport is not, nor what
the actors take.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from _lab import SENTENCE, resident_mib

from evalflow.addons.cluster.budget_leases import LeaseUse
from evalflow.addons.cluster.coordinator import BEAT_EACH_S, BEAT_S, Coordinator
from evalflow.addons.cluster.driver import ClusterPipeline
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.addons.cluster.shards import CaseWork
from evalflow.addons.cluster.slot_shares import SlotUse
from evalflow.addons.cluster.worker import RunSpec, WorkerReport
from evalflow.calls.budget import Amount, Budget
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry
from evalflow.config.schema import BudgetConfig
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import JournalSink
from evalflow.engine.pipeline import RunPlan
from evalflow.records import Case, Message, ScoreRecord, Spend, Usage

A_STEP = 20  # cases that an actor has finished when it reports: what 1,000 a second make in 20 ms
WIDTH = 100
SHARD = 64
A_SECOND = 10_000  # calls, over all workers: so many are in the messages of a coordinator
LONG = SENTENCE * 5
REASON = "Each sentence follows from the one before, and only the last is loosely joined. " * 3
SCORED = ScoreRecord(
    run_id="bench",
    dataset="rag",
    index=0,
    case_id="",
    group=None,
    tags=(),
    target="recorded",
    target_repeat=0,
    metric="coherence",
    metric_version=1,
    judge="m",
    repeat=0,
    status="scored",
    score=0.75,
    value=4,
    reason=REASON,
    input_tokens=500,
    output_tokens=60,
    cost_usd=0.001,
    latency_s=0.05,
    finished_at="2026-11-22T10:00:00.000+00:00",
)


@dataclass(slots=True)
class DriverCost:
    """What the driver took: CPU seconds of its thread, and the most MiB beyond those of the first tenth."""

    cells: int
    cpu_s: float
    grown_mib: float

    @property
    def a_second(self) -> float:
        return self.cells / self.cpu_s


class StubCrew:
    """Actors whose cases are done as soon as they have them. `own_s`: the stubs' own CPU seconds."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.own_s = 0.0
        self._hired = 0

    async def hire(self) -> StubActor:
        self._hired += 1
        return StubActor(f"actor {self._hired}", self)

    async def lost(self, actor: object, paid: Collection[int]) -> None:
        raise AssertionError

    async def release(self, actor: object) -> None:
        """Nothing to keep."""


class StubActor:
    def __init__(self, name: str, crew: StubCrew) -> None:
        self.name = name
        self._crew = crew
        self._queue: deque[CaseWork] = deque()

    async def begin(self, spec: RunSpec) -> None:
        """Ready at once."""

    async def step(self, cases: list[CaseWork], *, stop: bool) -> WorkerReport:
        pickle.dumps(cases, pickle.HIGHEST_PROTOCOL)
        began = time.thread_time()
        self._queue += cases
        taken = [self._queue.popleft() for _ in range(min(A_STEP, len(self._queue)))]
        numbers = [work.number for work in taken]
        report = WorkerReport(begun=numbers, done=numbers, records=[self._scored(work) for work in taken])
        packed = pickle.dumps(report, pickle.HIGHEST_PROTOCOL)
        self._crew.own_s += time.thread_time() - began
        await asyncio.sleep(0)
        return pickle.loads(packed)

    @staticmethod
    def _scored(work: CaseWork) -> ScoreRecord:
        bill = Spend(requests=1, usage=Usage(500, 60), cost_usd=0.001, latency_s=0.05, paid=(work.number,))
        return replace(SCORED, index=work.case.index, case_id=work.case.id, bill=bill)


def driver_cost(folder: Path, cells: int, actors: int) -> DriverCost:
    """Have the driver deal so many cases of one cell, and write what comes back."""
    crew, tally, memory = StubCrew(actors), Tally(expected=cells), list[float]()
    sink = JournalSink(RunFolder(folder), tally)
    nothing = cast(Any, None)  # neither target nor specification are asked for anything but this
    plan = RunPlan(run_id="bench", target=nothing, pairs=())
    spec = cast(RunSpec, _Width(WIDTH))
    pipeline = ClusterPipeline(plan, sink, tally, crew, spec, shard=SHARD, start_timeout_s=60)

    own_s = 0.0

    def cases() -> Iterator[Case]:
        nonlocal own_s
        for number in range(cells):
            began = time.thread_time()
            if number % max(1, cells // 100) == 0:
                memory.append(resident_mib())
            asked = (Message("user", f"Question {number}?"),)
            case = Case(dataset="rag", index=number, id=f"case-{number}", messages=asked, answer=f"{number}: {LONG}")
            own_s += time.thread_time() - began
            yield case

    began = time.thread_time()
    asyncio.run(pipeline.run(cases()))
    cpu_s = time.thread_time() - began - crew.own_s - own_s
    memory.append(resident_mib())
    sink.close()
    assert sum(tally.scores.values()) == cells, tally
    return DriverCost(cells, cpu_s, max(memory) - memory[len(memory) // 10])


@dataclass(frozen=True, slots=True)
class _Width:
    width: int


@dataclass(slots=True)
class CoordinatorCost:
    """What the coordinator took: CPU seconds of its thread, and of all, the cache's included; and its messages."""

    calls: int
    thread_s: float
    process_s: float
    messages: int
    beat_s: float

    @property
    def a_second(self) -> float:
        return self.calls / self.process_s


def coordinator_cost(folder: Path, calls: int, workers: int) -> CoordinatorCost:
    """Have workers ask a coordinator for so many new calls, and hand in their replies, under a budget and a limit."""
    coordinator = Coordinator(
        Cache(folder / f"coordinator-{workers}.db", run_id="bench"), None, Budget(BudgetConfig(requests=10**9))
    )
    body, usage = hashlib.sha256(b"").hexdigest().encode() * 32, Usage(500, 60)
    held: list[list[bytes]] = [[] for _ in range(workers)]
    names = [f"actor {number}" for number in range(workers)]
    asked = messages = 0
    own_s, beat_s = 0.0, BEAT_S + BEAT_EACH_S * workers
    process, thread = time.process_time(), time.thread_time()

    async def go() -> None:
        nonlocal asked, messages, own_s, beat_s
        batch = max(1, round(A_SECOND * beat_s / workers))
        while asked < calls or any(held):
            for number, name in enumerate(names):
                began = time.thread_time()
                made = [(key, Entry(body=body, usage=usage, latency_s=0.05)) for key in held[number]]
                keys = [hashlib.sha256(b"%d" % one).digest() for one in range(asked, min(calls, asked + batch))]
                asked += len(keys)
                use = LeaseUse(Amount(len(made)), Amount(), Amount(1) if keys else None, Amount(4 * batch))
                slots = {("bench",): SlotUse(workers * batch, len(keys), 0)}
                message = WorkerMessage(asked=[(key, None) for key in keys], made=made, lease=use, slots=slots)
                packed = pickle.dumps((name, message), pickle.HIGHEST_PROTOCOL)
                own_s += time.thread_time() - began
                reply: CoordinatorReply = await coordinator.exchange(*pickle.loads(packed))
                pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
                messages += 1
                assert list(reply.yours) == keys
                held[number], beat_s = keys, reply.beat_s

    asyncio.run(go())
    thread_s = time.thread_time() - thread - own_s
    coordinator.close()
    return CoordinatorCost(calls, thread_s, time.process_time() - process - own_s, messages, beat_s)

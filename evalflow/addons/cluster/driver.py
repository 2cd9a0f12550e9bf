"""The driver of a run on a cluster: deals the cases, writes the actors' records and replaces lost actors."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from evalflow.addons.cluster.shards import LOSSES, CaseWork, Shards
from evalflow.addons.cluster.worker import RunSpec, WorkerReport
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.journal import RememberingTarget, cell_digest
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.errors import EvalflowError, InfrastructureError, first_of
from evalflow.protocols import Sink
from evalflow.records import Answer, Case, ScoreRecord

log = logging.getLogger("evalflow")
_IDLE_S = 0.05  # seconds between checks of an idle actor
_IN_A_ROW = 10
"""After this many lost actors without a finished case in between, the cluster is to blame, not a case."""


class ActorLost(Exception):
    """An actor or its node no longer answers."""


class ClusterActor(Protocol):
    """An actor that works on a run; see `Worker`. Each method raises ActorLost."""

    @property
    def name(self) -> str:
        """Its name, which is never reused."""
        ...

    async def begin(self, spec: RunSpec) -> EvalflowError | None: ...

    async def step(self, cases: list[CaseWork], *, stop: bool) -> WorkerReport: ...


class Crew(Protocol):
    """The actors of a run, and what they share."""

    @property
    def size(self) -> int:
        """How many actors work at once."""
        ...

    async def hire(self) -> ClusterActor:
        """Start an actor or take a free one, waiting for room if necessary."""
        ...

    async def lost(self, actor: ClusterActor, paid: Collection[int]) -> None:
        """Give up an actor. `paid` are digests of the calls whose cost is in the run's journals."""
        ...

    async def release(self, actor: ClusterActor) -> None:
        """Take back an idle actor."""
        ...


class ClusterPipeline:
    """Runs a plan over cases as `Pipeline` does, in the actors of a crew. Only the driver writes."""

    def __init__(
        self, plan: RunPlan, sink: Sink, tally: Tally, crew: Crew, spec: RunSpec, *, shard: int, start_timeout_s: float
    ) -> None:
        self._plan = plan
        self._sink = sink
        self._tally = tally
        self._crew = crew
        self._spec = spec
        self._shard = shard
        self._start_timeout_s = start_timeout_s
        self._local = Pipeline(plan, sink, tally)
        self._under_way: dict[tuple[str, str], CaseWork] = {}  # by dataset and id
        self._paid = array("q")  # digests of the calls whose cost is in the journals
        self._shards = Shards((), shard)
        self._stopping = False
        self._failure: BaseException | None = None
        self._losses = 0
        self._started, self._over = asyncio.Event(), asyncio.Event()

    def stop(self) -> None:
        """Deal no more cases; those in progress are finished."""
        self._stopping = True
        self._shards.stop()
        self._is_over()  # perhaps no actor has started that would notice it

    async def run(self, cases: Iterable[Case]) -> None:
        """Process the cases; returns when all are done or, after `stop`, when those in progress are.

        InfrastructureError if no actor starts in time, too many are lost, or as in `Pipeline.run`.
        """
        self._shards = Shards(self._work(cases), self._shard)
        if self._stopping:
            self._shards.stop()
        try:
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(self._expect_start())
                slots = [group.create_task(self._slot()) for _ in range(self._crew.size)]
                await asyncio.wait(slots)
                waiting.cancel()
        except* EvalflowError as failures:
            raise first_of(failures) from None
        finally:
            self._tally.in_flight = 0
        if self._failure is not None:
            raise self._failure

    async def _expect_start(self) -> None:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await self._started.wait()
        except TimeoutError:
            what = f"no actor has started within {self._start_timeout_s:g} s"
            hint = "check the cluster with `ray status`; raise engine.start_timeout_s, or lower engine.cpus"
            raise InfrastructureError(what, hint) from None

    def _is_over(self) -> bool:
        if self._shards.over or (self._stopping and not self._shards.under_way):
            self._over.set()
        return self._over.is_set()

    async def _slot(self) -> None:
        """Run actors, one after the other, until nothing is left to do."""
        while not self._is_over() and not self._stopping and (actor := await self._hired()) is not None:
            try:
                if (error := await actor.begin(self._spec)) is not None:
                    raise InfrastructureError(f"{actor.name} cannot take part: {error}")
                self._started.set()
                await self._drive(actor)
            except ActorLost as error:
                await self._recover(actor, error)
            else:
                await self._crew.release(actor)

    async def _hired(self) -> ClusterActor | None:
        """Return the next actor; None if it is no longer needed by the time it has started."""
        hiring, over = asyncio.create_task(self._crew.hire()), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({hiring, over}, return_when=asyncio.FIRST_COMPLETED)
            return hiring.result() if hiring.done() else None
        finally:
            hiring.cancel()
            over.cancel()

    async def _drive(self, actor: ClusterActor) -> None:
        """Deal cases to an actor, and take its results."""
        room = 2 * self._spec.width
        while not self._is_over():
            cases = [] if self._stopping else self._shards.deal(actor.name, room)
            for work in cases:
                self._under_way[work.case.dataset, work.case.id] = work
            if not cases and not self._shards.left(actor.name):
                await asyncio.sleep(_IDLE_S)  # until another actor is lost, or all are done
                continue
            progress = await actor.step(cases, stop=self._stopping)
            self._take(actor, progress)
            if progress.over:
                self._forget(actor, self._shards.left(actor.name))
                return

    def _take(self, actor: ClusterActor, progress: WorkerReport) -> None:
        tally, shards = self._tally, self._shards
        for level, line in progress.lines:
            log.log(level, "%s: %s", actor.name, line)
        for number in progress.begun:
            work = shards.get(actor.name, number)
            tally.asked[work.case.dataset] += not work.begun
            work.begun = True
        for record in progress.records:
            self._write(record)
        self._forget(actor, [shards.get(actor.name, number) for number in (*progress.done, *progress.dropped)])
        if progress.done:
            self._losses = 0
        tally.unpriced |= progress.unpriced
        tally.in_flight = shards.under_way
        if progress.failure is not None and self._failure is None:
            self._failure = progress.failure
            self.stop()

    def _forget(self, actor: ClusterActor, cases: Iterable[CaseWork]) -> None:
        for work in cases:
            self._shards.done(actor.name, work.number)
            del self._under_way[work.case.dataset, work.case.id]

    def _write(self, record: Answer | ScoreRecord) -> None:
        self._sink.write(record)
        work = self._under_way[record.dataset, record.case_id]
        if isinstance(record, Answer):
            self._paid.extend(record.all_paid)
            for before in [answer for answer in work.answers if answer.target_repeat == record.target_repeat]:
                work.answers.remove(before)
                self._tally.answers[before.status] -= 1
            work.answers.append(record)
            return
        self._paid.extend(record.bill.paid)
        self._tally.count(record.bill)
        if record.member_of is None:
            self._tally.scores[record.status] += 1
            cell = (record.target, record.target_repeat, record.metric, record.judge, record.repeat)
            digest = cell_digest(record.dataset, record.case_id, *cell)
            work.finished.add(digest)
            if record.score == 0:
                work.failed.add(digest)

    async def _recover(self, actor: ClusterActor, error: ActorLost) -> None:
        """Deal a lost actor's cases again, except a case that ended four actors."""
        log.warning("%s was lost with %d cases under way: %s", actor.name, len(self._shards.left(actor.name)), error)
        await self._crew.lost(actor, self._paid)  # first, so that the actor that gets its cases pays for its calls
        guilty = self._shards.lost(actor.name)
        if guilty is not None:
            what = f"the actor that worked on this case was lost {LOSSES + 1} times: {error}"
            self._local.give_up(guilty.case, guilty.finished, "worker", what)
            del self._under_way[guilty.case.dataset, guilty.case.id]
        self._losses += 1
        if self._losses >= _IN_A_ROW:
            what = f"{self._losses} actors were lost in a row, and no case was finished: {error}"
            raise InfrastructureError(what, "check the nodes' memory and logs, then resume the run")

    def _work(self, cases: Iterable[Case]) -> Iterator[CaseWork]:
        """The unfinished cases, each with its existing results."""
        plan = self._plan
        for number, case in enumerate(cases):
            work = CaseWork(number, case)
            if plan.finished:
                cells = [plan.digest(case, *cell) for cell in plan.cells(case)]
                work.finished = {cell for cell in cells if cell in plan.finished}
                work.failed = work.finished & plan.failed
                if len(work.finished) == len(cells):
                    self._tally.asked[case.dataset] += 1
                    continue
            for repeat in range(plan.target_repeats):
                if plan.answered and (answer := self._local.known_answer(case, repeat)):
                    work.answers.append(answer)
                elif isinstance(plan.target, RememberingTarget) and (answer := plan.target.known(case, repeat)):
                    work.reused.append(answer)
            yield work

"""Actors in this process, which can be lost on purpose: all of a cluster run but Ray."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from evalflow.addons.cluster.config import RayEngineConfig
from evalflow.addons.cluster.coordinator import Coordinator, CoordinatorTotals
from evalflow.addons.cluster.driver import ActorLost
from evalflow.addons.cluster.engine import RayEngine
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.addons.cluster.shards import CaseWork
from evalflow.addons.cluster.worker import ClusterWorker, CoordinatorSpec, RunSpec, WorkerReport
from evalflow.errors import EvalflowError

Fate = Callable[[str, Sequence[CaseWork]], bool]
"""Whether an actor is lost as it takes these cases."""


@dataclass
class LocalCluster:
    """Takes the place of a cluster of Ray.

    Attributes:
        fate: When actors are lost.
        hired: The names of all actors, in order.
        given: The cases that each was given.
        lost: The names of those that were lost.
        away: Whether the actors are on other machines, without the driver's files.
    """

    size: int = 3
    fate: Fate = lambda _, __: False
    config: RayEngineConfig = field(default_factory=lambda: RayEngineConfig(kind="ray", shard=4))
    nodes: int = 1
    dashboard: str = ""
    hired: list[str] = field(default_factory=list[str])
    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    lost: list[str] = field(default_factory=list[str])
    away: bool = False

    async def crew(self, spec: CoordinatorSpec, size: int, shared: Collection[str]) -> LocalCrew:
        coordinator = spec.build()
        coordinator.open()
        return LocalCrew(self, coordinator, size)

    def leave(self) -> None:
        """Nothing to leave."""


class LocalActor:
    def __init__(self, name: str, cluster: LocalCluster, coordinator: Coordinator) -> None:
        self.name = name
        self._cluster = cluster
        self._coordinator = coordinator
        self._gone = False
        self._worker = ClusterWorker(name, lambda _: self._send)

    async def begin(self, spec: RunSpec) -> EvalflowError | None:
        spec = replace(spec, host="elsewhere") if self._cluster.away else spec
        with chdir("."):  # where the driver works is its own affair
            return await self._worker.begin(spec)

    async def step(self, cases: list[CaseWork], *, stop: bool) -> WorkerReport:
        self._cluster.given.setdefault(self.name, []).extend(work.case.id for work in cases)
        if self._cluster.fate(self.name, cases):
            self._gone = True
            raise ActorLost("it was lost on purpose")
        progress = await self._worker.step(cases, stop=stop)
        return replace(progress, lines=())  # they are in this process's log already

    async def end(self) -> None:
        with chdir("."):
            await self._worker.end()

    async def _send(self, worker: str, message: WorkerMessage) -> CoordinatorReply:
        if self._gone:
            raise ConnectionError("nobody hears a lost actor")
        return await self._coordinator.exchange(worker, message)


class LocalCrew:
    def __init__(self, cluster: LocalCluster, coordinator: Coordinator, size: int) -> None:
        self.size = size
        self._cluster = cluster
        self._coordinator = coordinator
        self._actors: list[LocalActor] = []

    async def hire(self) -> LocalActor:
        actor = LocalActor(f"actor {len(self._cluster.hired) + 1}", self._cluster, self._coordinator)
        self._cluster.hired.append(actor.name)
        self._actors.append(actor)
        return actor

    async def lost(self, actor: LocalActor, paid: Collection[int]) -> None:
        self._cluster.lost.append(actor.name)
        await actor.end()
        self._coordinator.lost(actor.name, paid)

    async def release(self, actor: LocalActor) -> None:
        await actor.end()

    async def close(self) -> CoordinatorTotals:
        for actor in self._actors:
            await actor.end()
        self._coordinator.close()
        return self._coordinator.totals


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """Runs with `engine=ray` go to actors in this process."""
    found = LocalCluster()
    monkeypatch.setattr(RayEngine, "build", lambda _: RayEngine(cast("Any", found)))
    return found

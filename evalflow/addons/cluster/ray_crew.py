"""A run's actors and coordinator in Ray. Only this module imports it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import EntryPoint
from typing import Any, TypeVar, cast

# Set before the import, which reads them: no telemetry, and no hook that changes how nodes run Python.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")


import ray as _ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from evalflow.addons.cluster.config import RayEngineConfig
from evalflow.addons.cluster.coordinator import CoordinatorTotals
from evalflow.addons.cluster.coordinator_client import Send
from evalflow.addons.cluster.driver import ActorLost, ClusterActor
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.addons.cluster.shards import CaseWork
from evalflow.addons.cluster.worker import ClusterWorker, CoordinatorSpec, RunSpec, WorkerReport
from evalflow.errors import EvalflowError, InfrastructureError, Problem, UserError
from evalflow.protocols import SharedModel

ray: Any = _ray  # its types are only partly known
T = TypeVar("T")
NAMESPACE = "evalflow"
_STORE_BYTES = 200 * 1024**2  # object store of a cluster on this machine, for large messages
_TRIES = 3
_COORDINATOR_S = 60.0  # time limit in seconds for the coordinator to start, on the driver's node


class RayCoordinator:
    """The actor with a run's coordinator, on the driver's node."""

    def __init__(self, spec: CoordinatorSpec) -> None:
        self._coordinator = spec.build()

    async def open(self) -> EvalflowError | None:
        try:
            self._coordinator.open()
        except EvalflowError as error:
            return error
        return None

    async def exchange(self, worker: str, message: WorkerMessage) -> CoordinatorReply:
        return await self._coordinator.exchange(worker, message)

    async def lost(self, worker: str, journaled: Collection[int] | None) -> None:
        self._coordinator.lost(worker, journaled)

    async def close(self) -> CoordinatorTotals:
        self._coordinator.close()
        return self._coordinator.totals


class RayModel:
    """The actor with a model shared by all actors of a node: the model takes most of an actor's memory."""

    def __init__(self, place: str) -> None:
        self._model = _loaded(place)

    def embed(self, texts: Sequence[str]) -> Any:
        return self._model.embed(texts)


class RayWorker(ClusterWorker):
    """An actor that works on runs, one after the other."""

    def __init__(self, name: str) -> None:
        super().__init__(name, _way_to_coordinator)

    async def begin(self, spec: RunSpec) -> EvalflowError | None:
        node = ray.get_runtime_context().get_node_id()
        for place in spec.shared:
            _loaded(place).elsewhere = _model_of(place, node)
        return await super().begin(spec)


def _way_to_coordinator(run_id: str) -> Send:
    coordinator: Any = ray.get_actor(_coordinator_name(run_id), NAMESPACE)
    return coordinator.exchange.remote


def _loaded(place: str) -> SharedModel:
    """This process's model, returned by `module:function`; loaded at first use."""
    return EntryPoint("", place, "").load()()


def _model_of(place: str, node: str) -> Callable[[Sequence[str]], Any] | None:
    """A function that embeds with the node's model; None on a node that joined later."""
    try:
        model: Any = ray.get_actor(_model_name(place, node), NAMESPACE)
    except ValueError:
        return None
    return lambda texts: ray.get(model.embed.remote(texts))


def _model_name(place: str, node: str) -> str:
    return f"{place} of {node}"


def _coordinator_name(run_id: str) -> str:
    return f"coordinator of {run_id}"


class RayActor:
    """Implements ClusterActor over a Ray handle."""

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle

    async def begin(self, spec: RunSpec) -> EvalflowError | None:
        return await _answer(self.handle.begin.remote(spec))

    async def step(self, cases: list[CaseWork], *, stop: bool) -> WorkerReport:
        return await _answer(self.handle.step.remote(cases, stop=stop))

    async def end(self) -> None:
        await _answer(self.handle.end.remote())

    def kill(self) -> None:
        ray.kill(self.handle)


async def _answer(reference: Awaitable[T]) -> T:
    """Await an actor's answer; ActorLost if none comes. A bug of evalflow in the actor is raised here."""
    try:
        return await reference
    except RayTaskError:
        raise
    except RayError as error:
        raise ActorLost(_in_short(error)) from None


def _in_short(error: Exception) -> str:
    """The cause, extracted from Ray's long error message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"\b(reason|causes?)\b", line, re.IGNORECASE)]
    cause, _, _ = (causes or lines or [type(error).__name__])[-1].partition(" Some common causes")
    return cause[:300]


def _print_nothing(*_: object, **__: object) -> None:
    """Replaces Ray's printing."""


@contextmanager
def on_loopback() -> Generator[None]:
    """Make Ray's processes listen only on loopback, as on Windows and macOS, not on the whole network."""
    constants: Any = ray._private.ray_constants
    name: str = constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before, clusters = os.environ.get(name), constants.ENABLE_RAY_CLUSTER
    os.environ[name], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = clusters
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


class RayCluster:
    """A cluster that this process joined, or started on this machine. Actors are kept between runs."""

    def __init__(self, config: RayEngineConfig) -> None:
        """Join the cluster; UserError if there is none, InfrastructureError if joining fails for another reason."""
        self.config = config
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # it advises on standard error
        # Always prints lost actors on standard output; the run's log names them.
        ray._private.worker.print_to_stdstream = _print_nothing
        local: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical", "configure_logging": False}
        address = config.address or "local"  # without an address Ray would join any cluster on this machine
        try:
            with nullcontext() if config.address else on_loopback():
                context = ray.init(address, namespace=NAMESPACE, **quiet, **({} if config.address else local))
        except ConnectionError as error:
            hint = "start evalflow on a node of the cluster, or write HOST:PORT of its head"
            raise UserError(
                Problem(f"there is no cluster at {address}: {_in_short(error)}", "engine.address", hint)
            ) from None
        except Exception as error:  # Ray also raises plain ones, for example if its processes start too slowly
            what = f"the cluster at {config.address or 'this machine'} cannot be joined: {_in_short(error)}"
            raise InfrastructureError(what, "look at it with `ray status`, and at engine.address") from None
        self.dashboard: str = context.dashboard_url or ""
        self._idle: list[RayActor] = []
        self._models: dict[str, Any] = {}  # by model and node
        self._numbers = itertools.count(1)
        self._ours = os.getpid()

    @property
    def size(self) -> int:
        """Number of actors: as configured, else as many as the cores allow."""
        cores = cast("dict[str, float]", ray.cluster_resources()).get("CPU", 0.0)
        return self.config.actors or max(1, int(cores / self.config.cpus))

    @property
    def nodes(self) -> int:
        return sum(bool(node["Alive"]) for node in cast("list[dict[str, Any]]", ray.nodes()))

    async def crew(self, coordinator: CoordinatorSpec, size: int, shared: Collection[str]) -> RayCrew:
        """The crew of a run, with the shared models on each node; errors as in `Coordinator.open`."""
        for place in shared:
            self._place_model(place)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options = {
            "name": _coordinator_name(coordinator.run_id),
            "num_cpus": 0,
            "max_restarts": 0,
            "scheduling_strategy": here,
        }
        handle: Any = ray.remote(RayCoordinator).options(**options).remote(coordinator)
        try:
            async with asyncio.timeout(_COORDINATOR_S):
                error = await _answer(handle.open.remote())
        except (TimeoutError, ActorLost) as lost:
            why = str(lost) or f"not within {_COORDINATOR_S:g} s"
            error = InfrastructureError(
                f"the coordinator of the run did not start: {why}", "look at the node with `ray status`"
            )
        if error is not None:
            ray.kill(handle)
            raise error
        return RayCrew(self, handle, size)

    def _place_model(self, place: str) -> None:
        for node in cast("list[dict[str, Any]]", ray.nodes()):
            node_id, cores = str(node["NodeID"]), float(node["Resources"].get("CPU", 0))
            name = _model_name(place, node_id)
            if (
                node["Alive"] and cores >= self.config.cpus and name not in self._models
            ):  # no actor works on other nodes
                threads = max(1, int(cores))
                there = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False), "num_cpus": 0}
                options = {"name": name, "max_concurrency": threads, "max_restarts": -1}
                self._models[name] = ray.remote(RayModel).options(**there, **options, max_task_retries=-1).remote(place)

    async def start(self) -> RayActor:
        """A free or new actor, as soon as there is room; InfrastructureError if none can be started."""
        if self._idle:
            return self._idle.pop()
        config, failures = self.config, list[str]()
        while len(failures) < _TRIES:
            name = f"actor {next(self._numbers)}"
            takes = {"num_cpus": config.cpus, "num_gpus": config.gpus, "resources": config.resources or None}
            handle: Any = ray.remote(RayWorker).options(**takes, max_restarts=0, max_task_retries=0).remote(name)
            try:
                await handle.__ray_ready__.remote()
                return RayActor(name, handle)
            except RayError as error:
                failures.append(_in_short(error))
            except asyncio.CancelledError:
                ray.kill(handle)
                raise
        what = f"actors cannot be started: {failures[-1]}"
        raise InfrastructureError(what, "install the same evalflow, with its extra ray, on every node")

    def keep(self, actor: RayActor) -> None:
        """Keep an idle actor for the next run."""
        self._idle.append(actor)

    def leave(self) -> None:
        ray.shutdown()


class RayCrew:
    """Implements Crew for one run."""

    def __init__(self, cluster: RayCluster, coordinator: Any, size: int) -> None:
        self.size = size
        self._cluster = cluster
        self._coordinator = coordinator
        self._working: set[RayActor] = set()

    async def hire(self) -> ClusterActor:
        actor = await self._cluster.start()
        self._working.add(actor)
        return actor

    async def lost(self, actor: ClusterActor, paid: Collection[int]) -> None:
        assert isinstance(actor, RayActor)
        self._working.discard(actor)
        actor.kill()  # it may still run behind a failed network
        await self._coordinator.lost.remote(actor.name, paid)

    async def release(self, actor: ClusterActor) -> None:
        assert isinstance(actor, RayActor)
        self._working.discard(actor)
        try:
            await actor.end()
        except ActorLost:
            await self._coordinator.lost.remote(actor.name, None)  # its records are all in the journals
        else:
            self._cluster.keep(actor)

    async def close(self) -> CoordinatorTotals:
        """Stop the coordinator and busy actors; returns the coordinator's totals."""
        for actor in self._working:
            actor.kill()
        self._working.clear()
        try:
            return await self._coordinator.close.remote()
        except RayError as error:
            raise InfrastructureError(
                f"the coordinator of the run was lost: {_in_short(error)}", "resume the run"
            ) from None
        finally:
            ray.kill(self._coordinator)

"""Runs over the actors of a cluster: what a run sends to them, and its pipeline."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.addons.cluster.driver import ClusterPipeline
from evalflow.addons.cluster.worker import CoordinatorSpec, RunSpec
from evalflow.app.core.assemble import Parts
from evalflow.app.core.begin import UnpreparedMetric
from evalflow.calls.budget import Amount
from evalflow.config.judges import single_judges
from evalflow.config.schema import RunConfig
from evalflow.llm.registry import EMBEDDER_KINDS, JUDGE_KINDS
from evalflow.paths import from_home, share_dir

if TYPE_CHECKING:
    from evalflow.addons.cluster.ray_crew import RayCluster
    from evalflow.app.core.engines import EngineJob

_LEAST_WIDTH = 8  # maximum cases that an actor works on at once
_SHARDS_EACH = 4  # minimum shards per actor, so that none is idle while others have much left
_NOT_THERE: Mapping[str, Any] = {"baseline": None, "gate": None, "copy_to": None, "stop": None, "observers": {}}
"""Settings that only concern the driver, and may name files that nodes lack."""


def run_spec(job: EngineJob, width: int, shared: Collection[str]) -> RunSpec:
    """The specification of a run for actors; it contains no secret keys."""
    parts, opening = job.parts, job.opening
    config: dict[str, Any] = {**deepcopy(opening.config), **_NOT_THERE}
    config["cache"] = {**config.get("cache", {}), "url": None}
    config["otel"] = {**config.get("otel", {}), "endpoint": None}
    for metric in config["metric"].values():
        if "steps_from" in metric:  # they are already in prepared.json
            metric["steps_from"] = None
    run, own = parts.settings.run, share_dir() / "prompts"
    prompts = parts.settings.composed.prompt_folders
    metrics = (pair.metric for pair in job.plan.pairs)
    unprepared = {metric.name: metric.failed for metric in metrics if isinstance(metric, UnpreparedMetric)}
    return RunSpec(
        manifest=opening.model_copy(update={"config": config}).text,
        needed=parts.needed,
        prepared=json.loads(job.folder.prepared.read_text(encoding="utf-8")),
        unprepared=unprepared,
        host=socket.gethostname(),
        home=str(Path.cwd()),
        prompt_folders=[None if place == own else str(place) for place in prompts],
        files=dict(_files(run, {i: place for i, place in enumerate(prompts) if place != own})),
        width=width,
        shared=tuple(shared),
        connections=parts.session.connections,
        budget=parts.session.budget.limits if parts.session.budget else None,
        fence_key=parts.session.fence_key(),
    )


def _files(run: RunConfig, prompts: Mapping[int, Path]) -> Iterator[tuple[str, bytes]]:
    """The files of prompts and metrics, by their path in an actor's folder."""
    for number, folder in prompts.items():
        for file in sorted(file for kind in ("*.jinja", "*.yaml", "*.yml") for file in folder.rglob(kind)):
            yield f"prompts-{number}/{file.relative_to(folder).as_posix()}", file.read_bytes()
    scripts = {file for metric in run.metric.values() for file in metric.files}
    for name in sorted(scripts):
        place = next((place for place in (Path(name), "data" / Path(name)) if place.is_file()), None)
        if place is not None:
            yield place.as_posix(), place.read_bytes()


@asynccontextmanager
async def on_cluster(cluster: RayCluster, job: EngineJob) -> AsyncGenerator[ClusterPipeline]:
    """The pipeline of a run on a cluster. At the end the tally has the coordinator's totals."""
    parts = job.parts
    run, session = parts.settings.run, parts.session
    cases = sum(facts.cases for facts in job.opening.datasets.values())
    size = max(1, min(cluster.size, cases))
    session.single_flight.close()  # the prepared entries are now in the file, for the coordinator
    budget = session.budget
    if budget is not None:
        budget.close()  # from here on the coordinator records spending
    coordinator = CoordinatorSpec(
        run_id=job.opening.run_id,
        cache=run.cache.model_copy(update={"path": str(from_home(run.cache.path).resolve())}),
        budget=budget.limits if budget else None,
        spent=budget.spent if budget else Amount(),
        before=budget.before if budget else Amount(),
        unaccounted=budget.unaccounted if budget else Amount(),
        lost_requests=budget.lost_requests if budget else 0,
        note=job.folder.spending.resolve() if budget and session.batches is None else None,
        sent=budget.sent if budget else Amount(),
        lease=budget.lease if budget else None,
        settled=session.single_flight.settled or (),
        counted=job.counted,
    )
    shared = shared_models(parts)
    crew = await cluster.crew(coordinator, size, shared)
    try:
        width = max(
            _LEAST_WIDTH, 2 * -(-parts.width() // size)
        )  # doubled, since half of the cases may be waiting for the coordinator
        shard = min(cluster.config.shard, max(1, cases // (_SHARDS_EACH * size)))
        spec = run_spec(job, width, shared)
        timeout_s = cluster.config.start_timeout_s
        yield ClusterPipeline(job.plan, job.sink, job.tally, crew, spec, shard=shard, start_timeout_s=timeout_s)
    finally:
        totals = await crew.close()
        job.tally.retract(totals.billed)
        job.tally.unaccounted_requests += totals.unaccounted_requests


def shared_models(parts: Parts) -> list[str]:
    """The models loaded by a run's judges and embedder, as `module:function`; one copy per machine."""
    settings, needed = parts.settings, parts.needed
    judges = [judge for name in needed.asking for judge in single_judges(settings.judges[name]).values()]
    kinds = [JUDGE_KINDS.get(config.kind) for config in judges]
    kinds += [EMBEDDER_KINDS.get(settings.run.embedder.kind)] if needed.embedding else []
    return sorted({model for kind in kinds if (model := getattr(kind, "shared_model", ""))})

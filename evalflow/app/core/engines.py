"""The engines, where runs work, and the observers of their records; other packages add both by doors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evalflow.config.surroundings import ENGINE_KINDS, OBSERVER_KINDS, EngineConfig, ObserverConfig
from evalflow.engine.pipeline import Pipeline, RunPlan

if TYPE_CHECKING:
    from evalflow.app.core.assemble import Parts
    from evalflow.app.core.result_rules import ResultRules
    from evalflow.app.core.saved import SavedRun
    from evalflow.calls.connections import Connections
    from evalflow.engine.bookkeeping import Tally
    from evalflow.engine.folder import RunFolder
    from evalflow.protocols import Sink
    from evalflow.records import Case
    from evalflow.records.manifest import ExportFacts, Manifest
    from evalflow.redaction import Redactor


@dataclass(frozen=True, slots=True)
class EngineJob:
    """The job of an engine.

    Attributes:
        plan: What is done with each case.
        sink: Where answers and scores are written.
        tally: Counts of what is done; the engine keeps `in_flight` current.
        opening: The run's manifest as it begins.
        parts: The run's settings, metrics and judges.
        folder: The run's folder.
        counted: Whether the tally and the budget had all calls of earlier parts of the run from the beginning.

    Example:
        >>> def cases_left(job: EngineJob) -> int:
        ...     return job.tally.expected - job.tally.done
    """

    plan: RunPlan
    sink: Sink
    tally: Tally
    opening: Manifest
    parts: Parts
    folder: RunFolder
    counted: bool


class CaseRunner(Protocol):
    """Carries out a job; `Pipeline` does so in this process."""

    async def run(self, cases: Iterable[Case]) -> None:
        """Process the cases; returns when all are done or, after `stop`, when those in progress are."""
        ...

    def stop(self) -> None:
        """Start no further case; those under way are finished."""
        ...


class Engine(Protocol):
    """Where runs work: one for all runs of a process with the same configuration.

    Attributes:
        is_here: Whether cases are processed in this process.
        about: What is printed once a run has begun, such as how many actors work on it; empty for nothing.

    Example:
        >>> from contextlib import asynccontextmanager
        >>> class OneByOne:
        ...     is_here, about = True, "one case at a time"
        ...     @asynccontextmanager
        ...     async def open(self, job):
        ...         yield Pipeline(replace(job.plan, width=1), job.sink, job.tally)
        ...     def close(self): ...
        >>> engine: Engine = OneByOne()
    """

    @property
    def is_here(self) -> bool: ...

    @property
    def about(self) -> str: ...

    def open(self, job: EngineJob) -> AbstractAsyncContextManager[CaseRunner]:
        """Get ready for a job, and end what is left of it; InfrastructureError if it cannot."""
        ...

    def close(self) -> None:
        """Release what the runs of this process have shared."""
        ...


class LocalEngine:
    """Processes the cases in this process, on one core."""

    is_here = True
    about = ""

    def __init__(self, _: EngineConfig) -> None: ...

    @asynccontextmanager
    async def open(self, job: EngineJob) -> AsyncGenerator[Pipeline]:
        yield Pipeline(job.plan, job.sink, job.tally)

    def close(self) -> None: ...


_shared: list[tuple[EngineConfig, Engine]] = []  # one at most


def engine_of(config: EngineConfig) -> Engine:
    """The engine of a configuration, built once for all runs of a sweep.

    UserError if there is no such kind, or it cannot work as configured; InfrastructureError if it is out of reach.
    """
    if _shared and _shared[0][0] != config:
        close_engines()
    if not _shared:
        _shared.append((config, ENGINE_KINDS.get(config.kind).build(config)))
    return _shared[0][1]


def close_engines() -> None:
    """Release the engine that the runs of this process have shared."""
    while _shared:
        _shared.pop()[1].close()


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """The run that an observer is built for.

    Attributes:
        folder: The run's folder, where an observer may keep a file of its own.
        rules: Metrics and thresholds: how results follow from the scores.
        redactor: Removes secrets from texts, as in all files of the run.
        connections: The addresses that may be called; None: all.

    Example:
        >>> def archive_of(run: ObservedRun):
        ...     return run.folder.path / "archive.csv"
    """

    folder: RunFolder
    rules: ResultRules
    redactor: Redactor
    connections: Connections | None


class Observer(Protocol):
    """Receives each record of a run, and the run's end.

    Example:
        >>> class Watcher:
        ...     def sink(self, inner):
        ...         return inner
        ...     def finish(self, run): ...
        ...     def close(self): ...
        >>> observer: Observer = Watcher()
    """

    def sink(self, inner: Sink) -> Sink:
        """Return a sink that writes to `inner` first. It must not raise or block the run."""
        ...

    def finish(self, run: SavedRun) -> ExportFacts | None:
        """Called after all files of the run are written. Return what was sent, for run.json; must not raise."""
        ...

    def close(self) -> None:
        """Release resources; the run has ended or failed."""
        ...


def build_observer(config: ObserverConfig, run: ObservedRun) -> Observer:
    """Begin to observe a run; UserError if its receiver is refused."""
    return OBSERVER_KINDS.get(config.kind).build(config, run)

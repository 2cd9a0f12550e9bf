"""Observers receive each record of a run; their kinds are entry points of `evalflow.observers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evalflow.config.surroundings import OBSERVER_KINDS, ObserverConfig

if TYPE_CHECKING:
    from evalflow.app.core.result_rules import ResultRules
    from evalflow.app.core.saved import SavedRun
    from evalflow.calls.connections import Connections
    from evalflow.engine.folder import RunFolder
    from evalflow.protocols import Sink
    from evalflow.records.manifest import ExportFacts
    from evalflow.redaction import Redactor


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

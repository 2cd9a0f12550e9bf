"""What hears of each record of a run, by the door `evalflow.observers`: it sends scores elsewhere, or watches them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evalflow.config.engines import OBSERVER_KINDS
from evalflow.config.surroundings import ObserverConfig

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
    """Hears of each record of a run, and of the run's end.

    Example:
        >>> class Watcher:
        ...     def sink(self, inner):
        ...         return inner
        ...     def finish(self, run): ...
        ...     def close(self): ...
        >>> observer: Observer = Watcher()
    """

    def sink(self, inner: Sink) -> Sink:
        """A sink that writes to `inner` first. It must not raise, and not make the run wait."""
        ...

    def finish(self, run: SavedRun) -> ExportFacts | None:
        """All files of the run are written. Returns what was sent, for run.json; must not raise."""
        ...

    def close(self) -> None:
        """The run is over, or has failed."""
        ...


def build_observer(config: ObserverConfig, run: ObservedRun) -> Observer:
    """Begin to observe a run; UserError if its receiver is refused."""
    return OBSERVER_KINDS.get(config.kind).build(config, run)

"""Showing scores to people as they finish."""

from __future__ import annotations

from collections.abc import Callable, Collection

from evalflow.protocols import Sink
from evalflow.records import Answer, ScoreRecord


class WatchedSink:
    """Implements Sink around another one, and shows the scores of some metrics after writing them.

    Args:
        sink: The wrapped sink.
        metrics: Names of the metrics whose scores are shown.
        show: Displays one score.
    """

    def __init__(self, sink: Sink, metrics: Collection[str], show: Callable[[ScoreRecord], None]) -> None:
        self._sink = sink
        self._metrics = metrics
        self._show = show

    def write(self, record: Answer | ScoreRecord) -> None:
        """Write, then show."""
        self._sink.write(record)
        if isinstance(record, ScoreRecord) and record.metric in self._metrics:
            self._show(record)

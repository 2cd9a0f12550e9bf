"""Spans joined to traces on disk, since those of one trace may lie anywhere in a file of any size."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from evalflow.datasets.sources import MAX_RECORD
from evalflow.importers.otlp import Span

MANY_SPANS = 20_000
"""Maximum spans of one trace, which is held in memory as a whole."""


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace: how many spans it has, and where the first of them is; no spans if it is too large."""

    id: str
    count: int
    where: str
    spans: list[Span] | None


class TraceStore:
    """A temporary database of spans."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE span (trace TEXT, data TEXT)")

    def add(self, spans: Iterable[Span]) -> None:
        rows = ((span.trace, json.dumps(asdict(span))) for span in spans)
        self._database.executemany("INSERT INTO span VALUES (?, ?)", rows)
        self._database.execute("CREATE INDEX by_trace ON span (trace)")

    def traces(self) -> Iterator[StoredTrace]:
        """The traces in the order in which they begin in the file."""
        sizes = "SELECT trace, min(rowid), count(*), sum(length(data)) FROM span GROUP BY trace ORDER BY 2"
        for trace, first, count, size in self._database.execute(sizes):
            [head] = self._database.execute("SELECT data FROM span WHERE rowid = ?", (first,)).fetchone()
            where = _span(head).where
            if count > MANY_SPANS or size > MAX_RECORD:
                yield StoredTrace(trace, count, where, None)
                continue
            rows = self._database.execute("SELECT data FROM span WHERE trace = ? ORDER BY rowid", (trace,))
            yield StoredTrace(trace, count, where, [_span(data) for (data,) in rows])


def _span(data: str) -> Span:
    known: dict[str, Any] = json.loads(data)
    known["events"] = tuple((name, attributes) for name, attributes in known["events"])
    return Span(**known)

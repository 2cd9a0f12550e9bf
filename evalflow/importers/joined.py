"""What lies apart in an export, joined on disk: spans to traces, and scores to the rows that they are about."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evalflow.datasets.sources import MAX_RECORD
from evalflow.jsonvalues import as_list
from evalflow.traces.spans import Span
from evalflow.traces.tree import MANY_SPANS

_IDS = ("id", "run_id", "traceId", "trace_id")


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


class ScoreStore:
    """Scores by the id of what they are about."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE score (about TEXT, place TEXT, content TEXT)")
        database.execute("CREATE INDEX about ON score (about)")

    def add(self, scores: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        rows = ((about, where, json.dumps(score)) for about, where, score in scores)
        self._database.executemany("INSERT INTO score VALUES (?, ?, ?)", rows)

    def joined(
        self, column: str, rows: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each row with its scores in a column; those are taken out of the store."""
        for where, row in rows:
            about = str(next((row[name] for name in _IDS if row.get(name)), ""))
            taken = self._database.execute("DELETE FROM score WHERE about = ? RETURNING content", (about,)).fetchall()
            found = [json.loads(content) for (content,) in taken]
            own = row.get(column)
            yield where, {**row, column: [*as_list(own), *found]} if found else row

    def left(self) -> Iterator[str]:
        """The places of scores whose row did not come."""
        for (where,) in self._database.execute("SELECT place FROM score ORDER BY rowid"):
            yield where


def _span(data: str) -> Span:
    known: dict[str, Any] = json.loads(data)
    known["events"] = tuple((name, attributes) for name, attributes in known["events"])
    return Span(**known)

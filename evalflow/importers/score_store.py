"""Scores of one file beside the rows of another that they are about, joined on disk rather than in memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalflow.importers.values import as_list

_IDS = ("id", "run_id", "traceId", "trace_id")


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

"""The data of report.html's case explorer: a compact index, and the details of one case a line.

Both go to files while the cases pass by, so a report takes no memory that grows with the run. The page reads the
index at once and the details of a case only when somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TextIO

from pydantic_core import from_json

from evalflow.records import Answer, Case, Context
from evalflow.report.join import Row, Score
from evalflow.report.telling import CaseKey
from evalflow.summary import json_line

BLOCK = 100
"""Cases in one script block of details; the page finds a case by dividing."""
MAX_BYTES = 200_000_000
"""Details beyond this are left out of the page, which says so: no browser would open them."""

_STATES = ("passed", "failed", "scored", "undefined", "error", "skipped")
_PREVIEW = 160
_SERIES = ("metric", "judge", "repeat", "target", "target_repeat", "member_of")
_SERIES_OF = itemgetter(*_SERIES)
_SCORE_KEYS = (
    "status",
    "score",
    "threshold",
    "passed",
    "reason",
    "error_type",
    "error",
    "path",
    "cost_usd",
    "latency_s",
)


class ExplorerWriter:
    """Collects what the explorer shows, case by case.

    Args:
        index: Open for text, to write and read; gets one line per case, a JSON list of id, dataset, preview, tags and
            cells, with datasets and tags as numbers, and three numbers a cell: series, state, score.
        details: Likewise; gets one line per case, a JSON object.
        wanted: The cases to show, by dataset and id; None: all.
        max_bytes: Where to stop.

    Attributes:
        cases: How many it was given.
        shown: How many of them the page shows.
    """

    def __init__(
        self, index: TextIO, details: TextIO, wanted: Collection[CaseKey] | None = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self.index = index
        self.details = details
        self.wanted = wanted
        self._room = max_bytes
        self._rows: list[Row] = []
        self._series = _Numbers()
        self._datasets = _Numbers()
        self._tags = _Numbers()
        self.cases = 0
        self.shown = 0

    def write(self, row: Row) -> None:
        """Take in one row; the rows of a case come one after the other."""
        if self._rows and (self._rows[0].case.dataset, self._rows[0].case.id) != (row.case.dataset, row.case.id):
            self.finish()
        self._rows.append(row)

    def finish(self) -> None:
        """Write the last case."""
        if not self._rows:
            return
        self.cases += 1
        if self._is_wanted(self._rows[0].case):
            self._show()
        self._rows = []

    def _is_wanted(self, case: Case) -> bool:
        return self.wanted is None or (case.dataset, case.id) in self.wanted

    def _show(self) -> None:
        details = script_json(_details(self._rows, self._series))
        self._room -= len(details)
        if self._room >= 0:
            self.shown += 1
            self.details.write(f"{details}\n")
            self.index.write(f"{script_json(self._entry())}\n")

    def legend(self) -> dict[str, Any]:
        """What the numbers of the index stand for."""
        return {
            "block": BLOCK,
            "states": _STATES,
            "series": [dict(zip(_SERIES, key, strict=True)) for key in self._series],
            "datasets": list(self._datasets),
            "tags": list(self._tags),
        }

    def _entry(self) -> list[Any]:
        case = self._rows[0].case
        said = case.question or next((row.answer.answer for row in self._rows if row.answer and row.answer.answer), "")
        preview = " ".join(said[: 2 * _PREVIEW].split())[:_PREVIEW]
        cells: list[float | None] = []
        for row in self._rows:
            for score in row.scores:
                cells += [self._series.of(_series(score)), _STATES.index(_state(score)), _short(score["score"])]
        tags = [self._tags.of(tag) for tag in case.tags]
        return [case.id, self._datasets.of(case.dataset), preview, tags, cells]


class _Numbers:
    """Numbers values in the order in which they are first seen."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers)


def script_json(value: Any) -> str:
    """JSON on one line that can stand in a script element: no `<`, so nothing in it can end the element."""
    return json_line(value).decode().replace("<", "\\u003c")


def _series(score: Score) -> tuple[Any, ...]:
    return _SERIES_OF(score)


def _state(score: Score) -> str:
    if score["status"] != "scored" or score["passed"] is None:
        return score["status"]
    return "passed" if score["passed"] else "failed"


def _short(score: float | None) -> float | None:
    return None if score is None else float(f"{score:.4g}")


def _details(rows: Sequence[Row], series: _Numbers) -> dict[str, Any]:
    case = rows[0].case
    return _present(
        {
            "group": case.group,
            "messages": [[message.role, message.content] for message in case.messages],
            "reference": case.reference,
            "contexts": _contexts(case.contexts),
            "expected": case.expected,
            "vars": dict(case.vars) or None,
            "answers": [_answer(row, case, series) for row in rows if row.answer or row.scores],
        }
    )


def _answer(row: Row, case: Case, series: _Numbers) -> dict[str, Any]:
    scores = [_score(score, series.of(_series(score))) for score in row.scores]
    base: dict[str, Any] = {"target": row.target, "repeat": row.target_repeat, "scores": scores}
    return _present(base | (_said(row.answer, case) if row.answer else {}))


def _said(answer: Answer, case: Case) -> dict[str, Any]:
    own_contexts = None if answer.contexts == case.contexts else _contexts(answer.contexts)
    names = ("status", "answer", "actual", "metadata", "cost_usd", "latency_s", "error_type", "error")
    return {"contexts": own_contexts} | {name: getattr(answer, name) for name in names}


def _score(score: Score, number: int) -> dict[str, Any]:
    loaded = {name: from_json(score[name]) if score[name] else None for name in ("steps", "value")}
    return _present({"series": number} | {name: score[name] for name in _SCORE_KEYS} | loaded)


def _contexts(contexts: Sequence[Context] | None) -> list[dict[str, Any]] | None:
    if contexts is None:
        return None
    return [_present({"text": context.text, "title": context.title, "path": context.path}) for context in contexts]


def _present(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if inner is not None}

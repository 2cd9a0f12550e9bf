"""results.csv for people, and cases.jsonl to evaluate again: both written row by row."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from evalflow.report.join import Row, Score, as_answered
from evalflow.summary import json_line, safe_text

if TYPE_CHECKING:
    import polars as pl

FIXED = ("dataset", "case_id", "target", "target_repeat", "tags", "question", "answer")
"""The columns of results.csv that every run has."""

_Key = tuple[str, str | None, int]


@dataclass(frozen=True, slots=True)
class _Series:
    """The three columns of one metric, judge and repeat."""

    key: _Key
    label: str
    suffix: str

    @property
    def columns(self) -> tuple[str, str, str]:
        return f"{self.label}{self.suffix}", f"{self.label}_passed{self.suffix}", f"{self.label}_reason{self.suffix}"


class ResultsWriter:
    """Writes results.csv: one row per case, target and target_repeat.

    Per metric there are three columns: `<metric>` (the score, empty unless scored), `<metric>_passed` and
    `<metric>_reason`; `@<judge>` and `#<repeat>` follow only where a run has several. The reason of a score that is
    not `scored` begins with its state. Members of a panel are left out; scores.parquet has them.

    Text that a spreadsheet would run as a formula (it begins with = + - @, a tab or a carriage return) gets a leading
    apostrophe, so an untrusted answer cannot reach out of the sheet. Numbers stay as they are.

    Args:
        file: Open for text with newline="".
        scores: The columns of scores.parquet; only the distinct metrics, judges and repeats are read.
    """

    def __init__(self, file: TextIO, scores: pl.LazyFrame) -> None:
        self._series = _series(scores)
        self._writer = csv.writer(file)
        self._writer.writerow([*FIXED, *(safe_text(column) for series in self._series for column in series.columns)])

    def write(self, row: Row) -> None:
        """Append one row."""
        said = row.answer.answer if row.answer else None
        if row.answer and said is None and row.answer.actual is not None:
            said = _text(row.answer.actual)
        texts = [row.case.dataset, row.case.id, row.target]
        cells: list[Any] = [safe_text(text) for text in texts] + [row.target_repeat]
        cells += [safe_text(text or "") for text in ("; ".join(row.case.tags), row.case.question, said)]
        by_key = {_key(score): score for score in row.scores if score["member_of"] is None}
        for series in self._series:
            cells += _cells(by_key.get(series.key))
        self._writer.writerow(cells)


class CasesWriter:
    """Writes cases.jsonl: every case once, as evaluated, with its first answer. It loads again as a dataset.

    Args:
        file: Open for text.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._last: tuple[str, str] | None = None

    def write(self, row: Row) -> None:
        """Append the case, unless it is the one before."""
        from evalflow.datasets import case_to_row

        key = (row.case.dataset, row.case.id)
        if key != self._last:
            self._last = key
            line = json_line(case_to_row(as_answered(row.case, row.answer)))
            self._file.write(f"{line.decode()}\n")


def _series(scores: pl.LazyFrame) -> Sequence[_Series]:
    import polars as pl

    frame = (
        scores.filter(pl.col("member_of").is_null())
        .select("metric", "judge", "repeat")
        .unique(maintain_order=True)
        .collect(engine="streaming")
    )
    keys: list[_Key] = list(frame.iter_rows())
    judges = {judge for _, judge, _ in keys if judge is not None}
    several = {repeat for _, _, repeat in keys} != {0}
    order = {metric: i for i, metric in reversed(list(enumerate(metric for metric, _, _ in keys)))}
    keys.sort(key=lambda key: order[key[0]])
    return [
        _Series(
            key=(metric, judge, repeat),
            label=f"metric {metric}" if metric in FIXED else metric,
            suffix=(f"@{judge}" if judge and len(judges) > 1 else "") + (f"#{repeat}" if several else ""),
        )
        for metric, judge, repeat in keys
    ]


def _key(score: Score) -> _Key:
    return score["metric"], score["judge"], score["repeat"]


def _cells(score: Mapping[str, Any] | None) -> list[Any]:
    if score is None:
        return ["", "", ""]
    passed = "" if score["passed"] is None else str(score["passed"]).lower()
    if score["status"] == "scored":
        return [round(score["score"], 4), passed, safe_text(score["reason"] or "")]
    why = score["error"] or score["reason"] or ""
    return ["", passed, f"{score['status']}: {why}" if why else score["status"]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

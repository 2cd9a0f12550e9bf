"""miscategorised.csv: the cases that were put into the wrong one of several classes."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection
from typing import Any, TextIO

from evalflow.report.join import Row, Score
from evalflow.summary import safe_text

COLUMNS = (
    "dataset", "case_id", "target", "target_repeat", "metric", "question", "expected", "actual", "confidence", "tags",
)  # fmt: skip


class MiscategorisedWriter:
    """Writes a row for every case and answer whose class is not the expected one, in input order.

    `confidence` is empty where the metric has none, or the case. Text that a spreadsheet would run is made harmless as
    in results.csv.

    Args:
        file: Open for text with newline="".
        metrics: Names of the metrics that put cases into one of several classes.
    """

    def __init__(self, file: TextIO, metrics: Collection[str]) -> None:
        self._metrics = frozenset(metrics)
        self._writer = csv.writer(file)
        self._writer.writerow(COLUMNS)

    def write(self, row: Row) -> None:
        """Append what was put into a wrong class."""
        for score in row.scores:
            if score["metric"] in self._metrics and score["status"] == "scored" and score["score"] == 0:
                self._writer.writerow(_cells(row, score))


def _cells(row: Row, score: Score) -> list[Any]:
    classes = json.loads(score["value"])
    confidence = classes.get("confidence")
    texts = (row.case.dataset, row.case.id, row.target)
    return [
        *map(safe_text, texts),
        row.target_repeat,
        safe_text(score["metric"]),
        safe_text(row.case.question or ""),
        _label(classes["truth"]),
        _label(classes["prediction"]),
        "" if confidence is None else confidence,
        safe_text("; ".join(row.case.tags)),
    ]


def _label(label: Any) -> str:
    return safe_text(label) if isinstance(label, str) else json.dumps(label)

"""The journals: every finished answer and score is in the operating system's hands before the next call."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evalflow.records import Answer, ScoreRecord
from evalflow.run.answers import answer_row
from evalflow.run.folder import RunFolder
from evalflow.run.tally import Tally
from evalflow.summary import journal_row


class Journal:
    """A sink that appends to a run's answers.jsonl and scores.jsonl, one write call a record.

    Args:
        folder: The run's folder; both files are made, empty where nothing comes.
        tally: Counts generated answers.
    """

    def __init__(self, folder: RunFolder, tally: Tally) -> None:
        self._answers = _open(folder.answers)
        self._scores = _open(folder.journal)
        self._tally = tally

    def write(self, record: Answer | ScoreRecord) -> None:
        """Append one record. Recorded answers stand in the data already and are left out."""
        if isinstance(record, ScoreRecord):
            os.write(self._scores, _line(journal_row(record)))
        elif record.status == "error" or record.latency_s is not None:
            os.write(self._answers, _line(answer_row(record)))
            self._tally.count_answer(record)

    def close(self) -> None:
        """Put both on the disk."""
        for file in (self._answers, self._scores):
            os.fsync(file)
            os.close(file)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _line(row: dict[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=str) + "\n").encode()

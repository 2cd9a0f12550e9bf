"""The journals: a finished answer or score is in the operating system's hands before its slot is used again."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from evalflow.errors import InfrastructureError, Problem, UserError, command
from evalflow.paths import private_file
from evalflow.records import Answer, ScoreRecord
from evalflow.redaction import Redactor
from evalflow.run.answers import answer_row
from evalflow.run.folder import RunFolder
from evalflow.run.tally import Tally
from evalflow.summary import journal_row, json_line, torn_tail

SYNC_EVERY_S = 0.1
_NOTHING = Redactor()


class Journal:
    """A sink that appends to a run's answers.jsonl and scores.jsonl, one write call a record.

    What is written survives the process at once, and the machine within `SYNC_EVERY_S`: a thread syncs both files to
    disk in groups. Only one process can hold a run's journals.

    Args:
        folder: The run's folder; both files are made, empty where nothing comes.
        tally: Counts generated answers.
        redactor: Strikes secrets out of errors and of what was said.

    Attributes:
        torn: Bytes of unfinished last lines that were cut off, the trace of a process that was killed.

    Raises:
        UserError: Another process holds them, or they cannot be written.
    """

    def __init__(self, folder: RunFolder, tally: Tally, redactor: Redactor = _NOTHING) -> None:
        self._folder = folder.path
        self._scores = _open(folder.journal)
        _lock(self._scores, folder.path)
        self._answers = _open(folder.answers)
        self._files = ((str(folder.journal), self._scores), (str(folder.answers), self._answers))
        self._tally = tally
        self._redactor = redactor
        self.torn = _mend(folder.journal, self._scores) + _mend(folder.answers, self._answers)
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._syncing = threading.Thread(target=self._sync_in_groups, name="journal-sync", daemon=True)
        self._syncing.start()

    def write(self, record: Answer | ScoreRecord) -> None:
        """Append one record. Recorded answers stand in the data already and are left out.

        Raises:
            InfrastructureError: The disk is full, where what was written before stays, and `resume` goes on; or the
                files are gone.
        """
        self.check()
        try:
            if isinstance(record, ScoreRecord):
                self._append(self._scores, journal_row(record))
            elif record.generated:
                self._append(self._answers, answer_row(record))
                self._tally.count_answer(record)
        except OSError as error:
            what = f"{self._folder} cannot be written: {error.strerror}"
            raise InfrastructureError(what, f"make room, then: {command('resume', self._folder)}") from None

    def check(self) -> None:
        """See that both files still stand where they were opened.

        Raises:
            InfrastructureError: They do not, so that what is written would be lost.
        """
        for path, file in self._files:
            try:
                there = os.path.samestat(os.stat(path), os.fstat(file))  # noqa: PTH116 - once for every record
            except OSError:
                there = False
            if not there:
                what = f"{path} is gone: it was moved or deleted while the run was going"
                hint = f"put it back, or ask again for what it held: {command('resume', self._folder)}"
                raise InfrastructureError(what, hint)

    def close(self) -> None:
        """Put both on the disk, and let go of them."""
        self._closed.set()
        self._dirty.set()
        self._syncing.join()
        for file in (self._answers, self._scores):
            os.fsync(file)
            os.close(file)

    def _append(self, file: int, row: dict[str, Any]) -> None:
        if row.get("error"):
            row["error"] = self._redactor.text(row["error"])
        line = self._redactor.data(json_line(row).decode()).encode() + b"\n"
        written = os.write(file, line)
        while written < len(line):
            written += os.write(file, line[written:])
        self._dirty.set()

    def _sync_in_groups(self) -> None:
        while not self._closed.is_set():
            self._dirty.wait()
            if self._closed.wait(SYNC_EVERY_S):
                return
            self._dirty.clear()
            os.fsync(self._answers)
            os.fsync(self._scores)


def _open(path: Path) -> int:
    return private_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)


def _lock(file: int, folder: Path) -> None:
    """Hold the file until it is closed or the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows, where msvcrt would lock bytes that readers need
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise UserError(
            Problem("another process is working on this run", str(folder), "wait until it has ended, or end it")
        ) from None


def _mend(path: Path, file: int) -> int:
    """Cut off a last line that was never finished; the number of bytes."""
    torn = torn_tail(path)
    if torn:
        os.ftruncate(file, path.stat().st_size - torn)
    return torn

"""The journals: one line per finished answer or score. Also reads what a run has finished."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from pydantic import TypeAdapter, ValidationError

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.plan import PreparedFile
from evalflow.errors import InfrastructureError, Problem, UserError, command
from evalflow.paths import BINARY, private_file
from evalflow.protocols import Sink, Target
from evalflow.records import Answer, AnswerStatus, Case, ScoreRecord
from evalflow.redaction import Redactor
from evalflow.summary.journal import journal_line, json_line, spend_of_row, torn_tail
from evalflow.summary.scan import scan_journal

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger("evalflow")

_COLUMNS = (
    "dataset",
    "index",
    "case_id",
    "target",
    "target_repeat",
    "status",
    "messages",
    "answer",
    "actual",
    "contexts",
    "metadata",
    "requests",
    "usage",
    "cost_usd",
    "saved_usd",
    "paid",
    "latency_s",
    "cached",
    "error_type",
    "error",
    "simulator",
    "thoughts",
    "full_answer",
    "extracted",
    "finish_reason",
)
"""The fields of an answer in a line of answers.jsonl."""
_CASE_ID = re.compile(rb'"case_id":\s*("(?:[^"\\]|\\.)*")')
SYNC_EVERY_S = 0.1
_NOTHING = Redactor()
_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat")


@cache
def _answers() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def parse_answer(line: bytes) -> Answer | None:
    """The answer in a line of answers.jsonl; None if the line is damaged."""
    try:
        return _answers().validate_json(line, strict=True)
    except ValidationError:
        return None


def read_answers(journal: Path) -> Iterator[Answer | None]:
    """The answers of a journal in the order written; None for a damaged line. An unfinished line is skipped."""
    for _, line in _lines(journal):
        yield parse_answer(line)


def _lines(journal: Path) -> Iterator[tuple[int, bytes]]:
    if not journal.exists():
        return
    offset = 0
    with journal.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


class AnswerBook:
    """Answers in journals by their place.

    Damaged lines are skipped; if an answer has several lines, the last counts.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        self._places: dict[int, tuple[int, int, int]] = {}
        self._lock = threading.Lock()

    def add(self, journal: Path, datasets: Iterable[str], *, case_ids: Collection[str] | None = None) -> None:
        """Add a journal's answers to cases of these datasets (and ids). A missing journal is ignored."""
        if not journal.exists():
            return
        wanted = set(datasets)
        ids = None if case_ids is None else {json_line(case_id) for case_id in case_ids}
        file = os.open(journal, os.O_RDONLY | BINARY)
        self._files.append(file)
        damaged = 0
        for offset, line in _lines(journal):
            if ids is not None and (match := _CASE_ID.search(line)) and match[1] not in ids:
                continue
            answer = parse_answer(line)
            if answer is None:
                damaged += 1
            elif answer.dataset in wanted:
                key = cell_digest(answer.dataset, answer.case_id, answer.target, answer.target_repeat)
                self._places[key] = (file, offset, len(line))
        if damaged:
            log.warning("%s: %d damaged lines are ignored", journal, damaged)

    def get(self, dataset: str, case_id: str, target: str, repeat: int) -> Answer | None:
        place = self._places.get(cell_digest(dataset, case_id, target, repeat)) if self._places else None
        if place is None:
            return None
        file, offset, length = place
        with self._lock:
            os.lseek(file, offset, os.SEEK_SET)  # not pread, which Windows does not have
            line = os.read(file, length)
        return parse_answer(line)

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._places)


class KnownAnswers(Protocol):
    """Answers by their place."""

    def get(self, dataset: str, case_id: str, target: str, repeat: int) -> Answer | None: ...

    def __len__(self) -> int: ...


class RememberingTarget:
    """A target that takes answers from a book where possible. Failed answers are generated again."""

    def __init__(self, target: Target, book: KnownAnswers) -> None:
        self.name = target.name
        self.identity = target.identity
        self._target = target
        self._book = book

    def known(self, case: Case, repeat: int) -> Answer | None:
        """Return the answer in the book, unless it failed."""
        answer = self._book.get(case.dataset, case.id, self.name, repeat)
        return None if answer is None or answer.status == "error" else answer

    async def answer(self, case: Case, repeat: int) -> Answer:
        stored = self.known(case, repeat)
        if stored is None:
            return await self._target.answer(case, repeat)
        simulator = stored.simulator and stored.simulator.reused
        return stored.spend.reused.fill(stored, index=case.index, simulator=simulator, cached=True)

    async def close(self) -> None:
        await self._target.close()


class JournalSink:
    """A sink that appends to a run's answers.jsonl and scores.jsonl, with one write call per record.

    A record survives the end of the process at once, and a crash of the machine after `SYNC_EVERY_S` at most: a thread
    syncs both files to disk, and looks whether they are still there. Only one process can hold a run's journals;
    UserError for another. `torn` is the number of bytes that a killed process left of unfinished lines, now cut off.
    """

    def __init__(self, folder: RunFolder, tally: Tally, redactor: Redactor = _NOTHING) -> None:
        self._folder = folder.path
        self._scores = _open(folder.journal)
        lock(self._scores, folder.path)
        self._answers = _open(folder.answers)
        self._files = ((folder.journal, _identity(self._scores)), (folder.answers, _identity(self._answers)))
        self._tally = tally
        self._redactor = redactor
        self.torn = _mend(folder.journal, self._scores) + _mend(folder.answers, self._answers)
        self._gone: InfrastructureError | None = None
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._syncing = threading.Thread(target=self._sync_in_groups, name="journal-sync", daemon=True)
        self._syncing.start()

    def write(self, record: Answer | ScoreRecord) -> None:
        """Append one record. Recorded answers are in the data already and are skipped.

        InfrastructureError if the disk is full or the files are gone; earlier records are intact, for `resume`.
        """
        if isinstance(record, ScoreRecord):
            file, row = self._scores, journal_line(record)
        elif record.generated:
            file, row = self._answers, _answer_line(record)
        else:
            return
        if self._gone is not None:
            raise self._gone
        if isinstance(error := row.get("error"), str):
            row["error"] = self._redactor.text(error)
        line = json_line(row)
        if self._redactor.hides_data:
            line = self._redactor.data(line.decode()).encode()
        line += b"\n"
        try:
            written = os.write(file, line)
            while written < len(line):
                written += os.write(file, line[written:])
        except OSError as error:
            what = f"{self._folder} cannot be written: {error.strerror}"
            raise InfrastructureError(what, f"make room, then: {command('resume', self._folder)}") from None
        if not self._dirty.is_set():  # setting it takes ten times as long
            self._dirty.set()
        if isinstance(record, Answer):
            self._tally.count_answer(record)

    def check(self) -> None:
        """Raise InfrastructureError if a file is no longer at its path, so that further records would be lost."""
        self._gone = self._gone or self._missing()
        if self._gone is not None:
            raise self._gone

    def _missing(self) -> InfrastructureError | None:
        for path, opened in self._files:
            try:
                stat = path.stat()
                there = (stat.st_dev, stat.st_ino) == opened
            except OSError:
                there = False
            if not there:
                what = f"{path} is gone: it was moved or deleted while the run was going"
                hint = f"restore it, or compute its contents again: {command('resume', self._folder)}"
                return InfrastructureError(what, hint)
        return None

    def close(self) -> None:
        self._closed.set()
        self._dirty.set()
        self._syncing.join()
        for file in (self._answers, self._scores):
            os.fsync(file)
            os.close(file)

    def _sync_in_groups(self) -> None:
        while not self._closed.is_set():
            self._dirty.wait()
            if self._closed.wait(SYNC_EVERY_S):
                return
            self._dirty.clear()
            os.fsync(self._answers)
            os.fsync(self._scores)
            self._gone = self._gone or self._missing()


def _answer_line(answer: Answer) -> dict[str, object]:
    """An answer as written to answers.jsonl, without the optional fields that are None."""
    values = {name: getattr(answer, name) for name in _COLUMNS}
    return {name: value for name, value in values.items() if value is not None or name == "saved_usd"}


def _open(path: Path) -> int:
    return private_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)


def _identity(file: int) -> tuple[int, int]:
    stat = os.fstat(file)
    return stat.st_dev, stat.st_ino


def lock(file: int, folder: Path) -> None:
    """Lock a run's file until it is closed or the process ends, even by a crash; UserError if another has it."""
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
    """Cut off an unfinished last line. Returns the number of bytes removed."""
    torn = torn_tail(path)
    if torn:
        os.ftruncate(file, path.stat().st_size - torn)
    return torn


def cell_digest(*key: str | int | None) -> int:
    """A 64-bit digest of a cell, by the columns in `_CELL`, or of an answer, by the first four of them."""
    text = "\0".join(["" if part is None else str(part) for part in key])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Finished:
    """Digests of the cells that earlier parts of a run have finished, and of their calls; the scores if asked for."""

    cells: Set[int] = frozenset()
    failed: Set[int] = frozenset()
    paid: set[int] = field(default_factory=set[int])
    scores: pl.DataFrame | None = None


def read_finished(
    folder: RunFolder,
    run_id: str,
    tally: Tally,
    bounded: Collection[str],
    *,
    errors_too: bool,
    failed_too: bool = False,
    scores_too: bool = False,
) -> Finished:
    """Read what a run has finished, and add it to the tally, with lines that were replaced by later ones."""
    import polars as pl

    columns = (*_CELL, "member_of", "status", "score", "cost_usd", "bill")
    lines = scan_journal(folder.journal, run_id, bounded).frame().select(columns).collect(engine="streaming")
    paid: set[int] = set()
    for cost_usd, bill in (*lines.select("cost_usd", "bill").iter_rows(), *PreparedFile(folder).bills()):
        spend = spend_of_row(bill, cost_usd)
        tally.count(spend)
        paid.update(spend.paid)
    # A cell that was scored again has two lines; the last one counts. Scores by a panel's members are not cells.
    cells = lines.filter(pl.col("member_of").is_null()).unique(_CELL, keep="last", maintain_order=True)
    if not errors_too:
        cells = cells.filter(pl.col("status") != "error")
    answered, lost = _count_answers(tally, folder.answers, paid)
    if lost:  # damaged lines do not show their cell, so cells without an answer are redone
        kept = [cell_digest(*row) in answered for row in cells.select(_CELL[:4]).iter_rows()]
        cells = cells.filter(pl.Series(kept, dtype=pl.Boolean))
    tally.scores.update(dict(cells["status"].value_counts().iter_rows()))
    failed = cells.filter(pl.col("score") == 0) if failed_too else cells.clear()
    return Finished(_digests(cells), _digests(failed), paid, cells if scores_too else None)


def _digests(cells: pl.DataFrame) -> set[int]:
    return {cell_digest(*row) for row in cells.select(_CELL).iter_rows()}


def _count_answers(tally: Tally, journal: Path, paid: set[int]) -> tuple[Set[int], bool]:
    """Count the answers, and return their digests, and whether damaged lines have lost some.

    If an answer has several lines, all were paid for and the last one counts.
    """
    lost = False
    states: dict[int, AnswerStatus] = {}
    for answer in read_answers(journal):
        if answer is None:
            lost = True
            continue
        tally.count_answer(answer)
        paid.update(answer.all_paid)
        states[cell_digest(answer.dataset, answer.case_id, answer.target, answer.target_repeat)] = answer.status
    tally.answers = Counter[str](states.values())
    return states.keys(), lost


class WatchedSink:
    """A Sink around another one that shows the scores of some metrics after writing them."""

    def __init__(self, sink: Sink, metrics: Collection[str], show: Callable[[ScoreRecord], None]) -> None:
        self._sink = sink
        self._metrics = metrics
        self._show = show

    def write(self, record: Answer | ScoreRecord) -> None:
        self._sink.write(record)
        if isinstance(record, ScoreRecord) and record.metric in self._metrics:
            self._show(record)

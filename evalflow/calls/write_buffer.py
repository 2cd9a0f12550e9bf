"""Group commit for the cache: entries go to a log file at once, and to the database in batches."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from evalflow.calls.cache_store import Corrupt, Entry, Foreign, Slot, Store, is_busy, pack, set_aside

log = logging.getLogger("evalflow")

INTERVAL_S = 0.05  # how long entries gather before they are committed together


class WriteAheadLogs:
    """The two log files of one process. Not thread-safe: callers hold a lock."""

    def __init__(self, database: Path) -> None:
        stem = f"{database.name}.{os.getpid()}-{uuid4().hex[:8]}"
        self._paths = [database.with_name(f"{stem}-{turn}.tail") for turn in (0, 1)]
        self._files = [_claimed(path) for path in self._paths]
        self._turn = 0

    def append(self, record: bytes) -> None:
        written = os.write(self._files[self._turn], record)
        if written < len(record):
            raise OSError(f"only {written} of {len(record)} bytes were written")

    def turn(self) -> int:
        """Append to the other file from now on; returns the turn whose records are to be committed, then cleared."""
        before, self._turn = self._turn, 1 - self._turn
        return before

    def clear(self, turn: int) -> None:
        """Empty a file whose records have been committed."""
        os.ftruncate(self._files[turn], 0)

    def close(self, *, keep: bool = False) -> None:
        """Close both files, and remove them unless `keep` is set because they hold uncommitted records."""
        for path, file in zip(self._paths, self._files, strict=True):
            if not keep:
                path.unlink(missing_ok=True)
            os.close(file)


@contextmanager
def abandoned_logs(database: Path) -> Generator[list[bytes]]:
    """The log files of dead processes, locked so that no other process adopts them too; removed after the block."""
    found = sorted(database.parent.glob(f"{database.name}.*.tail"))
    held = [(path, file) for path in found if (file := _taken(path)) is not None]
    try:
        yield [path.read_bytes() for path, _ in held]
        for path, _ in held:
            path.unlink(missing_ok=True)
    finally:
        for _, file in held:
            os.close(file)


def _claimed(path: Path) -> int:
    """A new, locked file. If another process adopts it before it is locked, it is created again."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        if _lock(file) and path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
            return file
        os.close(file)


def _taken(path: Path) -> int | None:
    """An existing file, locked; None if its owner is alive."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return None
    if _lock(file):
        return file
    os.close(file)
    return None


def _lock(file: int) -> bool:
    """Lock a file; False if another process has the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Committer:
    """Writes to the database from its own thread, so that storing an entry costs its caller one small write.

    `gathered` and `under_way` are entries that may not be in the database yet; `opened` counts databases: more than one
    if the first was set aside.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self.gathered: dict[Slot, Entry] = {}
        self.under_way: dict[Slot, Entry] = {}
        self._touched: set[Slot] = set()
        self._thread: threading.Thread | None = None
        self._logs: WriteAheadLogs | None = None
        self._store: Store | None = None
        self._stopped = False
        self._waited = False
        self.opened = 0

    def add(self, slot: Slot, entry: Entry) -> None:
        """Store an entry; it survives this process when this returns. Does nothing after storing has failed once."""
        if self._stopped or len(entry.body) > self._max_bytes // 2:
            return
        with self._lock:
            try:
                self._logs = self._logs or WriteAheadLogs(self._path)
                self._logs.append(pack(*slot, entry))
            except OSError as error:
                self._stop(error)
            else:
                self.gathered[slot] = entry
        if not self._wake.is_set():
            self._awaken()

    def touch(self, slot: Slot) -> None:
        if not self._stopped:
            with self._lock:
                self._touched.add(slot)
            self._awaken()

    def close(self) -> None:
        """End the thread for good. Entries that cannot be committed stay in the log files for a later run."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        if self._logs is not None:
            self._logs.close(keep=bool(self.gathered))

    def _awaken(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="evalflow.cache", daemon=True)
            self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        last = False
        while not last:
            self._wake.wait()
            self._wake.clear()  # clear before looking: anything set later wakes the thread again
            last = self._closing.wait(INTERVAL_S) or self._stopped
            self._flush()
        if self._store is not None:
            self._store.close()

    def _flush(self) -> None:
        with self._lock:
            batch = self.under_way = self.gathered  # in this order: a reader must see an entry at any time
            self.gathered = {}
            touched, self._touched = self._touched, set[Slot]()
            turn = self._logs.turn() if self._logs else None
        try:
            if touched:
                self._write({}, touched)
            for part in _parts(batch, self._max_bytes // 8):
                self._write(part)
        except (sqlite3.Error, OSError, Corrupt, Foreign) as error:
            self._failed(error, batch)
            return
        self._waited = False
        if self._logs is not None and turn is not None:
            self._logs.clear(turn)
        self.under_way = {}

    def _write(self, entries: Mapping[Slot, Entry], touched: Iterable[Slot] = ()) -> None:
        try:
            self._current().write(entries, touched, self._max_bytes)
        except Corrupt as error:
            self._drop()
            replace_corrupt(self._path, error)
            self._current().write(entries, touched, self._max_bytes)

    def _current(self) -> Store:
        """The database, reopened if its file has been replaced."""
        if self._store is not None and not (self._path.exists() and self._path.stat().st_ino == self._store.inode):
            self._drop()
        if self._store is None:
            self._store = Store(self._path)
            self.opened += 1
        return self._store

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _failed(self, error: Exception, batch: dict[Slot, Entry]) -> None:
        """Keep entries that could not be written; retry if another process was only too slow."""
        with self._lock:
            self.gathered = {**batch, **self.gathered}
            self.under_way = {}
            if not is_busy(error):
                self._stop(error)
                return
        self._wake.set()
        if not self._waited:
            log.warning("the cache %s is held by another process; this one waits", self._path)
            self._waited = True

    def _stop(self, error: Exception) -> None:
        if self._stopped:
            return
        self._stopped = True
        log.warning("the cache %s cannot be written (%s); the run goes on without storing replies", self._path, error)


def replace_corrupt(path: Path, error: Corrupt) -> None:
    """Set a damaged database aside and say so."""
    aside = set_aside(path, error.inode)
    if aside is not None:
        log.warning("the cache %s is damaged (%s); it is now %s, and a new one begins", path, error, aside.name)


def _parts(entries: Mapping[Slot, Entry], size: int) -> Iterator[Mapping[Slot, Entry]]:
    """The entries in batches of about `size`, so that room for each is made before it is stored."""
    part: dict[Slot, Entry] = {}
    taken = 0
    for slot, entry in entries.items():
        part[slot] = entry
        taken += len(entry.body)
        if taken >= size:
            yield part
            part, taken = {}, 0
    if part:
        yield part

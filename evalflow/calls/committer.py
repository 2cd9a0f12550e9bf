"""Group commit: entries are in memory and in a tail file at once, and in the database a moment later, many together."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from evalflow.calls.damage import Corrupt, Foreign, is_busy, set_aside
from evalflow.calls.entry import Entry, pack
from evalflow.calls.store import Slot, Store
from evalflow.calls.tail import Tails

log = logging.getLogger("evalflow")

INTERVAL_S = 0.05
"""How long entries gather before they are committed together."""


class Committer:
    """Writes to the database from a thread of its own, so that storing an entry costs its caller one small write.

    Args:
        path: The database.
        max_bytes: What it may take.

    Attributes:
        opened: How many databases it has opened: more than one where the first was set aside.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._gathered: dict[Slot, Entry] = {}
        self._under_way: dict[Slot, Entry] = {}
        self._touched: set[Slot] = set()
        self._thread: threading.Thread | None = None
        self._tails: Tails | None = None
        self._store: Store | None = None
        self._stopped = False
        self._waited = False
        self.opened = 0

    def find(self, slot: Slot) -> Entry | None:
        """An entry that may not be in the database yet."""
        return self._gathered.get(slot) or self._under_way.get(slot)

    def add(self, slot: Slot, entry: Entry) -> None:
        """Store an entry; it outlives this process when this returns. Nothing happens once storing has failed."""
        if self._stopped or len(entry.body) > self._max_bytes // 2:
            return
        with self._lock:
            try:
                self._tails = self._tails or Tails(self._path)
                self._tails.append(pack(*slot, entry))
            except OSError as error:
                self._stop(error)
            else:
                self._gathered[slot] = entry
        self._awaken()

    def touch(self, slot: Slot) -> None:
        """Note that an entry was used."""
        if not self._stopped:
            with self._lock:
                self._touched.add(slot)
            self._awaken()

    def close(self) -> None:
        """Commit what is left, and end the thread. What cannot be committed stays in the tail files, for a later run.

        Not to be used again.
        """
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        if self._tails is not None:
            self._tails.close(keep=bool(self._gathered))

    def _awaken(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="evalflow.cache", daemon=True)
            self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        last = False
        while not last:
            self._wake.wait()
            self._wake.clear()  # before looking: what is set from here on wakes it once more
            last = self._closing.wait(INTERVAL_S) or self._stopped
            self._flush()
        if self._store is not None:
            self._store.close()

    def _flush(self) -> None:
        with self._lock:
            batch = self._under_way = self._gathered  # in this order: `find` must see an entry at any time
            self._gathered = {}
            touched, self._touched = self._touched, set[Slot]()
            turn = self._tails.turn() if self._tails else None
        try:
            if touched:
                self._write({}, touched)
            for part in _parts(batch, self._max_bytes // 8):
                self._write(part)
        except (sqlite3.Error, OSError, Corrupt, Foreign) as error:
            self._failed(error, batch)
            return
        self._waited = False
        if self._tails is not None and turn is not None:
            self._tails.clear(turn)
        self._under_way = {}

    def _write(self, entries: Mapping[Slot, Entry], touched: Iterable[Slot] = ()) -> None:
        try:
            self._current().write(entries, touched, self._max_bytes)
        except Corrupt as error:
            self._drop()
            replace_corrupt(self._path, error)
            self._current().write(entries, touched, self._max_bytes)

    def _current(self) -> Store:
        """The database, opened again where the file is another one by now."""
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
        """Keep what could not be written; try again where another process was only too slow."""
        with self._lock:
            self._gathered = {**batch, **self._gathered}
            self._under_way = {}
            if not is_busy(error):
                self._stop(error)
                return
        self._wake.set()
        if not self._waited:
            log.warning("the cache %s is held by another process; this one waits and goes on", self._path)
            self._waited = True

    def _stop(self, error: Exception) -> None:
        if self._stopped:
            return
        self._stopped = True
        log.warning("the cache %s cannot be written (%s); the run goes on without storing replies", self._path, error)


def replace_corrupt(path: Path, error: Corrupt) -> None:
    """Set a damaged database aside and say so.

    Raises:
        OSError: It cannot be moved.
    """
    aside = set_aside(path, error.inode)
    if aside is not None:
        log.warning("the cache %s is damaged (%s); it is now %s, and a new one begins", path, error, aside.name)


def _parts(entries: Mapping[Slot, Entry], size: int) -> Iterator[Mapping[Slot, Entry]]:
    """The entries in parts of about a size, so that room for each can be made before it is stored."""
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

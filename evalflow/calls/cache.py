"""The cache of model replies, keyed by everything that determines a reply."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from evalflow.calls.cache_store import COMPUTED, Corrupt, Entry, Foreign, Slot, Store, is_busy, set_aside

log = logging.getLogger("evalflow")
T = TypeVar("T")

Mode = Literal["on", "off", "read", "refresh"]
MAX_BYTES = 1024**3
GATHER_S = 0.02
"""Seconds for which replies are collected before they are stored together."""
SHARED = ""  # the scope that every run may read; other scopes are run ids


class Cache:
    """Stores replies in one SQLite file, shared by all runs and processes that name it.

    Problems with the file never end a run: a damaged file is set aside, an unwritable one is only read, and if it
    cannot be opened, nothing is cached; each is logged once. `mode` is on (read and store), read (store for this run
    only, so that it can be resumed), refresh (read only what this run has stored) or off (as refresh, and store for
    this run only). Beyond `max_bytes` the least recently used replies are removed.
    """

    def __init__(self, path: Path, mode: Mode = "on", *, run_id: str = "", max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._mode: Mode = mode
        self.run_id = run_id
        self._scope = run_id if mode in {"off", "read"} else SHARED
        self._max_bytes = max_bytes
        self._writer = CacheWriter(path, max_bytes)
        self._store: Store | None = None
        self._opened = False
        self._files_seen = 0
        self._reading = threading.Lock()  # judges in this process read computed values from threads

    def get(self, key: bytes) -> Entry | None:
        slot = (key, self._scope)
        entry = self._writer.waiting.get(slot) or self._look_up(slot)
        if entry is None and self._mode == "read":
            return self._look_up((key, SHARED))
        if entry is None or (self._mode == "refresh" and entry.run_id != self.run_id):
            return None
        return entry

    def put(self, key: bytes, entry: Entry) -> Entry:
        """Store the reply to a request, and return it as stored.

        It can be read at once but is in the file only some milliseconds later: a killed process loses its last replies.
        """
        stored = Entry(
            body=entry.body,
            requests=entry.requests,
            usage=entry.usage,
            latency_s=entry.latency_s,
            run_id=self.run_id,
            made_at=time.time(),
        )
        self._writer.add((key, self._scope), stored)
        return stored

    def computed(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return what `keep_computed` stored under these keys; nothing in mode off. Thread-safe.

        Example:
            >>> import tempfile
            >>> cache = Cache(Path(tempfile.mkdtemp()) / "cache.db")
            >>> cache.keep_computed({b"key": b"vector"})
            >>> cache.computed([b"key", b"other"])
            {b'key': b'vector'}
            >>> cache.close()
        """
        if self._mode == "off":
            return {}
        entries = {key: entry for key in keys if (entry := self._writer.waiting.get((key, COMPUTED))) is not None}
        missing = [key for key in keys if key not in entries]
        stored = self._stored(lambda store: store.get_many(missing, COMPUTED)) if missing else None
        for key, (entry, note) in (stored or {}).items():
            entries[key] = entry
            if note:
                self._writer.touch((key, COMPUTED))
        own = self._mode == "refresh"
        return {key: entry.body for key, entry in entries.items() if not own or entry.run_id == self.run_id}

    def keep_computed(self, results: Mapping[bytes, bytes]) -> None:
        """Queue values that are free to recompute, evicted before any reply. Does nothing in mode off or read."""
        if self._mode in {"off", "read"}:
            return
        now = time.time()
        for key, body in results.items():
            self._writer.add((key, COMPUTED), Entry(body=body, requests=0, run_id=self.run_id, made_at=now))

    def close(self) -> None:
        """Write pending entries and close the file; a later call opens it again."""
        self._writer.close()
        self._writer = CacheWriter(self._path, self._max_bytes)
        self._drop()
        self._opened = False

    def _look_up(self, slot: Slot) -> Entry | None:
        stored = self._stored(lambda store: store.get(slot))
        if stored is None:
            return None
        entry, note = stored
        if note:
            self._writer.touch(slot)
        return entry

    def _stored(self, look: Callable[[Store], T]) -> T | None:
        """Read the entry from the file; None if the file cannot be read."""
        with self._reading:
            if not self._opened or self._writer.files > self._files_seen:
                self._open()
            if self._store is None:
                return None
            try:
                return look(self._store)
            except Corrupt as error:
                self._drop()
                self._open(error)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    self._do_without(error)
            return None

    def _open(self, corrupt: Corrupt | None = None) -> None:
        """Open the file for reading, or a new one if it is corrupt. Tried only once."""
        self._opened = True
        self._files_seen = self._writer.files
        self._drop()
        try:
            self._store = open_store(self._path, corrupt)
        except (Corrupt, Foreign, OSError, sqlite3.Error) as error:
            self._do_without(error)

    def _do_without(self, error: Exception) -> None:
        self._drop()
        log.warning("the cache %s cannot be read (%s); the run continues without it", self._path, error)

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class CacheWriter:
    """Stores entries in its own thread, those of a few milliseconds in one transaction.

    `waiting` are the entries that may not be in the file yet. `files` counts the files opened, more than one if the
    first was removed or set aside.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._touched: set[Slot] = set()
        self._failed = False
        self._busy = False
        self.waiting: dict[Slot, Entry] = {}
        self.files = 0

    def add(self, slot: Slot, entry: Entry) -> None:
        """Queue an entry to be stored. Does nothing if it is too large or storing has failed once."""
        if self._failed or len(entry.body) > self._max_bytes // 2:
            return
        with self._lock:
            self.waiting[slot] = entry
        self._awaken()

    def touch(self, slot: Slot) -> None:
        """Queue an update of an entry's last use."""
        if not self._failed:
            with self._lock:
                self._touched.add(slot)
            self._awaken()

    def close(self) -> None:
        """Store pending entries and end the thread."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _awaken(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="evalflow.cache", daemon=True)
            self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        while self.waiting or self._touched or not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(GATHER_S)
            if not self._closing.is_set():
                self._wake.clear()  # cleared before taking entries, so that later ones wake the thread again
            batch, touched = self._taken()
            try:
                if batch or touched:
                    self._write(batch, touched)
            except (sqlite3.Error, OSError, Corrupt, Foreign) as error:
                self._note(error)
            else:
                self._busy = False
                self._forget(batch)
        self._drop()

    def _taken(self) -> tuple[dict[Slot, Entry], set[Slot]]:
        """Return the next entries to write: a limited number, so that room can be made before they are stored."""
        batch: dict[Slot, Entry] = {}
        size = 0
        with self._lock:
            touched, self._touched = self._touched, set()
            for slot, entry in self.waiting.items():
                batch[slot] = entry
                size += len(entry.body)
                if size > self._max_bytes // 8:
                    self._wake.set()
                    break
        return batch, touched

    def _forget(self, batch: Mapping[Slot, Entry]) -> None:
        """Drop entries that are now in the file."""
        with self._lock:
            for slot, entry in batch.items():
                if self.waiting.get(slot) is entry:
                    del self.waiting[slot]

    def _write(self, batch: Mapping[Slot, Entry], touched: Collection[Slot]) -> None:
        try:
            self._current().write(batch, touched, self._max_bytes)
        except Corrupt as error:
            self._drop()
            self._current(error).write(batch, touched, self._max_bytes)

    def _current(self, corrupt: Corrupt | None = None) -> Store:
        """Return the database, reopened if its file was replaced or is corrupt."""
        if self._store is not None and not self._store.is_in_place():
            self._drop()
        if self._store is None:
            self._store = open_store(self._path, corrupt)
            self.files += 1
        return self._store

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _note(self, error: Exception) -> None:
        """Retry if another process held the lock for too long, unless the run is ending; otherwise stop storing."""
        if is_busy(error) and not self._closing.is_set():
            self._wake.set()
            if not self._busy:
                self._busy = True
                log.warning("the cache %s is held by another process; this one waits", self._path)
            return
        self._failed = True
        with self._lock:
            self.waiting.clear()
            self._touched.clear()
        log.warning("the cache %s cannot be written (%s); the run continues without storing replies", self._path, error)


def open_store(path: Path, corrupt: Corrupt | None = None) -> Store:
    """Open the file; if it is corrupt, set it aside with a warning and create a new one."""
    if corrupt is None:
        try:
            return Store(path)
        except Corrupt as error:
            corrupt = error
    aside = set_aside(path, corrupt.inode)
    if aside is not None:
        log.warning("the cache %s is damaged (%s); it is now %s, and a new one begins", path, corrupt, aside.name)
    return Store(path)

"""What was asked before and need not be paid for again: replies of models by all that reached them."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path
from typing import Literal

from evalflow.calls.cache_store import Corrupt, Entry, Foreign, Slot, Store, is_busy, unpack
from evalflow.calls.write_buffer import Committer, Orphans, replace_corrupt

log = logging.getLogger("evalflow")

Mode = Literal["on", "off", "read", "refresh"]
MAX_BYTES = 1024**3
SHARED = ""
"""The scope of what every run may read; other scopes are ids of runs."""


class Cache:
    """Remembers replies in one file, for all runs and processes that name it.

    It is opened by the first call, not before. Nothing that happens to the file ends a run: a damaged one is set aside,
    one that cannot be written is only read, one that cannot be opened is done without; each is said once in the log.

    Args:
        path: The file.
        mode: on (reads and stores); read (reads, and stores for this run alone, so that it can be resumed); refresh
            (reads what this run has stored, and stores); off (the same, and what it stores is for this run alone).
        run_id: That run's id.
        max_bytes: What the file may take; the least recently used replies go first.

    Attributes:
        run_id: The run that asks.
    """

    def __init__(self, path: Path, mode: Mode = "on", *, run_id: str = "", max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._mode: Mode = mode
        self.run_id = run_id
        self._scope = run_id if mode in {"off", "read"} else SHARED
        self._store: Store | None = None
        self._max_bytes = max_bytes
        self._committer = Committer(path, max_bytes)
        self._opened = False
        self._seen = 0

    def get(self, key: bytes) -> Entry | None:
        """The reply to a request, or None where it must be asked for."""
        slot = (key, self._scope)
        entry = self._committer.find(slot) or self._look_up(slot)
        if entry is None and self._mode == "read":
            return self._look_up((key, SHARED))
        if entry is None or (self._mode == "refresh" and entry.run_id != self.run_id):
            return None
        return entry

    def put(self, key: bytes, entry: Entry) -> None:
        """Remember the reply to a request. It can be got at once, and outlives this process when this returns."""
        if not self._opened:
            self._open()
        stored = Entry(
            body=entry.body,
            requests=entry.requests,
            usage=entry.usage,
            latency_s=entry.latency_s,
            run_id=self.run_id,
            made_at=time.time(),
        )
        self._committer.add((key, self._scope), stored)

    def close(self) -> None:
        """Write what is not in the file yet, and close it; a later call opens it again."""
        self._committer.close()
        self._committer = Committer(self._path, self._max_bytes)
        self._drop()
        self._opened = False

    def _look_up(self, slot: Slot) -> Entry | None:
        if not self._opened or self._committer.opened > self._seen:
            self._open()
        if self._store is None:
            return None
        try:
            found = self._store.get(slot)
        except Corrupt as error:
            self._replace(error)
            return None
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                self._do_without(error)
            return None
        if found is None:
            return None
        entry, note = found
        if note:
            self._committer.touch(slot)
        return entry

    def _open(self) -> None:
        """Open the file for reading, take over what killed processes left, and remember that this was tried."""
        self._opened = True
        self._seen = self._committer.opened
        self._drop()
        try:
            self._store = Store(self._path)
            _adopt(self._path, self._store)
        except Corrupt as error:
            self._replace(error)
        except (Foreign, OSError, sqlite3.Error) as error:
            self._do_without(error)

    def _replace(self, error: Corrupt) -> None:
        """Go on with a new file."""
        self._drop()
        try:
            replace_corrupt(self._path, error)
            self._store = Store(self._path)
        except (Corrupt, Foreign, OSError, sqlite3.Error) as failed:
            self._do_without(failed)

    def _do_without(self, error: Exception) -> None:
        self._drop()
        log.warning("the cache %s cannot be read (%s); the run goes on without it", self._path, error)

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _adopt(path: Path, store: Store) -> None:
    """Store what processes that were killed had not yet committed; where that is impossible now, leave it for later."""
    orphans = Orphans(path)
    try:
        entries = {(key, scope): entry for data in orphans.contents() for key, scope, entry in unpack(data)}
        if entries:
            store.write(entries, ())
        orphans.remove()
    except sqlite3.OperationalError as error:
        log.warning("the cache %s cannot take over what a killed process left (%s)", path, error)
    finally:
        orphans.release()

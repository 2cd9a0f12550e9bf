"""The cache: replies of models, stored under everything that determined them."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path
from typing import Literal

from evalflow.calls.cache_store import Corrupt, Entry, Foreign, Slot, Store, is_busy, unpack
from evalflow.calls.write_buffer import Committer, abandoned_logs, replace_corrupt

log = logging.getLogger("evalflow")

Mode = Literal["on", "off", "read", "refresh"]
MAX_BYTES = 1024**3
SHARED = ""  # the scope that every run may read; other scopes are run ids


class Cache:
    """Stores replies in one file, shared by all runs and processes that name it.

    Problems with the file never end a run: a damaged one is set aside, one that cannot be written is only read, and if
    it cannot be opened, nothing is cached; each is logged once. `mode` is on (read and store), read (store for this run
    only, so that it can be resumed), refresh (read only what this run has stored) or off (as refresh, and store for
    this run only). Beyond `max_bytes` the least recently used replies are removed.
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
        slot = (key, self._scope)
        committer = self._committer
        entry = committer.gathered.get(slot) or committer.under_way.get(slot) or self._look_up(slot)
        if entry is None and self._mode == "read":
            return self._look_up((key, SHARED))
        if entry is None or (self._mode == "refresh" and entry.run_id != self.run_id):
            return None
        return entry

    def put(self, key: bytes, entry: Entry) -> Entry:
        """Store the reply to a request, and return it as stored.

        It can be read at once, and survives this process when this returns.
        """
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
        return stored

    def close(self) -> None:
        """Write what is not in the file yet and close it; a later call opens it again."""
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
        """Open the file for reading, adopt entries of killed processes, and note the attempt."""
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
    """Store what killed processes had not committed; if that is impossible now, leave it for later."""
    try:
        with abandoned_logs(path) as logs:
            entries = {(key, scope): entry for data in logs for key, scope, entry in unpack(data)}
            if entries:
                store.write(entries, ())
    except sqlite3.OperationalError as error:
        log.warning("the cache %s cannot take over what a killed process left (%s)", path, error)

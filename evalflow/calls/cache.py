"""The cache: replies of models, stored under everything that determined them."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from evalflow.calls.cache_store import Corrupt, Entry, Foreign, Slot, Store, is_busy, unpack
from evalflow.calls.shared_cache import SharedCache
from evalflow.calls.write_buffer import Committer, abandoned_logs, replace_corrupt
from evalflow.errors import CallError

log = logging.getLogger("evalflow")

Mode = Literal["on", "off", "read", "refresh"]
MAX_BYTES = 1024**3
SHARED = ""  # the scope that every run may read; other scopes are run ids
T = TypeVar("T")


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


class UnreadableEntry(ValueError):
    """A cached reply cannot be read any more and is requested again; raised by readers."""


def short(key: bytes) -> int:
    """A 64-bit signed digest of a key, for columns of journals."""
    return int.from_bytes(key[:8], "big", signed=True)


class SingleFlight:
    """Calls by key. Only one call per key is under way at a time; others that want the same value wait for it.

    `settled` are the calls whose cost is in the journals of a resumed run; None for a new run. A reply that was cached
    but not yet journaled when the run died is billed on first reuse, and given to `claimed` with its price. What the
    cache does not have is looked for in the shared one, which must be opened first. A run that is spread over processes
    finds and keeps its replies elsewhere: see `desk_client.DeskFlight`.
    """

    def __init__(self, cache: Cache | None = None, shared: SharedCache | None = None) -> None:
        self._cache = cache
        self._shared = shared
        self._under_way: dict[bytes, asyncio.Future[Entry]] = {}
        self.settled: set[int] | None = None
        self.claimed: Callable[[Entry, float | None], None] | None = None

    async def __call__(
        self,
        key: bytes,
        ask: Callable[[], Awaitable[tuple[T, Entry]]],
        read: Callable[[Entry, bool], T],
        price: Callable[[Entry], float | None] = lambda _: None,
    ) -> T:
        """The value of a call. Callers that only waited get its error without its cost, which would count twice.

        `ask` makes the call; it returns its value and the entry to cache, and raises for what must not be cached.
        `read` gives the value of a cached entry, which may be free, or raises UnreadableEntry.
        """
        entry, unreadable = self.known(key), None
        while True:
            if entry is not None:
                try:
                    return self._value(key, entry, read, price)
                except UnreadableEntry:
                    unreadable = entry
            other = self._under_way.get(key)
            if other is None:
                break
            await asyncio.wait({other})  # cancelling the other task does not cancel this one, nor the reverse
            entry = None if other.cancelled() else other.result()
        flight = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            while (entry := await self._find(key, unreadable)) is not None:
                try:
                    value = self._value(key, entry, read, price)
                    break
                except UnreadableEntry:
                    unreadable = entry
            else:
                value, entry = await self._ask(key, ask)
        except Exception as error:
            flight.set_exception(for_others(error))
            flight.exception()  # marks it as retrieved: there may be no waiter
            raise
        except BaseException:
            flight.cancel()
            raise
        finally:
            del self._under_way[key]
        flight.set_result(entry)
        return value

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[tuple[T, Entry]]]) -> tuple[T, Entry]:
        value, entry = await ask()
        self._keep(key, entry)
        return value, entry

    def _value(
        self, key: bytes, entry: Entry, read: Callable[[Entry, bool], T], price: Callable[[Entry], float | None]
    ) -> T:
        owed = self._is_owed(key, entry)
        value = read(entry, not owed)
        if owed:
            self._claim(key, entry, price)
        return value

    def known(self, key: bytes) -> Entry | None:
        return self._cache.get(key) if self._cache else None

    def open_shared(self) -> None:
        """Connect to the shared cache, if there is one; UserError if that fails."""
        if self._shared is not None:
            self._shared.open()

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        if self._shared is not None:
            self._shared.close()

    async def _find(self, key: bytes, unreadable: Entry | None) -> Entry | None:
        """The entry of a key from afar; None if the model is to be asked. `unreadable`: the one found before."""
        return await self._shared.get(key) if self._shared is not None and unreadable is None else None

    def _keep(self, key: bytes, entry: Entry) -> None:
        if self.settled is not None:
            self.settled.add(short(key))
        if self._cache is not None:
            stored = self._cache.put(key, entry)
            if self._shared is not None:
                self._shared.put(key, stored)

    def _is_owed(self, key: bytes, entry: Entry) -> bool:
        """Whether this run paid for an entry before it was killed, and no journal has its cost yet."""
        if self.settled is None or self._cache is None:
            return False
        return entry.run_id == self._cache.run_id and short(key) not in self.settled

    def _claim(self, key: bytes, entry: Entry, price: Callable[[Entry], float | None]) -> None:
        assert self.settled is not None
        self.settled.add(short(key))
        if self.claimed is not None:
            self.claimed(entry, price(entry))


def for_others(error: Exception) -> Exception:
    """The error of a call without its cost."""
    if isinstance(error, CallError):
        kind: Any = type(error)
        return kind(error.error_type, str(error), error.raw)
    return error

"""Single flight: of equal concurrent calls only one is sent; finished ones come from the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, short
from evalflow.calls.shared_cache import SharedCache
from evalflow.errors import CallError

T = TypeVar("T")


class UnreadableEntry(ValueError):
    """A cached reply cannot be read any more and is requested again; raised by readers."""


class SingleFlight:
    """Calls by key. Only one call per key is in flight at a time; others that want the same value wait for it.

    `settled` are the calls whose cost is in the journals of a resumed run; None for a new run. A reply that was cached
    but not yet journaled when the run died is billed on first reuse and passed to `claimed` with its price. Cache
    misses are looked up in the shared cache, which must be opened first. For a run spread over several processes see
    `coordinator_client.CoordinatedFlight`.
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
        """Return the value of a call. Callers that only waited get its error without its cost, which would count twice.

        `ask` makes the call and returns its value and the entry to cache; it raises if nothing may be cached.
        `read` returns the value of a cached entry, possibly at no cost, or raises UnreadableEntry.
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
            await asyncio.wait({other})  # cancelling one task does not cancel the other
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
            flight.exception()  # marks the exception as retrieved, since there may be no waiter
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
        """Look up an entry in the shared cache; None if it must be requested. `unreadable`: an entry to ignore."""
        return await self._shared.get(key) if self._shared is not None and unreadable is None else None

    def _keep(self, key: bytes, entry: Entry) -> None:
        if self.settled is not None:
            self.settled.add(short(key))
        if self._cache is not None:
            stored = self._cache.put(key, entry)
            if self._shared is not None:
                self._shared.put(key, stored)

    def _is_owed(self, key: bytes, entry: Entry) -> bool:
        """Return whether this run paid for an entry before it was killed, and no journal has its cost yet."""
        if self.settled is None or self._cache is None:
            return False
        return entry.run_id == self._cache.run_id and short(key) not in self.settled

    def _claim(self, key: bytes, entry: Entry, price: Callable[[Entry], float | None]) -> None:
        assert self.settled is not None
        self.settled.add(short(key))
        if self.claimed is not None:
            self.claimed(entry, price(entry))


def for_others(error: Exception) -> Exception:
    """Return the error of a call without its cost."""
    if isinstance(error, CallError):
        kind: Any = type(error)
        return kind(error.error_type, str(error), error.raw)
    return error

"""Single flight: of equal requests at the same time only one is sent, and cached ones are not sent at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry
from evalflow.errors import CallError

T = TypeVar("T")


class Unreadable(ValueError):
    """A cached reply cannot be read any more and is requested again; raised by readers."""


def short(key: bytes) -> int:
    """A 64-bit signed digest of a key, for columns of journals."""
    return int.from_bytes(key[:8], "big", signed=True)


class Once:
    """Calls by key. Only one call per key is under way at a time; others that want the same value wait for it.

    Args:
        cache: Stores replies; None stores nothing.

    Attributes:
        settled: The calls whose cost is in the journals of a resumed run; None for a new run. A reply that was cached
            but not yet journaled when the run died is billed on first reuse.
        claimed: Called with such a reply and its price (None if unknown).
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache
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
        """The value of a call.

        Args:
            key: Everything that determines the reply, from `key_of`.
            ask: Makes the call; returns its value and the entry to cache. Raises for what must not be cached.
            read: The value of a cached entry; its flag says whether the entry was free. Raises Unreadable for an
                unusable entry.
            price: The original cost of a cached entry in US dollars.

        Raises:
            Exception: Errors of `ask`. Callers that only waited get the error without its cost, which would count
                twice.
        """
        entry = self._cache.get(key) if self._cache else None
        while True:
            if entry is not None:
                owed = self._is_owed(key, entry)
                try:
                    value = read(entry, not owed)
                except Unreadable:
                    pass
                else:
                    if owed:
                        self._claim(key, entry, price)
                    return value
            other = self._under_way.get(key)
            if other is None:
                break
            await asyncio.wait({other})  # cancelling the other task does not cancel this one, nor the reverse
            entry = None if other.cancelled() else other.result()
        shared = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            value, entry = await ask()
        except Exception as error:
            shared.set_exception(_for_others(error))
            shared.exception()  # marks it as retrieved: there may be no waiter
            raise
        except BaseException:
            shared.cancel()
            raise
        finally:
            del self._under_way[key]
        if self._cache is not None:
            self._cache.put(key, entry)
        if self.settled is not None:
            self.settled.add(short(key))
        shared.set_result(entry)
        return value

    def known(self, key: bytes) -> Entry | None:
        """The cached entry of a key; nothing is sent or counted."""
        return self._cache.get(key) if self._cache else None

    def close(self) -> None:
        """Close the cache; a later call opens it again."""
        if self._cache is not None:
            self._cache.close()

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


def _for_others(error: Exception) -> Exception:
    if isinstance(error, CallError):
        kind: Any = type(error)
        return kind(error.error_type, str(error), error.raw)
    return error

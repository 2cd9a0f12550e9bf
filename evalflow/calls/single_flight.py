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
    """A remembered reply does not mean anything any more, so it is asked for again; raised by readers."""


def short(key: bytes) -> int:
    """A digest of a key that fits a column, for journals: 64 bits with a sign."""
    return int.from_bytes(key[:8], "big", signed=True)


class Once:
    """Calls by key. One call under way at a time for each; everybody who wants the same waits for it.

    Args:
        cache: Where replies are remembered; None remembers none.

    Attributes:
        settled: Of a run that is resumed, the calls whose cost its journals tell; None for a new run. A reply that was
            cached but not yet journaled when the run died is billed on first reuse.
        claimed: Told of such a call and its price, which is None where unknown.
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
            key: All that decides the reply, from `key_of`.
            ask: Makes the call; gives its value, and what to remember of it. Raises for what is not to be remembered.
            read: The value of what is remembered, and whether it was had for nothing; raises Unreadable for what cannot
                be used.
            price: What something that is remembered had cost, in US dollars.

        Raises:
            Exception: What `ask` raises. Whoever only waited is told nothing of its cost, which would count twice.
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
            await asyncio.wait({other})  # the other's cancellation is not ours, and ours is not its
            entry = None if other.cancelled() else other.result()
        shared = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            value, entry = await ask()
        except Exception as error:
            shared.set_exception(_for_others(error))
            shared.exception()  # nobody may be waiting, and that is no oversight
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
        """What is remembered under a key; nothing is asked, and nothing counted."""
        return self._cache.get(key) if self._cache else None

    def close(self) -> None:
        """Close the cache; a later call opens it again."""
        if self._cache is not None:
            self._cache.close()

    def _is_owed(self, key: bytes, entry: Entry) -> bool:
        """Whether an entry is what this run paid for before it was killed, and no journal tells its cost yet."""
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

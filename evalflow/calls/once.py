"""Asking once: what is remembered is not asked, and what is being asked is not asked a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from evalflow.calls.cache import Cache
from evalflow.calls.entry import Entry
from evalflow.errors import CallError

T = TypeVar("T")


class Unreadable(ValueError):
    """A remembered reply does not mean anything any more, so it is asked for again; raised by readers."""


class Once:
    """Calls by key. One call under way at a time for each; everybody who wants the same waits for it.

    Args:
        cache: Where replies are remembered; None remembers none.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache
        self._under_way: dict[bytes, asyncio.Future[Entry]] = {}

    async def __call__(
        self, key: bytes, ask: Callable[[], Awaitable[tuple[T, Entry]]], read: Callable[[Entry], T]
    ) -> tuple[T, bool]:
        """The value of a call, and whether it was had without one.

        Args:
            key: All that decides the reply, from `key_of`.
            ask: Makes the call; gives its value, and what to remember of it. Raises for what is not to be remembered.
            read: The value of what is remembered; raises Unreadable for what cannot be used.

        Raises:
            Exception: What `ask` raises. Whoever only waited is told nothing of its cost, which would count twice.
        """
        entry = self._cache.get(key) if self._cache else None
        while True:
            if entry is not None:
                try:
                    return read(entry), True
                except Unreadable:
                    pass
            other = self._under_way.get(key)
            if other is None:
                return await self._lead(key, ask), False
            await asyncio.wait({other})  # the other's cancellation is not ours, and ours is not its
            entry = None if other.cancelled() else other.result()

    def close(self) -> None:
        """Close the cache; a later call opens it again."""
        if self._cache is not None:
            self._cache.close()

    async def _lead(self, key: bytes, ask: Callable[[], Awaitable[tuple[T, Entry]]]) -> T:
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
        shared.set_result(entry)
        return value


def _for_others(error: Exception) -> Exception:
    if isinstance(error, CallError):
        kind: Any = type(error)
        return kind(error.error_type, str(error), error.raw)
    return error

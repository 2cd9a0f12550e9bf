"""A coordinator and its workers in one event loop, whose time is not waited for."""

from __future__ import annotations

import asyncio
import pickle
import selectors
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from evalflow.addons.cluster.coordinator import Coordinator
from evalflow.addons.cluster.coordinator_client import CoordinatorClient
from evalflow.addons.cluster.messages import CoordinatorReply, WorkerMessage
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry

T = TypeVar("T")


class Hurried(asyncio.SelectorEventLoop):
    """Goes on at once to what is due next. What waits for ever is an error."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def skip(self, seconds: float | None) -> None:
        assert seconds is not None, "all tasks wait for each other"
        self._now += seconds


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: Hurried) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            self._loop.skip(timeout)
        return ready


def hurry(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Hurried) as runner:
        return runner.run(work)


class MemoryCache(Cache):
    """A cache that keeps its entries in memory."""

    def __init__(self, run_id: str = "run") -> None:
        super().__init__(Path("nowhere"), run_id=run_id)
        self.entries: dict[bytes, Entry] = {}

    def get(self, key: bytes) -> Entry | None:
        return self.entries.get(key)

    def put(self, key: bytes, entry: Entry) -> Entry:
        stored = Entry(body=entry.body, requests=entry.requests, usage=entry.usage, run_id=self.run_id)
        self.entries[key] = stored
        return stored


def joined(coordinator: Coordinator, worker: str, **options: Any) -> CoordinatorClient:
    """A worker whose messages are pickled on their way, and take a while."""

    async def send(name: str, message: WorkerMessage) -> CoordinatorReply:
        sent = pickle.dumps(message)
        await asyncio.sleep(0.001)
        reply = pickle.dumps(await coordinator.exchange(name, pickle.loads(sent)))
        await asyncio.sleep(0.001)
        return pickle.loads(reply)

    return CoordinatorClient(worker, send, **options)

"""Gathering what comes at about the same time into one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from evalflow.errors import CallError

GATHER_S = 0.005
"""How long the first text of a batch waits for others."""
REFUSED = frozenset({"bad_request", "context_length", "refused"})
"""Faults that one text of a batch may cause for all of them."""

T = TypeVar("T")


class Batcher(Generic[T]):
    """Sends texts in batches, and gives each sender its own result.

    Args:
        send: Makes one request of some texts; gives one result for each.
        size: Texts in a request at most.
    """

    def __init__(self, send: Callable[[Sequence[str]], Awaitable[Sequence[T]]], size: int) -> None:
        self._send = send
        self._size = size
        self._waiting: list[tuple[str, asyncio.Future[T]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def put(self, text: str) -> T:
        """The result of one text, with others that come soon after it.

        Raises:
            Exception: What sending raised.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((text, future))
        if len(self._waiting) >= self._size:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(GATHER_S, self._flush)
        return await future

    async def close(self) -> None:
        """Give up what has not been answered."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._under_way:
            task.cancel()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        # Whoever was cancelled while it waited needs no result.
        wanted = [(text, future) for text, future in batch if not future.done()]
        if wanted:
            task = asyncio.get_running_loop().create_task(self._deliver(wanted))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _deliver(self, batch: Sequence[tuple[str, asyncio.Future[T]]]) -> None:
        """Send a batch; where it is refused, halves of it, so that one text does not spoil the others'."""
        try:
            results = await self._send([text for text, _ in batch])
        except CallError as error:
            if error.error_type in REFUSED and len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(batch[:middle])
                await self._deliver(batch[middle:])
                return
            _fail(batch, error)
        except BaseException as error:
            _fail(batch, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(batch: Sequence[tuple[str, asyncio.Future[T]]], error: BaseException) -> None:
    for _, future in batch:
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        elif not future.done():
            future.set_exception(error)

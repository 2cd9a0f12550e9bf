"""A bound on how long one piece of work may take, however many calls, tries and waits it is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LateError(Exception):
    """The work was given up."""


class _Watch:
    """One piece of work under way."""

    __slots__ = ("at", "late", "task")

    def __init__(self, task: asyncio.Task[Any], at: float) -> None:
        self.task = task
        self.at = at
        self.late = False


class Deadlines:
    """Gives up work that takes too long. One timer watches all of it, so that work in time costs next to nothing.

    Args:
        seconds: What each piece of work may take, by the clock of the event loop; None: as long as it wants.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._watched: dict[_Watch, None] = {}  # in the order of their deadlines
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in the current task.

        Raises:
            LateError: It was not done in time, and has been cancelled.
        """
        if self.seconds is None:
            return await work
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        watch = _Watch(task, loop.time() + self.seconds)
        self._watched[watch] = None
        if self._timer is None:
            self._timer = loop.call_at(watch.at, self._give_up)
        others = task.cancelling()
        try:
            return await work
        except asyncio.CancelledError:
            if watch.late and task.uncancel() <= others:
                raise LateError from None
            raise
        finally:
            self._watched.pop(watch, None)

    def missed(self) -> str:
        """What is said of work that was given up."""
        return f"not done within {self.seconds:g} s (case_timeout_s), all tries and waits included"

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Cancel what is late, and come back for what would be late next."""
        self._timer = None
        loop = asyncio.get_running_loop()
        for watch in list(self._watched):
            if watch.at > loop.time():
                self._timer = loop.call_at(watch.at, self._give_up)
                return
            watch.late = True
            del self._watched[watch]
            watch.task.cancel()

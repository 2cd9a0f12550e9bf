"""Runs work that may never end in a separate thread, which an exception raised inside it stops (a feature of CPython).

This takes effect between two Python operations, so functions that the work calls must return without help; `patterns`
ensures this for regular expressions.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_AGAIN_S = 0.05
_LAST_S = 1.0
_HERE = threading.local()
"""Its `worker` is the one whose thread this is."""


class TooSlow(ValueError):
    """Work took too long and was given up."""


class _Ended(SystemExit):
    """Raised inside a thread to end it silently."""


class _Worker(Generic[T]):
    def __init__(self, work: Callable[[], T], done: Callable[[], object]) -> None:
        self._work = work
        self._done = done
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._inner: _Worker[Any] | None = None
        """What the work itself began last, and may wait for: it ends with the work."""
        outer: _Worker[Any] | None = getattr(_HERE, "worker", None)
        if outer is not None:
            outer._inner = self
        # A daemon thread does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="evalflow.apart", daemon=True)
        self._thread.start()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]

    def end(self) -> None:
        """End the thread soon: by another one, since this one may be ended itself."""
        threading.Thread(target=self._end, name="evalflow.ending", daemon=True).start()

    def _end(self) -> None:
        # Again and again, since a finalizer that is interrupted swallows the exception.
        while self._interrupt():
            time.sleep(_AGAIN_S)

    def _interrupt(self) -> bool:
        """Raise in the thread and in what it began; returns whether any of them still ran."""
        inner = self._inner is not None and self._inner._interrupt()
        if self._thread.ident is None or not self._thread.is_alive():
            return inner
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(_Ended))
        return True

    def _run(self) -> None:
        _HERE.worker = self
        try:
            self._value.append(self._work())
        except BaseException as error:
            self._error = error
        self._done()


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """Do the work and wait for it; TooSlow if it takes longer."""
    ended = threading.Event()
    worker = _Worker(work, ended.set)
    try:
        if ended.wait(seconds):
            return worker.result()
    except BaseException:
        worker.end()
        raise
    worker.end()
    ended.wait(_LAST_S)  # unless a function that it calls takes too long
    raise TooSlow(f"{what} takes more than {seconds:g} s")


async def apart(work: Callable[[], T]) -> T:
    """Do the work outside the event loop; it is stopped soon if the waiting task is cancelled."""
    import asyncio  # TLS and all, which most who import this module do not need

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def deliver() -> None:
        if not ended.done():
            ended.set_result(None)

    def done() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(deliver)

    worker = _Worker(work, done)
    try:
        await ended
    except asyncio.CancelledError:
        worker.end()
        raise
    return worker.result()

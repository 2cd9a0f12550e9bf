"""Runs work that may never end in a separate thread, which an exception raised inside it stops (a feature of CPython).

This takes effect between two Python operations, so functions that the work calls must return without help; `patterns`
ensures this for regular expressions.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_AGAIN_S = 0.05
_LAST_S = 1.0


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
        # A daemon thread does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="evalflow.apart", daemon=True)
        self._thread.start()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]

    def end(self) -> None:
        """End the thread soon. Raises repeatedly, since a finalizer that is interrupted swallows the exception."""
        if self._thread.ident is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(_Ended))
            again = threading.Timer(_AGAIN_S, self.end)
            again.daemon = True
            again.start()

    def wait(self) -> None:
        """Wait for the thread's end, unless a function that it calls takes too long."""
        self._thread.join(_LAST_S)

    def _run(self) -> None:
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
    worker.wait()
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

"""Work that may go on without end, in a thread of its own that can be ended.

The thread is ended by an exception raised inside of it, which CPython offers for this. It takes effect between two
operations of Python, so that what the work calls must come back by itself: `patterns` sees to regular expressions.
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
    """Work was given up, since it took too long."""


class _Ended(SystemExit):
    """Raised inside of a thread that is to end, which says nothing of it."""


class _Worker(Generic[T]):
    """Work under way.

    Args:
        work: What to do.
        done: Called in the thread when it has ended.
    """

    def __init__(self, work: Callable[[], T], done: Callable[[], object]) -> None:
        self._work = work
        self._done = done
        self._value: list[T] = []
        self._error: BaseException | None = None
        # A daemon keeps no process from ending.
        self._thread = threading.Thread(target=self._run, name="evalflow.apart", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """What the work gave or raised."""
        if self._error is not None:
            raise self._error
        return self._value[0]

    def end(self) -> None:
        """Have the thread end soon; again and again, since a finalizer that is interrupted swallows the exception."""
        if self._thread.ident is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(_Ended))
            again = threading.Timer(_AGAIN_S, self.end)
            again.daemon = True
            again.start()

    def wait(self) -> None:
        """See the thread end, unless what it calls takes its time."""
        self._thread.join(_LAST_S)

    def _run(self) -> None:
        try:
            self._value.append(self._work())
        except BaseException as error:
            self._error = error
        self._done()


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """Do the work, and wait for it.

    Args:
        seconds: How long it may take.
        what: What takes long, for the message.
        work: What to do.

    Raises:
        TooSlow: It was not done in time, and has been given up.
    """
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
    """Do the work away from the event loop; it ends soon where the task that waits for it is cancelled."""
    import asyncio  # TLS and all, which most who import this module do not need

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def deliver() -> None:
        if not ended.done():
            ended.set_result(None)

    def done() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(deliver)

    worker = _Worker(work, done)
    try:
        await ended
    except asyncio.CancelledError:
        worker.end()
        raise
    return worker.result()

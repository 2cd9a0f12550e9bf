"""Time limits for work on one case, and graceful interruption by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from evalflow.calls.faults import of_exception
from evalflow.errors import BudgetError, CallError, EvalflowError, InfrastructureError, WaitingError

T = TypeVar("T")
log = logging.getLogger("evalflow")
DRAIN_S = 10.0  # seconds that the first interrupt waits for work under way


@dataclass(frozen=True, slots=True)
class Failed:
    """Why work failed: the error of an answer or a score in state error."""

    error_type: str
    error: str
    remedy: str | None = None


class Owner:
    """The current task. Tells whether it was cancelled because work is to stop.

    A CancelledError alone does not show this: some libraries leak their own. Nor does the task's count of
    cancellations, which Python 3.11 leaves too high after a task group has failed.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()

    def is_cancelled(self) -> bool:
        return self._task.cancelling() > self._before


class Deadlines:
    """Cancels work that exceeds its time limit, by one timer for all; the work ends when `owner` is cancelled."""

    def __init__(self, seconds: float | None, owner: Owner | None = None) -> None:
        self.seconds = seconds
        self._due: dict[asyncio.Task[object], float] = {}  # in the order of their deadlines
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._logged: set[str] = set()
        self._owner = owner
        self._ended = False

    async def attempt(self, work: Coroutine[object, object, T], *ending: type[EvalflowError]) -> T | Failed:
        """Do the work in the current task. An error in it becomes a `Failed`, unless no further call can be made."""
        owner = self._owner or Owner()
        task = asyncio.current_task()
        assert task is not None
        if self.seconds is not None:
            loop = asyncio.get_running_loop()
            at = self._due[task] = loop.time() + self.seconds
            if self._timer is None:
                self._timer = loop.call_at(at, self._give_up)
        try:
            done = await work
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            late = task in self._late
            if late:
                task.uncancel()
            # Cancelled work may still return something; it is not a result.
            if self._ended or owner.is_cancelled():
                raise asyncio.CancelledError from None
            return Failed("timeout", self.missed()) if late else self._failed(error, ending)
        else:
            if task in self._late:  # the work ignored its cancellation and finished
                task.uncancel()
            return done
        finally:
            self._due.pop(task, None)
            self._late.discard(task)

    def _failed(self, error: BaseException, ending: tuple[type[EvalflowError], ...]) -> Failed:
        fatal = _first(error, (InfrastructureError, BudgetError, WaitingError, *ending))
        if fatal:
            self._ended = True
            raise fatal from None
        if isinstance(error, EvalflowError):
            if isinstance(error, CallError):
                return Failed(error.error_type, str(error), error.remedy)
            return Failed("exception", str(error))
        what = of_exception(error)
        if what not in self._logged:
            self._logged.add(what)
            log.error("%s", what, exc_info=error)
        return Failed("exception", what)

    def missed(self) -> str:
        return f"not done within {self.seconds:g} s (case_timeout_s), all tries and waits included"

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for task, at in list(self._due.items()):
            if at > loop.time():
                self._timer = loop.call_at(at, self._give_up)
                return
            self._late.add(task)
            del self._due[task]
            task.cancel()


def _first(error: BaseException, kinds: tuple[type[EvalflowError], ...]) -> BaseException | None:
    """The first error of these kinds, also inside exception groups."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, kinds) else None
    group = cast("BaseExceptionGroup[BaseException]", error)
    return next((inner for one in group.exceptions if (inner := _first(one, kinds))), None)


class Interrupter:
    """Interrupts work in another thread, like SIGINT in the main one, also if the work has not begun yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early = 0
        self._interrupt: Callable[[], object] | None = None

    def __call__(self) -> None:
        with self._lock:
            if self._interrupt is None:
                self._early += 1
            else:
                self._interrupt()

    @contextlib.contextmanager
    def reaching(self, interrupt: Callable[[], None]) -> Generator[None]:
        """Call `interrupt` in the running event loop for each interrupt while the block lasts."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._interrupt = partial(loop.call_soon_threadsafe, interrupt)
            for _ in range(self._early):
                self._interrupt()
        try:
            yield
        finally:
            with self._lock:
                self._interrupt, self._early = None, 0


async def interruptible(
    work: Coroutine[object, object, None], stop: Callable[[], None], interrupter: Interrupter | None = None
) -> bool:
    """Do the work, and return whether it was interrupted.

    On SIGINT, SIGTERM or the interrupter's call `stop` and wait; on a second one, or after `DRAIN_S`, cancel it.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            task.cancel()
            return
        stop()
        loop.call_later(DRAIN_S, task.cancel)

    signals = (signal.SIGINT, signal.SIGTERM)
    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; or not the main thread
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    try:
        with interrupter.reaching(interrupt) if interrupter else contextlib.nullcontext():
            await task
    except asyncio.CancelledError:
        if not interrupts:
            raise
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError):
            for number in signals:
                loop.remove_signal_handler(number)
    return interrupts > 0

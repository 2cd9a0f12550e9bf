"""Process untrusted data in limited processes: SQL, workbooks, Parquet, JSON Schema, JSONPath, HTML, templates.

    QUERY = Work("evalflow.limited.sql:run", memory=2 * 1024**3)
    result = QUERY.call({"dialect": "sqlite", ...}, seconds=10, what="the query")

The other modules of this package run in such a process, and import nothing else of evalflow. The process has an empty
environment, starts in the root folder, and can neither write files nor, unless allowed, open any. It gets one JSON text
and gives one back. A few processes wait for the next call of the same work, which takes less than a millisecond. One
that reached a limit, crashed or grew is replaced.

The limits of memory, CPU time, files and threads are those of POSIX. Windows has none of them and macOS none of memory;
there the other limits hold: the clock, the size of the reply and the empty environment.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from evalflow.limited import process
from evalflow.limited.process import LENGTH, decoded, encoded

T = TypeVar("T")
_PLACES = max(4, os.cpu_count() or 1)  # maximum number of busy processes, and of idle ones
_START_S = 120.0  # for the start of a process and its imports, on a busy machine


class LimitExceeded(ValueError):
    """Work reached a limit and was ended. The message says which.

    Attributes:
        error_type: The error type recorded for the score or answer.
    """

    def __init__(self, message: str, limit: Literal["time", "memory", "output", "depth", "crash"] = "time") -> None:
        super().__init__(message)
        self.limit = limit
        self.error_type = "timeout" if limit == "time" else "data"


class _Abandoned(BaseException):
    """Raised in a thread whose result nobody waits for any more."""


@dataclass(frozen=True, slots=True)
class Work:
    """A function that is called in limited processes, and what it may use.

    Attributes:
        function: Its module and name, `module:name`. It takes and returns JSON values; a generator is for `stream`. Its
            ValueErrors reach the caller, any other error is a bug.
        imports: Modules that it imports itself, loaded before it is limited.
        memory: Address space in bytes.
        output: The size of a reply in bytes, or of about 64 KB of a stream's items.
        files: Files that may be open at once, to be read.
        threads: Whether it may start threads (and so processes).
        waits: Whether it waits for others more than it computes. It then takes no place of those that compute; the
            caller limits how many there are.
        niceness: How far it gives way to other processes, as for `nice`.
    """

    function: str
    imports: tuple[str, ...] = ()
    memory: int = 1024**3
    output: int = 8 * 1024**2
    files: int = 0
    threads: bool = False
    waits: bool = False
    niceness: int = 0

    def call(self, payload: Mapping[str, Any], seconds: float, what: str, computing: float | None = None) -> Any:
        """Call the function with these keyword arguments and return its result.

        Args:
            computing: CPU time in seconds, if it may take less of it than of time.

        Raises:
            LimitExceeded: It took more than `seconds`, or reached another limit; `what` begins the message.
            ValueError: The function raised it.
        """
        processes = _processes(os.getpid())
        with nullcontext() if self.waits else processes.places:
            child = processes.taken(self) or _Child(self)
            try:
                (value,) = child.answers(payload, seconds, what, computing)
                return value
            finally:
                processes.kept(child)

    def stream(self, payload: Mapping[str, Any], seconds: float, what: str) -> Generator[Any]:
        """The items of a generator, in a process of their own, which ends with them; errors as in `call`.

        `seconds` are its CPU time, and how long it may take from one item to the next.
        """
        child = _Child(self)
        try:
            yield from child.answers(payload, seconds, what)
        finally:
            child.end()


class _Child:
    """A process for one kind of work. `is_usable` while it can take another call."""

    def __init__(self, work: Work) -> None:
        import subprocess  # which most who import this module do not need

        self.work = work
        self.is_usable = False
        self._is_late = False
        # It inherits nothing but what Windows needs to start any program.
        environment = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - no shell
            [sys.executable, "-I", process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=Path(os.sep).absolute(),
            start_new_session=True,
        )
        try:
            started = self._exchange({**asdict(work), "path": [*filter(os.path.isabs, sys.path)]}, _START_S)
            if started is None or "bug" in started:
                why = started["bug"] if started else self._how_it_ended("it", _START_S)
                raise RuntimeError(f"the limited process of {work.function} does not start: {why}")
        except BaseException:
            self.end()
            raise
        self.is_usable = True

    def answers(
        self, payload: Mapping[str, Any], seconds: float, what: str, computing: float | None = None
    ) -> Generator[Any]:
        """The items of the reply; errors as in `Work.call`."""
        task = _TASK.get()
        self.is_usable = False  # until all of the reply is read
        if task:
            task.waits_for(self)
        allowed = seconds if computing is None else computing
        request: dict[str, Any] | None = {"payload": payload, "seconds": allowed}
        try:
            while True:
                frame = self._exchange(request, seconds)
                request = None
                if frame is None:
                    raise self._how_it_ended(what, seconds if self._is_late else allowed)
                if "items" not in frame:
                    break
                yield from frame["items"]
        finally:
            if task:
                task.waits_for(None)
        self.is_usable = "last" not in frame
        if "fault" in frame:
            raise ValueError(frame["fault"])
        if "bug" in frame:
            raise RuntimeError(f"{self.work.function}: {frame['bug']}")
        if "limit" in frame:
            raise self._exceeded(frame["limit"], what, seconds)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self.is_usable = False
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not written, since it was killed
                assert stream is not None
                stream.close()
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()

    def _exchange(self, request: Any, seconds: float) -> Any:
        """Send a request, if it is not None, and read a frame, within a time limit; None if the process ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        message = b"" if request is None else encoded(request)
        clock = _clock(os.getpid())
        clock.begin(self, seconds)
        try:
            with suppress(BrokenPipeError):
                stdin.write(message)
                stdin.flush()
            header = stdout.read(LENGTH.size)
            if len(header) < LENGTH.size:
                return None
            (size,) = LENGTH.unpack(header)
            if size > self.work.output:
                return {"limit": "output", "last": True}
            text = stdout.read(size)
            return decoded(text) if len(text) == size else None
        finally:
            clock.end(self)

    def be_late(self) -> None:
        self._is_late = True
        self.kill()

    def _how_it_ended(self, what: str, seconds: float) -> LimitExceeded:
        code = self._process.wait()
        if self._is_late or (sys.platform != "win32" and code == -signal.SIGXCPU):
            return self._exceeded("time", what, seconds)
        # Libraries abort if they get no memory; whom the system kills takes too much of it.
        if code in (-signal.SIGABRT, -9):
            return self._exceeded("memory", what, seconds)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return LimitExceeded(f"{what} ends its process {how}", "crash")

    def _exceeded(self, limit: Any, what: str, seconds: float) -> LimitExceeded:
        says = {
            "time": f"takes more than {seconds:g} s",
            "memory": f"needs more than {self.work.memory >> 20:,} MB of memory",
            "output": f"gives more than {self.work.output:,} bytes",
            "depth": "is nested too deeply",
        }
        return LimitExceeded(f"{what} {says[limit]}", limit)


class _Pool:
    """The idle processes, which can take another call."""

    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(_PLACES)
        self._lock = threading.Lock()
        self._waiting: list[_Child] = []

    def taken(self, work: Work) -> _Child | None:
        with self._lock:
            for place in reversed(range(len(self._waiting))):
                if self._waiting[place].work == work:
                    child = self._waiting.pop(place)
                    if child.is_alive:
                        return child
                    child.end()  # somebody killed it while it waited, such as a system without memory
        return None

    def kept(self, child: _Child) -> None:
        left = [] if child.is_usable else [child]
        with self._lock:
            if child.is_usable:
                self._waiting.append(child)
            if len(self._waiting) > _PLACES:
                left.append(self._waiting.pop(0))
        for one in left:
            one.end()

    def close(self) -> None:
        while self._waiting:
            self._waiting.pop().end()


@cache
def _processes(pid: int) -> _Pool:  # noqa: ARG001 - a forked process has its own
    made = _Pool()
    atexit.register(made.close)
    return made


class _Clock:
    """A thread that kills processes after their time limit; one thread per call would take longer than the call."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deadlines: dict[_Child, float] = {}
        self._wakes = math.inf
        threading.Thread(target=self._run, name="evalflow.limited", daemon=True).start()

    def begin(self, child: _Child, seconds: float) -> None:
        with self._changed:
            self._deadlines[child] = ends = time.monotonic() + seconds
            if ends < self._wakes:
                self._changed.notify()

    def end(self, child: _Child) -> None:
        with self._changed:
            self._deadlines.pop(child, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for child in [one for one, ends in self._deadlines.items() if ends <= now]:
                    del self._deadlines[child]
                    child.be_late()
                self._wakes = min(self._deadlines.values(), default=math.inf)
                self._changed.wait(None if self._wakes == math.inf else self._wakes - now)


@cache
def _clock(pid: int) -> _Clock:  # noqa: ARG001 - a forked process has its own
    return _Clock()


class _Task:
    """The child process that a thread of `in_thread` waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._is_over = False

    def waits_for(self, child: _Child | None) -> None:
        with self._lock:
            if self._is_over:
                raise _Abandoned
            self._child = child

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            if self._child:
                self._child.kill()


_TASK: ContextVar[_Task | None] = ContextVar("evalflow.limited", default=None)


async def in_thread(work: Callable[[], T]) -> T:
    """Do work outside the event loop. If the waiting task is cancelled, the limited process that it waits for ends."""
    import asyncio  # TLS and all, which most who import this module do not need

    task = _Task()
    token = _TASK.set(task)
    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        task.end()
        raise
    finally:
        _TASK.reset(token)


def deadline(seconds: float, what: str) -> Callable[[], None]:
    """Return a function to call in long loops, which raises LimitExceeded after the time limit."""
    ends = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > ends:
            raise LimitExceeded(f"{what} takes more than {seconds:g} s")

    return check

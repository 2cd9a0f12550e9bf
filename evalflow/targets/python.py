"""The connector to a target that is a Python callable."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import inspect
import threading
from collections.abc import Callable
from types import ModuleType

from pydantic_core import from_json

from evalflow.calls.client import CallSession
from evalflow.calls.faults import of_exception
from evalflow.config.targets import PythonTargetConfig
from evalflow.errors import CallError, InfrastructureError, Problem, TargetError, UserError
from evalflow.targets.code import digests
from evalflow.targets.service import UNPRICED, Connector, LimitedCalls, RawReply, digest, version_of
from evalflow.values.pythonvalues import json_text, plain

HINT = "name a callable that Python finds from the working directory: target.call=package.module:callable"


class Threads:
    """Runs functions in threads, at most `maximum` at once. A timed-out thread keeps its slot until it really ends."""

    def __init__(self, call: str, maximum: int, patience_s: float) -> None:
        self._call = call
        self._maximum = maximum
        self._patience_s = patience_s
        self._running = 0
        self._end: asyncio.Future[None] | None = None

    async def room(self) -> None:
        """Wait for a free thread; InfrastructureError if none ends within the time limit."""
        while self._running >= self._maximum:
            self._end = self._end or asyncio.get_running_loop().create_future()
            if not (await asyncio.wait({self._end}, timeout=self._patience_s))[0]:
                what = (
                    f"{self._maximum} calls of {self._call} are still running after {self._patience_s:g} s "
                    "(target.timeout_s), and no more may run at once (target.concurrency.max)"
                )
                raise InfrastructureError(what, "let the function itself give up in time, then resume the run")

    async def run(self, function: Callable[[object], object], argument: object) -> object:
        """Run a function and return or raise its result. Its thread is a daemon, so it cannot block the exit."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(value: object, error: BaseException | None) -> None:
            self._running -= 1
            if self._end is not None:
                self._end.set_result(None)
                self._end = None
            if not ended.done():
                ended.set_result((value, error))

        def work() -> None:
            try:
                outcome: tuple[object, BaseException | None] = context.run(function, argument), None
            except BaseException as error:
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the event loop is already closed
                loop.call_soon_threadsafe(deliver, *outcome)

        threading.Thread(target=work, name="evalflow.target", daemon=True).start()
        self._running += 1
        value, error = await ended
        if error is not None:
            raise TargetError("exception", of_exception(error), spend=UNPRICED) from error
        return value


class PythonConnector(Connector):
    """Calls a coroutine function in the event loop, and any other callable in its own thread."""

    def __init__(self, config: PythonTargetConfig, session: CallSession) -> None:
        module, self._callable = imported(config.call)
        self._calls = LimitedCalls(("python", config.call), config, session)
        self._threads = Threads(config.call, config.concurrency.max, config.timeout_s)
        self.identity = digest(["python", config.call, *seen(module, self._callable), *version_of(config.version)])
        self.is_reusable = config.version is not None

    async def ask(self, data: bytes) -> RawReply:
        threaded = not inspect.iscoroutinefunction(self._callable)
        return await self._calls.run(data, self._call, self._threads.room if threaded else None)

    async def _call(self, data: bytes) -> bytes:
        reply = await called(self._callable, from_json(data), self._threads)
        try:
            return json_text(plain(reply)).encode()
        except ValueError as error:
            what = f"the callable returned what is not JSON: {error}"
            raise TargetError("malformed", what, spend=UNPRICED) from None


async def called(function: Callable[[object], object], argument: object, threads: Threads) -> object:
    """What a callable returns; a plain function runs in a thread. TargetError if it fails."""
    task = asyncio.current_task()
    cancelled = task.cancelling() if task else 0
    try:
        if inspect.iscoroutinefunction(function):
            return await function(argument)
        reply = await threads.run(function, argument)
        return await reply if inspect.isawaitable(reply) else reply
    except CallError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if task and task.cancelling() > cancelled:  # a real cancellation, not one raised by the callable
            raise
        raise TargetError("exception", of_exception(error), spend=UNPRICED) from error


def imported(call: str, where: str = "target.call", hint: str = HINT) -> tuple[ModuleType, Callable[..., object]]:
    """The module and the callable that `package.module:callable` names; UserError if they do not exist."""
    name, _, attribute = call.partition(":")
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        what = f"the module {name!r} cannot be imported: {of_exception(error)}"
        raise UserError(Problem(what, where, hint)) from error
    member: object = module
    for part in attribute.split("."):
        member = getattr(member, part, None)
    if not callable(member):
        what = f"the module {name!r} has no callable {attribute!r}"
        raise UserError(Problem(what, where, hint))
    return module, member


def seen(module: ModuleType, call: Callable[..., object]) -> list[str]:
    """What can be seen of a callable's code, for a digest: its files, or in a notebook its own source."""
    if by_file := digests(module):
        return by_file
    try:
        return [inspect.getsource(call if inspect.isroutine(call) or inspect.isclass(call) else type(call))]
    except (OSError, TypeError):
        return []

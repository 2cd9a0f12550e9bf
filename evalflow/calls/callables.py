"""Python callables as targets, tools and metrics: found by name, called in threads or in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from evalflow.calls import given
from evalflow.calls.code import digests
from evalflow.calls.faults import of_exception
from evalflow.errors import CallError, InfrastructureError, Meant, Problem, UserError, nearest

HINT = "name a callable that Python can import from the working directory: target.call=package.module:callable"


class Threads:
    """Runs functions in threads, at most `maximum` at once. A timed-out thread keeps its slot until it really ends.

    `keys` name the time limit and the maximum in the error raised if no thread becomes free.
    """

    def __init__(
        self,
        call: str,
        maximum: int,
        patience_s: float,
        keys: tuple[str, str] = ("target.timeout_s", "target.concurrency.max"),
    ) -> None:
        self._call = call
        self._keys = keys
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
                    f"({self._keys[0]}), and no more may run at once ({self._keys[1]})"
                )
                raise InfrastructureError(what, "let the function itself give up in time, then resume the run")

    async def run(self, function: Callable[..., object], *arguments: object) -> object:
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
                outcome: tuple[object, BaseException | None] = context.run(function, *arguments), None
            except BaseException as error:
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the event loop is already closed
                loop.call_soon_threadsafe(deliver, *outcome)

        threading.Thread(target=work, name="evalflow.callable", daemon=True).start()
        self._running += 1
        value, error = await ended
        if error is not None:
            raise CallError("exception", of_exception(error)) from error
        return value


async def called(function: Callable[..., object], threads: Threads, *arguments: object) -> object:
    """Call a callable and return its result; plain functions run in a thread. CallError if it fails."""
    task = asyncio.current_task()
    cancelled = task.cancelling() if task else 0
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        reply = await threads.run(function, *arguments)
        return await reply if inspect.isawaitable(reply) else reply
    except CallError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if task and task.cancelling() > cancelled:  # a real cancellation, not one raised by the callable
            raise
        raise CallError("exception", of_exception(error)) from error


def imported(call: str, where: str = "target.call", hint: str = HINT) -> tuple[ModuleType, Callable[..., object]]:
    """Import the module and the callable named by `package.module:callable`; UserError if they do not exist."""
    name, _, attribute = call.partition(":")
    if name == given.__name__:
        return given.registered(attribute, where)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        what = f"the module {name!r} cannot be imported: {of_exception(error)}"
        problem = Problem(what, where, hint)
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            problem = _with_name(problem, call, nearest(name, [file.stem for file in Path().glob("*.py")]), attribute)
        raise UserError(problem) from error
    member: object = module
    for part in attribute.split("."):
        member = getattr(member, part, None)
    if not callable(member):
        what = f"the module {name!r} has no callable {attribute!r}"
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(_with_name(Problem(what, where, hint), call, name, nearest(attribute, own)))
    return module, member


def _with_name(problem: Problem, call: str, module: str, attribute: str) -> Problem:
    """The problem with the callable that was probably meant, if both of its names are known."""
    if not (module and attribute):
        return problem
    right = f"{module}:{attribute}"
    meant = Meant((f"{problem.where}={call}",), (f"{problem.where}={right}",))
    return replace(problem, hint=f"did you mean {right}?", meant=meant)


def seen(module: ModuleType, call: Callable[..., object]) -> list[str]:
    """Return a callable's code for a digest: its files, or its own source in a notebook."""
    return digests(module) or own_source(call)


def own_source(call: Callable[..., object]) -> list[str]:
    """Return the source of just the function or class; empty if Python does not know it."""
    try:
        return [inspect.getsource(given.code_of(call))]
    except (OSError, TypeError):
        return []

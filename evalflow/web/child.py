"""The worker beside the server: a process of its own, started again when it dies, ended with the server.

It is given a standard input that nothing is ever written to. However the server ends, the input ends with it, and an
attached worker then goes, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

GRACE_S = 15.0
"""How long a worker that was told to end may take; what it has not finished is resumed by the next one."""
AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses before a worker that died, or could not be started, is started again; the last holds from then on. After one
that lived longer than the last they begin anew."""


class Child:
    """A `python -m evalflow` that runs as long as the context is entered.

    Args:
        words: The verb and its arguments; the verb ends when its standard input does.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._fault = "it has ended"

    @property
    def fault(self) -> str:
        """Why it does not run just now; empty where it does."""
        return "" if self._process is not None and self._process.returncode is None else self._fault

    async def __aenter__(self) -> Self:
        """Start it."""
        await self._start()
        self._watch = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell it to end, and wait; after `GRACE_S` end it."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start(self) -> None:
        """Try to start it; where that fails, `fault` says why."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "evalflow", *self._words, stdin=asyncio.subprocess.PIPE
            )
        except Exception as error:  # whatever it is, the server goes on, and tries again
            self._process, self._fault = None, f"it cannot be started: {error}"

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            since = time.monotonic()
            if self._process is not None:
                self._fault = f"it ended with code {await self._process.wait()}"
            if time.monotonic() - since > AGAIN_S[-1]:
                failures = 0
            pause = AGAIN_S[min(failures, len(AGAIN_S) - 1)]
            failures += 1
            sys.stderr.write(f"the worker does not run, {self._fault}; it is started again in {pause:g} s\n")
            await asyncio.sleep(pause)
            await self._start()

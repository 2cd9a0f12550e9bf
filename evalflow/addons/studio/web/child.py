"""A process that runs beside the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

GRACE_S = 15.0
"""Seconds for a worker to end; the next worker resumes unfinished runs."""
AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before each restart of a dead worker; the last one repeats. A worker that lived longer than the last pause
resets the sequence."""


class Child:
    """A process `python -m evalflow`, restarted if it dies, until the context exits.

    The command must exit when its standard input closes.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._words = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._fault = "it has ended"

    @property
    def fault(self) -> str:
        """Why the process does not run; empty if it runs."""
        return "" if self._process is not None and self._process.returncode is None else self._fault

    async def __aenter__(self) -> Self:
        """Start it."""
        await self._start()
        self._watch = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Terminate it; kill it after `GRACE_S`."""
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
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "evalflow", *self._words, stdin=asyncio.subprocess.PIPE
            )
        except Exception as error:  # the server keeps running, and tries again
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
            logging.getLogger("evalflow").warning(
                "the worker does not run, %s; it is started again in %g s", self._fault, pause
            )
            await asyncio.sleep(pause)
            await self._start()

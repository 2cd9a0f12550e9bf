"""The worker beside the server: a process of its own, started again when it dies, ended with the server.

It is given a standard input that nothing is ever written to. However the server ends, the input ends with it, and an
attached worker then goes, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

GRACE_S = 15.0
"""How long a worker that was told to end may take; what it has not finished is resumed by the next one."""
AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses before a worker that died is started again; the last holds from then on."""


class Child:
    """A `python -m evalflow` that runs as long as the context is entered.

    Args:
        words: The verb and its arguments; the verb ends when its standard input does.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs just now."""
        return self._process is not None and self._process.returncode is None

    async def __aenter__(self) -> Self:
        """Start it."""
        await self._start()
        self._watch = asyncio.create_task(self._start_again())
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
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "evalflow", *self._words, stdin=asyncio.subprocess.PIPE
        )

    async def _start_again(self) -> None:
        deaths = 0
        while self._process is not None:
            code = await self._process.wait()
            pause = AGAIN_S[min(deaths, len(AGAIN_S) - 1)]
            sys.stderr.write(f"the worker ended with code {code}; it starts again in {pause:g} s\n")
            await asyncio.sleep(pause)
            deaths += 1
            await self._start()

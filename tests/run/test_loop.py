"""The loop of a run does what asyncio's does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from evalflow.run.interrupt import interruptible
from evalflow.run.loop import run_in_loop


def test_what_the_work_returns_and_raises_comes_out() -> None:
    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> None:
        raise ValueError("no")

    assert run_in_loop(good()) == 7
    with pytest.raises(ValueError, match="no"):
        run_in_loop(bad())


@pytest.mark.skipif(sys.platform == "win32", reason="has asyncio's own loop")
def test_it_is_uvloop() -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_in_loop(name()).startswith("uvloop")


@pytest.mark.skipif(sys.platform == "win32", reason="has no signal handlers in its loop")
def test_an_interrupt_reaches_the_work() -> None:
    stopped = asyncio.Event()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stopped.wait()

    assert run_in_loop(interruptible(work(), stopped.set))

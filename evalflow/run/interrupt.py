"""Ctrl-C in two steps: first finish what is under way, then stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine

DRAIN_S = 10.0
"""How long the first interrupt waits for what is under way."""


async def interruptible(work: Coroutine[object, object, None], stop: Callable[[], None]) -> bool:
    """Do the work; on SIGINT or SIGTERM call `stop` and wait, on a second one or after `DRAIN_S` cancel it.

    Returns:
        Whether it was interrupted. What the work itself raises is raised.
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
        await task
    except asyncio.CancelledError:
        if not interrupts:
            raise
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError):
            for number in signals:
                loop.remove_signal_handler(number)
    return interrupts > 0

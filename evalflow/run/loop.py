"""The event loop that a run's work is done in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Do the work in uvloop, which halves what sockets, timers and tasks cost; on Windows in asyncio's own loop.

    Returns:
        What the work returns; what it raises is raised.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = None
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)

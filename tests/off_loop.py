"""Fails what asks the database, or composes or checks configuration, in a thread that runs an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any

from evalflow.addons.studio.store import Database
from evalflow.addons.studio.work import bots, definitions, sessions
from evalflow.config import load


def keep_off_loops(patch: Callable[[Any, str, Any], None]) -> None:
    """Guard what takes Hydra, templates, many files or the database; `patch` is `setattr`, or that of a MonkeyPatch."""
    for module, name in (
        (Database, "reading"),
        (Database, "writing"),
        (load, "hydra_compose"),
        (definitions, "options"),
        (bots, "check_bot"),
    ):
        patch(module, name, _guarded(getattr(module, name)))
    patch(sessions, "FRESH_S", 0.0)  # so that whoever asks who acts asks the database, and not only after a second


def _guarded(work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work(*args, **kwargs)
        raise AssertionError(f"{work.__name__} keeps an event loop waiting")

    return guarded

"""Fails what composes or checks configuration in a thread whose event loop should go on answering others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any

from evalflow.addons.studio.work import bots, definitions
from evalflow.config import load


def keep_off_loops(patch: Callable[[Any, str, Any], None]) -> None:
    """Guard what takes Hydra, templates or many files; `patch` is `setattr`, or that of a MonkeyPatch."""
    for module, name in (
        (load, "hydra_compose"),
        (definitions, "options"),
        (bots, "check_bot"),
    ):
        patch(module, name, _guarded(getattr(module, name)))


def _guarded(work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work(*args, **kwargs)
        raise AssertionError(f"{work.__name__} keeps an event loop waiting")

    return guarded

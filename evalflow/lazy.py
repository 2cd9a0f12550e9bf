"""NumPy and Polars, imported on first use: a command that needs neither starts without them.

Polars aborts the process if it gets no memory, so a limit that is too low for it is an error before it is imported.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evalflow.errors import InfrastructureError

__all__ = ["expect_memory", "load", "np", "pl"]
LEAST_MB = 1_280
"""Address space with which a run of five cases ends on two cores; with 1,170 MB it aborts."""


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        expect_memory()
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)  # so this is called once
        return getattr(module, name)


def expect_memory() -> None:
    """Raise InfrastructureError if the process is limited to less address space (`ulimit -v`) than tables need."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_MB << 20:
        what = f"this process may use {limit >> 20:,} MB of address space, and tables need {LEAST_MB:,} MB at least"
        raise InfrastructureError(what, "raise the limit: ulimit -v unlimited")


def load() -> None:
    """Import NumPy and Polars now; called in a thread while the first calls are in progress."""
    importlib.import_module("numpy")
    importlib.import_module("polars")


if TYPE_CHECKING:
    import numpy as np
    import polars as pl
else:
    np, pl = _LazyModule("numpy"), _LazyModule("polars")

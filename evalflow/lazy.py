"""NumPy and Polars, imported on first use: a command that needs neither starts without them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["load", "np", "pl"]


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)  # so this is called once
        return getattr(module, name)


def load() -> None:
    """Import NumPy and Polars now; called in a thread while the first calls are in progress."""
    importlib.import_module("numpy")
    importlib.import_module("polars")


if TYPE_CHECKING:
    import numpy as np
    import polars as pl
else:
    np, pl = _LazyModule("numpy"), _LazyModule("polars")

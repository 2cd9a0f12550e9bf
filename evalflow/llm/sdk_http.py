"""The HTTP library of the openai SDK, as `httpx` and `httpcore`: httpx2 and httpcore2 since its version 3."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["httpcore", "httpx"]

if TYPE_CHECKING:
    import httpcore2 as httpcore
    import httpx2 as httpx
else:

    def __getattr__(name):
        """Import it at first use; AttributeError for any other name."""
        if name not in __all__:
            raise AttributeError(name)
        from openai import __version__

        return import_module(name if int(__version__.partition(".")[0]) < 3 else f"{name}2")

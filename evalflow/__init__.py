"""evalflow: evaluate LLM applications from YAML, with numbers that can be defended."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evalflow.version import __version__ as __version__

if TYPE_CHECKING:
    from evalflow.api.functions import arun, calibrate, compare, load, run
    from evalflow.api.results import Report, RunCalibration, RunComparison, RunResult
    from evalflow.errors import (
        BudgetError,
        EvalflowError,
        IncompleteError,
        InfrastructureError,
        UserError,
        WaitingError,
    )
__all__ = [
    "BudgetError",
    "EvalflowError",
    "IncompleteError",
    "InfrastructureError",
    "Report",
    "RunCalibration",
    "RunComparison",
    "RunResult",
    "UserError",
    "WaitingError",
    "arun",
    "calibrate",
    "compare",
    "load",
    "run",
]


def __getattr__(name: str) -> Any:
    """A public name, imported on first use, since the command line needs none of them."""
    if name in __all__:
        module = "errors" if name.endswith("Error") else "api.functions" if name.islower() else "api.results"
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

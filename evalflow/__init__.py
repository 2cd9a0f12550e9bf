"""evalflow: evaluate LLM applications from YAML, with numbers that can be defended."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from evalflow.version import __version__ as __version__

if TYPE_CHECKING:
    from evalflow.api.functions import arun, calibrate, compare, load, run
    from evalflow.api.metric import metric
    from evalflow.api.results import GateOutcome, Report, RunCalibration, RunComparison, RunResult
    from evalflow.api.tables import CaseRow
    from evalflow.errors import (
        BudgetError,
        EvalflowError,
        IncompleteError,
        InfrastructureError,
        UserError,
        WaitingError,
    )
    from evalflow.records import Answer, Case, CaseInput, Context, Message, Outcome

_PLACES = {
    "api.functions": ("arun", "calibrate", "compare", "load", "run"),
    "api.metric": ("metric",),
    "api.results": ("GateOutcome", "Report", "RunCalibration", "RunComparison", "RunResult"),
    "api.tables": ("CaseRow",),
    "errors": ("BudgetError", "EvalflowError", "IncompleteError", "InfrastructureError", "UserError", "WaitingError"),
    "records": ("Answer", "Case", "CaseInput", "Context", "Message", "Outcome"),
}
__all__ = [
    "Answer",
    "BudgetError",
    "Case",
    "CaseInput",
    "CaseRow",
    "Context",
    "EvalflowError",
    "GateOutcome",
    "IncompleteError",
    "InfrastructureError",
    "Message",
    "Outcome",
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
    "metric",
    "run",
]

if not TYPE_CHECKING:  # which would take any name for a public one

    def __getattr__(name):
        """A public name, imported on first use, since the command line needs none of them."""
        for module, names in _PLACES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

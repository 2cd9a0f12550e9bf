"""The checks that a case may name, with what each wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalflow.metrics.checks.params import JUDGED, PARAMS


@dataclass(frozen=True, slots=True)
class Check:
    """A built-in check.

    Attributes:
        identifier: What a case names it by.
        description: What it holds of the answer.
        is_judged: Whether a judge decides it.
        params: The JSON Schema of its parameters.
    """

    identifier: str
    description: str
    is_judged: bool
    params: Mapping[str, Any]


def list_checks() -> list[Check]:
    """The built-in checks, by identifier."""
    return [
        Check(name, (model.__doc__ or "").strip(), name in JUDGED, model.model_json_schema())
        for name, model in sorted(PARAMS.items())
    ]

"""Parts of untyped files as what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def as_map(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The list, or an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_number(value: Any) -> float | None:
    """The number; None for anything else, including true and false."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

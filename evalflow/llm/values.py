"""Which fields of a reply are a choice among few values, and so can carry a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

K = TypeVar("K")
WIDEST = 101
"""Most values of a whole number that still counts as a choice: a percentage."""


def choices(reply_model: type[BaseModel]) -> dict[str, tuple[Any, ...]]:
    """The values that each label, boolean and bounded whole number may take, by field; other fields are left out."""
    found = {name: _values(info) for name, info in reply_model.model_fields.items()}
    return {name: values for name, values in found.items() if values}


def normalised(weights: Mapping[K, float]) -> dict[K, float]:
    """Weights as probabilities that sum to 1; empty where there is no weight."""
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()} if total > 0 else {}


def _values(info: FieldInfo) -> tuple[Any, ...]:
    if get_origin(info.annotation) is Literal:
        return get_args(info.annotation)
    if info.annotation is bool:
        return (True, False)
    if info.annotation is not int:
        return ()
    low = next((bound.ge for bound in info.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in info.metadata if isinstance(bound, Le)), None)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or high - low >= WIDEST:
        return ()
    return tuple(range(int(low), int(high) + 1))

"""Fills a declared reply from one number: how far something is supported, 0..1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from evalflow.records import Distribution

NEUTRAL_LABEL = "not_in_context"
CONTRADICTION = "contradict"
"""A label that starts so claims more than overlap can see; it is never given."""


class UnsupportedStepError(Exception):
    """A step's variables or its reply have a shape that evidence cannot answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing: how far it is supported (0..1), and why in words."""

    support: float
    reason: str


def fill(model: type[BaseModel], finding: Finding) -> tuple[dict[str, Any], Distribution]:
    """The fields of a reply, and how likely each value of its verdict is.

    A reply has one verdict (a label, a boolean, a bounded number), and text fields, which take the reason.

    Raises:
        UnsupportedStepError: The model has another shape.
    """
    reply: dict[str, Any] = {}
    verdicts: dict[str, Mapping[Any, float]] = {}
    for name, field in model.model_fields.items():
        if field.annotation is str:
            reply[name] = finding.reason
        else:
            verdicts[name] = chances = _chances(name, field, finding.support)
            reply[name] = max(chances, key=lambda value: chances[value])
    if len(verdicts) != 1:
        raise UnsupportedStepError(
            f"a reply needs exactly one verdict, this one has {len(verdicts)}: {sorted(verdicts)}"
        )
    return reply, verdicts


def list_of_text(model: type[BaseModel]) -> str:
    """The name of the model's only field, a list of strings.

    Raises:
        UnsupportedStepError: The model has another shape.
    """
    fields = [(name, item_type(field)) for name, field in model.model_fields.items()]
    if len(fields) != 1 or fields[0][1] is not str:
        raise UnsupportedStepError(f"a reply to extract_claims is one list of str, not {sorted(model.model_fields)}")
    return fields[0][0]


def item_type(field: FieldInfo) -> Any:
    """What a list field holds, or None where it is no list."""
    if get_origin(field.annotation) is not list:
        return None
    held = get_args(field.annotation)[0]
    return getattr(held, "__origin__", held) if hasattr(held, "__metadata__") else held


def _chances(name: str, field: FieldInfo, support: float) -> Mapping[Any, float]:
    kind = field.annotation
    if get_origin(kind) is Literal:
        labels = get_args(kind)
        return {labels[0]: support, _other_label(name, labels): 1 - support}
    if kind is bool:
        return {True: support, False: 1 - support}
    if kind is int or kind is float:
        return _number(name, field, support, whole=kind is int)
    raise UnsupportedStepError(f"it cannot fill the field {name!r}: {kind!r}")


def _other_label(name: str, labels: Sequence[Any]) -> Any:
    """The label for what is not supported. Overlap sees absence, never contradiction."""
    if NEUTRAL_LABEL in labels[1:]:
        return NEUTRAL_LABEL
    others = [label for label in labels[1:] if not str(label).lower().startswith(CONTRADICTION)]
    if not others:
        raise UnsupportedStepError(f"no label of {name!r} says that something is merely absent: {list(labels)}")
    return others[-1]


def _number(name: str, field: FieldInfo, support: float, whole: bool) -> Mapping[Any, float]:
    """A distribution over `min..max` whose mean is `support` taken to that scale."""
    low, high = _bound(field, "ge"), _bound(field, "le")
    if low is None or high is None:
        raise UnsupportedStepError(f"the number {name!r} needs a min and a max")
    value = low + support * (high - low)
    if not whole:
        return {value: 1.0}
    below = math.floor(value)
    above = value - below
    return {below: 1 - above, below + 1: above} if above else {below: 1.0}


def _bound(field: FieldInfo, name: str) -> float | None:
    return next((getattr(part, name) for part in field.metadata if hasattr(part, name)), None)

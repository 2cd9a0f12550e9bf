"""What a chain's steps are declared to reply, and what they did reply, addressed as `step` or `step.field`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.errors import did_you_mean
from evalflow.frozen import record
from evalflow.metrics.returns import ListType, RecordType
from evalflow.records import Distribution


@dataclass(frozen=True, slots=True)
class Shape:
    """What a step is declared to reply.

    Attributes:
        id: The step's id.
        fields: Field name to type.
        one_per: The list that the step goes over, once per item; None for a single reply.
    """

    id: str
    fields: Mapping[str, Any]
    one_per: str | None = None


@record()
class Observed:
    """What a step did reply.

    Attributes:
        shape: What it was declared to reply.
        reply: The reply's fields; a list of them, one per item, for a one_per step.
        probabilities: One distribution per item (one in all for a single reply), or None.
        items: What a one_per step went over.
    """

    shape: Shape
    reply: Any
    probabilities: Sequence[Distribution] | None = None
    items: Sequence[Any] | None = None


@record()
class Rows:
    """The items of a list in a reply.

    Attributes:
        rows: The items: maps of fields, or plain values.
        probabilities: One distribution per item, or None.
        about: What each row is about: the item that a one_per step was asked of; the row itself elsewhere.
        noun: What to call them.
    """

    rows: Sequence[Any]
    probabilities: Sequence[Distribution] | None
    about: Sequence[Any]
    noun: str


def item_type(ref: str, shapes: Mapping[str, Shape]) -> Any:
    """The declared type of the items of the list that `ref` names.

    Args:
        ref: A one_per step, or `step.field` for a list in a step's reply.
        shapes: The steps that may be named.

    Raises:
        ValueError: It names no list, with what it could name.
    """
    step, _, field = ref.partition(".")
    shape = shapes.get(step)
    if shape is None:
        raise ValueError(f"{ref!r} names no step that comes before; {did_you_mean(step, shapes) if shapes else 'none'}")
    if not field:
        if shape.one_per is None:
            raise ValueError(f"the step {step!r} replies once and is no list; name a list in it: {step}.FIELD")
        return RecordType(type="record", fields=dict(shape.fields))
    if shape.one_per is not None:
        raise ValueError(f"the step {step!r} already is a list, one reply per item; write {step!r}")
    declared = shape.fields.get(field)
    if declared is None:
        raise ValueError(f"the step {step!r} returns no field {field!r}; {did_you_mean(field, shape.fields)}")
    if not isinstance(declared, ListType):
        raise ValueError(f"{ref!r} is a {declared.type}, not a list")
    return declared.items


def rows_at(ref: str, seen: Mapping[str, Observed]) -> Rows:
    """The items of the list that `ref` names, in what was replied."""
    step, _, field = ref.partition(".")
    observed = seen[step]
    if field:
        rows = observed.reply[field]
        return Rows(rows, None, rows, _spoken(field))
    list_name = (observed.shape.one_per or step).rpartition(".")[2]
    return Rows(observed.reply, observed.probabilities, observed.items or (), _spoken(list_name))


def _spoken(name: str) -> str:
    return name.replace("_", " ")

"""Stand-ins for a judge's replies, so that `check` can render every prompt with nothing sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evalflow.metrics.returns import BoolType, LabelType, ListType, NumberType, RecordType

LISTED = 3
"""Items in a list of which nothing is known."""


def stand_in(returns: Mapping[str, Any], source: Any = None) -> dict[str, Any]:
    """A reply of the declared types that says nothing.

    Args:
        returns: Field name to type.
        source: The text that the step works on, if it is one: a list then has as many items as it has sentences,
            since that is what decides how long later prompts are.
    """
    texts = _sentences(source) if isinstance(source, str) else []
    return {name: _value(declared, texts) for name, declared in returns.items()}


def _value(declared: Any, texts: list[str]) -> Any:
    match declared:
        case BoolType():
            return True
        case NumberType():
            return declared.min if declared.min is not None else declared.max or 0
        case LabelType():
            return declared.labels[0]
        case ListType():
            return [_value(declared.items, [text]) for text in texts or ["…"] * LISTED]
        case RecordType():
            return {name: _value(inner, texts) for name, inner in declared.fields.items()}
        case _:
            return texts[0] if texts else "…"


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?。！？])\s*", text.strip())
    return [part for part in parts if part]

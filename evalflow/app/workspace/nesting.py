"""How deep values may lie within each other: what is deeper could be stored, and then not be given out again."""

from __future__ import annotations

from typing import Any, cast

DEEPEST = 64
"""Maps and lists within each other; nobody writes as many."""


def is_too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Whether a value of JSON has more than so many maps and lists within each other."""
    if not isinstance(value, dict | list):
        return False
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return left == 0 or any(is_too_deep(one, left - 1) for one in inner)

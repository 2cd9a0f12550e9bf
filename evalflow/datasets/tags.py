"""How tags are written: levels with " > " between them, from the widest to the narrowest."""

from __future__ import annotations

from collections.abc import Sequence

_BETWEEN = " > "


def tag_name(text: str) -> str:
    """A tag in the one way of writing it: `A>B` and ` A >  B ` are `A > B`; empty where the text names no level."""
    return _BETWEEN.join(level for part in text.split(">") if (level := part.strip()))


def tag_levels(tag: str) -> Sequence[str]:
    """What a tag stands for: `A > B` for `A` and for `A > B`; nothing where it names no level."""
    name = tag_name(tag)
    levels = name.split(_BETWEEN) if name else []
    return [_BETWEEN.join(levels[: i + 1]) for i in range(len(levels))]

"""Parts of the one-line reason of a score. The full details are in the steps."""

from __future__ import annotations

LISTED = 5
QUOTE = 100
REMARK = 160


def one_line(text: str, limit: int) -> str:
    """Text without line breaks, cut at a word near the limit."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    head = flat[: limit - 1]
    cut = head.rfind(" ")
    return f"{head[: cut if cut > limit // 2 else None].rstrip(' ,;:')}…"


def word(field: str | None, value: object) -> str:
    """A value in a sentence, named if it would not explain itself."""
    if isinstance(value, bool):
        name = (field or "true").replace("_", " ")
        return name if value else f"not {name}"
    return str(value).replace("_", " ") if isinstance(value, str) else f"{field or 'value'} {value}"

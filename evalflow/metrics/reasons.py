"""Parts of the one-line reason of a score, and what a judge says of the items. The full details are in the steps."""

from __future__ import annotations

from collections.abc import Sequence

from evalflow.metrics.returns import Observed, Rows, StrType
from evalflow.values.jsonvalues import is_mapping

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


def quotes(listed: Rows, indices: Sequence[int], observed: Observed | None) -> str:
    """Quote the first few of the chosen items and count the rest."""
    shown = [quote(listed, i, observed) for i in indices[:LISTED]]
    return "; ".join([*shown, *([f"and {len(indices) - LISTED} more"] if len(indices) > LISTED else [])])


def quote(listed: Rows, index: int, observed: Observed | None) -> str:
    """An item, with the judge's remark on it."""
    about = listed.about[index] if index < len(listed.about) else listed.rows[index]
    quoted = f'"{one_line(_text(about), QUOTE)}"'
    comment = remark(listed.rows[index], observed)
    return f"{quoted} ({one_line(comment, REMARK)})" if comment else quoted


def remark(row: object, observed: Observed | None) -> str | None:
    """The judge's remark: the field `reason`, else the first text of the reply."""
    if not is_mapping(row):
        return None
    fields = observed.step.returns if observed else {}
    name: str | None = "reason"
    if observed and not isinstance(fields.get("reason"), StrType):
        name = next((name for name, declared in fields.items() if isinstance(declared, StrType)), None)
    text = row.get(name) if name else None
    return text if isinstance(text, str) and text.strip() else None


def _text(about: object) -> str:
    if is_mapping(about):
        values = list(about.values())
        return next((value for value in values if isinstance(value, str)), str(values))
    return str(about)

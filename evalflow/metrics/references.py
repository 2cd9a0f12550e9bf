"""References to compare an answer with. Each of several references is right, so the best match counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalflow.metrics.reasons import QUOTE, one_line
from evalflow.records import Direction, Outcome, numbered, texts_of
from evalflow.values.jsonvalues import is_sequence, look_up

ANY_IS_RIGHT = "Each of these answers is right; one of them is enough:"


def references_at(path: str, fields: Mapping[str, object]) -> Sequence[object]:
    """The references at a field: the entries of a list, or the single value."""
    value = look_up(path, fields)
    return value if is_sequence(value) else (value,)


def any_right(reference: str | Sequence[str] | None) -> str | None:
    """The references as one text for a judge, which says that each is right if there are several."""
    if reference is None or isinstance(reference, str):
        return reference
    texts = [text for text in texts_of(reference) if text.strip()]
    return f"{ANY_IS_RIGHT}\n{numbered(texts)}" if len(texts) > 1 else next(iter(texts), "")


def which(place: int, references: Sequence[str]) -> str:
    """For the reason of a score: which of several references counted; "" if there is only one."""
    if len(references) < 2:
        return ""
    return f'the best of {len(references)} references: "{one_line(references[place], QUOTE)}"'


def best_outcome(outcomes: Sequence[Outcome], references: Sequence[str], direction: Direction) -> Outcome:
    """The best score over the references.

    If one of them is an error, the outcome is an error, since the best is unknown.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    for status in ("error", "scored"):
        places = [place for place, one in enumerate(outcomes) if one.status == status]
        if places:
            break
    else:
        return outcomes[0]
    if status == "error":
        return outcomes[places[0]]
    sign = -1 if direction == "lower_is_better" else 1
    best = max(places, key=lambda place: sign * (outcomes[place].score or 0))
    reason = "; ".join(part for part in (outcomes[best].reason, which(best, references)) if part)
    return replace(outcomes[best], reason=reason)

"""One line on why a score is what it is, for tables and terminals. The whole story stands in the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalflow.metrics.returns import Observed, Rows, StrType, rows_at
from evalflow.metrics.rules import (
    AveragePrecisionRule,
    FScoreRule,
    HitRule,
    MapRule,
    MeanRule,
    MinRule,
    Rule,
    ShareRule,
    ValueRule,
    cell,
    evaluate,
    hit_chances,
)
from evalflow.records import Direction

LISTED = 5
QUOTE = 100
REMARK = 160


def reason_of(rule: Rule, seen: Mapping[str, Observed], direction: Direction, weighted: bool = False) -> str:
    """Why the rule gives what it gives.

    A share lists the items that speak against the answer: those that do not count where higher is better (what a
    recall missed, what faithfulness found unsupported), those that count where lower is better. A grade gives the
    judge's own reason.

    Args:
        rule: The score rule.
        seen: What each step replied.
        direction: Which end of the scale is the good one.
        weighted: Whether the score is an expectation over the judge's probabilities, where it gave them.
    """
    match rule:
        case ShareRule():
            chances = hit_chances(rule, seen) if weighted and rule.among is None else None
            return _expected_share(rule, seen, direction, chances) if chances else _share(rule, seen, direction)
        case AveragePrecisionRule():
            return _ranking(rule, seen, direction)
        case FScoreRule():
            return _parts({"precision": rule.precision, "recall": rule.recall}, seen, direction, weighted)
        case MinRule():
            return _parts(rule.parts, seen, direction, weighted)
        case MeanRule():
            return _mean(rule, seen, direction)
        case ValueRule() | MapRule():
            observed = seen[rule.of]
            return one_line(
                _remark(observed.reply, observed) or f"{rule.field}: {observed.reply[rule.field]}", 4 * REMARK
            )


def one_line(text: str, limit: int) -> str:
    """Text without line breaks, cut at a word near the limit."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    head = flat[: limit - 1]
    cut = head.rfind(" ")
    return f"{head[: cut if cut > limit // 2 else None].rstrip(' ,;:')}…"


def _parts(parts: Mapping[str, Rule], seen: Mapping[str, Observed], direction: Direction, weighted: bool) -> str:
    """What each of several rules gives, and why."""
    said = [
        (name, _score(part, seen, weighted), reason_of(part, seen, direction, weighted)) for name, part in parts.items()
    ]
    return "; ".join(f"{name} {score}: {reason}" for name, score, reason in said)


def _ranking(rule: AveragePrecisionRule, seen: Mapping[str, Observed], direction: Direction) -> str:
    """Which ranks count, then why the others do not."""
    rows = rows_at(rule.of, seen).rows
    ranks = [str(rank) for rank, row in enumerate(rows, 1) if cell(row, rule.field) in rule.hits]
    where = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" if ranks else "no rank"
    return f"{_any_of(rule)} at {where} of {len(rows)}; {_share(rule, seen, direction)}"


def _share(rule: HitRule, seen: Mapping[str, Observed], direction: Direction) -> str:
    listed = rows_at(rule.of, seen)
    among = rule.among if isinstance(rule, ShareRule) else None
    kept = [i for i, row in enumerate(listed.rows) if among is None or cell(row, rule.field) in among]
    counted = [i for i in kept if cell(listed.rows[i], rule.field) in rule.hits]
    against = counted if direction == "lower_is_better" else [i for i in kept if i not in counted]
    named = [cell(listed.rows[i], rule.field) for i in against]
    if not against:
        return _clean(rule, listed.noun, [cell(listed.rows[i], rule.field) for i in kept], direction)
    head = f"{len(against)} of {len(kept)} {listed.noun} {_kinds(rule, named, direction)}"
    quotes = [_quote(listed, i, seen.get(rule.of)) for i in against[:LISTED]]
    rest = [f"and {len(against) - LISTED} more"] if len(against) > LISTED else []
    return f"{head}: {'; '.join([*quotes, *rest])}"


def _expected_share(
    rule: ShareRule, seen: Mapping[str, Observed], direction: Direction, chances: Sequence[float]
) -> str:
    """The line for a share of probabilities: those below even odds of being right, or else the weakest one."""
    listed = rows_at(rule.of, seen)
    lower = direction == "lower_is_better"
    right = [1 - chance for chance in chances] if lower else chances
    order = sorted(range(len(right)), key=lambda i: right[i])
    against = [i for i in order if right[i] < 0.5] or order[:1]
    quotes = [_quote(listed, i, seen.get(rule.of)) for i in against[:LISTED]]
    rest = [f"and {len(against) - LISTED} more"] if len(against) > LISTED else []
    if len(chances) == 1:
        return f"1 {listed.noun.removesuffix('s')}, {chances[0]:.2f} {_any_of(rule)}: {quotes[0]}"
    # The quotes come first: a terminal cuts the line off, and they say most.
    head = f"{'most' if lower else 'least'} {_any_of(rule)}: {'; '.join([*quotes, *rest])}"
    return f"{head}; {len(chances)} {listed.noun}, on average {sum(chances) / len(chances):.2f}"


def _clean(rule: HitRule, noun: str, values: Sequence[Any], direction: Direction) -> str:
    """The line for a score at the good end of the scale."""
    if direction == "lower_is_better":
        return f"0 of {len(values)} {noun} {_any_of(rule)}"
    words = dict.fromkeys(_word(rule.field, value) for value in values)
    return f"{len(values)} of {len(values)} {noun} {' or '.join(words)}"


def _kinds(rule: HitRule, values: Sequence[Any], direction: Direction) -> str:
    """What is wrong with the listed items: the one word for it, or the words with how often each."""
    counts = Counter(_word(rule.field, value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    details = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    head = _any_of(rule) if direction == "lower_is_better" else f"not {_any_of(rule)}"
    return f"{head} ({details})"


def _any_of(rule: HitRule) -> str:
    return " or ".join(_word(rule.field, value) for value in rule.hits)


def _word(field: str | None, value: Any) -> str:
    """A value as it reads in a sentence."""
    if isinstance(value, bool):
        name = (field or "true").replace("_", " ")
        return name if value else f"not {name}"
    return str(value).replace("_", " ") if isinstance(value, str) else f"{field or 'value'} {value}"


def _quote(listed: Rows, index: int, observed: Observed | None) -> str:
    about = listed.about[index] if index < len(listed.about) else listed.rows[index]
    quote = f'"{one_line(_text(about), QUOTE)}"'
    remark = _remark(listed.rows[index], observed) if observed else None
    return f"{quote} ({one_line(remark, REMARK)})" if remark else quote


def _text(about: Any) -> str:
    """An item in words: itself, or the first text among its fields."""
    if isinstance(about, Mapping):
        values = list(cast("Mapping[str, Any]", about).values())
        return next((value for value in values if isinstance(value, str)), str(values))
    return str(about)


def _remark(row: Any, observed: Observed | None) -> str | None:
    """What the judge gave as its reason: the field of that name, else the first text."""
    if observed is None or not isinstance(row, Mapping):
        return None
    fields = observed.shape.fields
    name: str | None = "reason"
    if not isinstance(fields.get("reason"), StrType):
        name = next((name for name, declared in fields.items() if isinstance(declared, StrType)), None)
    text = cast("Mapping[str, Any]", row).get(name) if name else None
    return text if isinstance(text, str) and text.strip() else None


def _mean(rule: MeanRule, seen: Mapping[str, Observed], direction: Direction) -> str:
    listed = rows_at(rule.of, seen)
    values = [cell(row, rule.field) for row in listed.rows]
    worst = max(values) if direction == "lower_is_better" else min(values)
    quote = _quote(listed, values.index(worst), seen.get(rule.of))
    word = "highest" if direction == "lower_is_better" else "lowest"
    return f"mean over {len(values)} {listed.noun}; {word}: {quote} {rule.field or ''} {worst}".replace("  ", " ")


def _score(rule: Rule, seen: Mapping[str, Observed], weighted: bool) -> str:
    score = evaluate(rule, seen, weighted).score
    return "undefined" if score is None else f"{score:.2f}"

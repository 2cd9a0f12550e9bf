"""What pairs of answers tell, in sentences: how often the answer wins, and whether the judge leans to a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.terminal import literal
from evalflow.report.wording import PARTS, p_value, series_name, varying

if TYPE_CHECKING:
    from rich.console import Console

_SLICE = ("metric", *PARTS)
_LEVEL = 0.05


def preference_texts(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """A few sentences for each metric that compares pairs (and dataset, target, judge); none where none does.

    Args:
        details: As under `details` in summary.json.
    """
    whole = [detail for detail in details if detail.get("tag") is None]
    counted = [detail for detail in whole if detail["statistic"] == "win_rate" and "decided_by_order" in detail]
    tests = {
        tuple(detail[key] for key in _SLICE): detail for detail in whole if detail["statistic"] == "first_preferred"
    }
    parts = varying(counted)
    return [
        f"{' · '.join(text for text in (detail['metric'], series_name(detail, parts)) if text)}: "
        + " ".join(_sentences(detail, tests[tuple(detail[key] for key in _SLICE)]))
        for detail in counted
    ]


def print_preferences(console: Console, details: Sequence[Mapping[str, Any]]) -> None:
    """The same on a terminal."""
    for text in preference_texts(details):
        console.print(literal(text, style="dim"), soft_wrap=True)


def _sentences(counts: Mapping[str, Any], test: Mapping[str, Any]) -> Iterator[str]:
    wins, losses, ties, flips = (counts[name] for name in ("wins", "losses", "ties", "decided_by_order"))
    pairs = wins + losses + ties + flips
    yield (
        f"of {pairs:,} pair{'' if pairs == 1 else 's'} {wins:,} won, {losses:,} lost, {ties:,} tied, and {flips:,} "
        "decided by the order in which they were read."
    )
    first, second, p = test["first"], test["second"], test["p_value"]
    if p is None:
        return
    place = "first" if first > second else "second"
    found = f"the judge prefers what it reads {place}" if p < _LEVEL else "no sign that the judge prefers a place"
    yield (
        f"Where the verdict changes with the order, each case or group counted once, {first:,} lean to what is read "
        f"first and {second:,} to what is read second (sign test, p = {p_value(p)}): {found}."
    )

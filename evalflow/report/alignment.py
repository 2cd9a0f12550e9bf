"""Prints the result of teaching a judge with people's labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from evalflow.paths import shown
from evalflow.report.comparison_sentences import measure_in_words
from evalflow.report.wording import bracketed, counted, literal, number, print_lines, signed
from evalflow.summary.alignment import Alignment
from evalflow.summary.judge_change import AgreementChange

_TOLD = {
    True: "Taught so, the judge agrees better with the labels",
    False: "Taught so, the judge agrees less with the labels",
}
_UNCLEAR = "It is not clear whether the taught judge agrees better with the labels"


def print_alignment(
    console: Console, alignment: Alignment, version: int, files: Sequence[Path], run: Path, *, inconclusive: bool
) -> None:
    """Print whether the judge agrees better, by how much, and what was written or how many labels would decide."""
    console.print()
    console.print(literal(sentence(alignment), style="bold"), soft_wrap=True)
    print_lines(console, details(alignment))
    if inconclusive:
        console.print(literal("Too many held-out answers could not be scored."), soft_wrap=True)
    if files:
        console.print(literal(f"Wrote version {version} of {alignment.metric}:"))
        print_lines(console, (f"  {shown(path)}" for path in files))
    else:
        console.print(
            literal(f"Nothing was written: {alignment.metric} stays as it is.{to_decide(alignment)}"), soft_wrap=True
        )
    console.print(literal(f"run    {shown(run)}"), soft_wrap=True)


def sentence(alignment: Alignment) -> str:
    """Whether the judge agrees better with the labels, on how many labels."""
    verdict = _UNCLEAR if alignment.helps is None else _TOLD[alignment.helps]
    return (
        f"{verdict}: {_change(alignment.deciding)}." if alignment.deciding else f"{_UNCLEAR}: nothing can be measured."
    )


def _change(change: AgreementChange) -> str:
    before, after = (
        f"{number(end.value, 2)}{bracketed(end.low, end.high, partial(number, digits=2))}"
        for end in (change.before, change.after)
    )
    difference = change.difference
    by = f"{signed(difference.difference)}{bracketed(difference.low, difference.high, signed)}"
    return f"{measure_in_words(change)} {before} before, {after} now, difference {by}"


def details(alignment: Alignment) -> Iterator[str]:
    """Sentences on the other measures, the width of the corrected mean's interval, and the labels used."""
    yield from (f"{_change(change)}." for change in alignment.changes if change is not alignment.deciding)
    if (width := alignment.width) is not None and width.difference is not None:
        yield (
            f"The interval of the labels' mean over all {counted(alignment.answers, 'answer')}, corrected by those "
            f"held out, would be {number(width.value_b)} wide and not {number(width.value_a)}, difference "
            f"{signed(width.difference)}{bracketed(width.low, width.high, signed)}."
        )
    left = alignment.held_out - alignment.scored
    unscored = f" {left:,} of them were not scored both times, and are left out." if left else ""
    held_out = counted(alignment.held_out, "held-out answer")
    yield f"Measured on {held_out} with labels; no example comes from them.{unscored}"


def to_decide(alignment: Alignment) -> str:
    """How many labels would decide it, with a leading space; "" if it is decided."""
    if alignment.helps is not None:
        return ""
    needed, have = alignment.labels_needed, alignment.learned + alignment.held_out
    if needed is None:
        return " No number of labels would decide a difference like this."
    return f" About {needed:,} labelled answers would decide a difference like this, {needed - have:,} more than now."

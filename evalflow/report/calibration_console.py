"""A calibration on a terminal, readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from evalflow.report.calibration import Calibration
from evalflow.report.calibration_words import in_words, shown_measures, warnings_of
from evalflow.report.judges import judge_lines
from evalflow.report.terminal import folded, literal, plain_line
from evalflow.report.wording import method, number, series_name, varying

if TYPE_CHECKING:
    from evalflow.summary import CalibrationRow

_WORST = 5
_NAME = 30


def print_calibration(console: Console, found: Calibration) -> None:
    """For each judge and metric its means side by side, what they say, and agreement; then the worst disagreements."""
    for line in judge_lines(found.manifest):
        console.print(literal(line, style="dim"), soft_wrap=True)
    console.print(literal(f"labels: {found.source} ({found.rests_on})", style="dim"), soft_wrap=True)
    for note in found.notes:
        console.print(literal(f"note: {note}", style="yellow"), soft_wrap=True)
    parts = varying([{"dataset": row.dataset, "target": row.target, "judge": row.judge} for row in found.rows])
    for row in found.rows:
        series = series_name({"dataset": row.dataset, "target": row.target, "judge": row.judge}, parts)
        console.print()
        console.print(literal(plain_line(" · ".join(text for text in (row.metric, series) if text)), style="bold"))
        _print_row(console, row)
    _print_worst(console, found)


def _print_row(console: Console, row: CalibrationRow) -> None:
    console.print(_means(row))
    for line in in_words(row):
        console.print(literal(line))
    for warning in warnings_of(row):
        console.print(literal(f"warning: {warning}", style="yellow"))
    measures = list(_measures(row))
    if measures:
        of = "all answers, by the labels' weights" if row.weighted else "the labelled answers"
        console.print(literal(f"agreement on {of}, with 95 % intervals", style="dim"))
        for line in measures:
            console.print(Padding(literal(line, style="dim"), (0, 0, 0, 2), expand=False))
    tags = [one for one in row.tags if one.corrected.estimate is not None]
    if tags:
        console.print(_tags(tags))
    left = len(row.tags) - len(tags)
    if left:
        few = "1 tag has" if left == 1 else f"{left} tags have"
        console.print(literal(f"{few} too few labels for an estimate by tag", style="dim"))


def _means(row: CalibrationRow) -> Table:
    c = row.corrected
    people = f"people alone, on {c.n:,} answer{'' if c.n == 1 else 's'}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"mean over {c.n + c.n_unlabelled:,} {row.named}", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("how")
    scored = f", on {row.answers.height:,} scored" if row.failed[1] else ""
    rows = [
        (f"{row.who} alone{scored}", c.judge_mean, row.judged.low, row.judged.high,
         row.judged.method),
        (people, c.human_mean, c.human_low, c.human_high, ""),
        ("corrected by people", c.estimate, c.low, c.high, c.method),
    ]  # fmt: skip
    for name, value, low, high, how in rows:
        style = "bold" if name.startswith("corrected") else ""
        text = literal(plain_line(method(how)) if how else "", style="dim")
        table.add_row(literal(name, style=style), literal(number(value), style=style), _interval(low, high), text)
    return table


def _tags(rows: list[CalibrationRow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tag", no_wrap=True)
    for head in ("labels", rows[0].who, "corrected", "95 % interval"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        c = row.corrected
        name = literal(folded(plain_line(row.tag or ""), _NAME))
        table.add_row(name, f"{c.n:,}", number(c.judge_mean), number(c.estimate), _interval(c.low, c.high))
    return table


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} … {number(high)}"


def _measures(row: CalibrationRow) -> Iterator[str]:
    for _, words, one in shown_measures(row):
        if one.value is not None:
            span = "" if one.low is None or one.high is None else f" ({number(one.low)} to {number(one.high)})"
            yield f"{words}: {number(one.value)}{span}"


def _print_worst(console: Console, found: Calibration) -> None:
    """The answers on which judge and people differ most."""
    worst = found.disagreements[:_WORST]
    console.print()
    who = found.who
    head = (
        f"{who} and people differ most ({who}, people)" if worst else f"{who} and people say the same of every answer"
    )
    console.print(literal(head, style="bold"))
    for one in worst:
        console.print(_line(one), no_wrap=True, overflow="ellipsis", crop=True)


def _line(one: Mapping[str, Any]) -> Text:
    name = f"  {number(one['score'], 2)}  {number(one['human'], 2)}  {plain_line(one['case_id'])}  {one['metric']}  "
    why = plain_line(one["comment"] or one["reason"] or "no reason given")
    return Text.assemble(name, (why, "dim"), no_wrap=True, overflow="ellipsis")

"""A comparison on a terminal, readable at 80 columns and without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evalflow.report.comparison import VERDICTS, Comparison
from evalflow.report.terminal import folded, literal, plain_line
from evalflow.report.wording import method, number, p_value, signed
from evalflow.summary import cases_to_decide, not_worse

if TYPE_CHECKING:
    from evalflow.summary import ComparisonRow

_STYLES = {"better": "green", "worse": "bold red", "cannot_tell": "yellow"}
_WORST = 5
_NAME = 18


def print_comparison(console: Console, found: Comparison) -> None:
    """Who was compared, the table, the family, what was left out, and the worst flips."""
    for line in found.judges:
        console.print(literal(line, style="dim"), soft_wrap=True)
    if not found.several:
        for label, name in zip("AB", found.runs, strict=True):
            console.print(literal(f"{label}  {name}", style="dim"), soft_wrap=True)
    _print_rows(console, found)
    console.print(literal(found.family, style="dim"), soft_wrap=True)
    if found.margin is not None:
        _print_margin(console, found, found.margin)
    for note in found.notes:
        console.print(literal(f"note: {note}", style="yellow"), soft_wrap=True)
    _print_flips(console, found)


def _print_rows(console: Console, found: Comparison) -> None:
    for pair in dict.fromkeys(row.pair for row in found.rows):
        rows = [row for row in found.rows if row.pair == pair]
        if found.several:
            console.print(literal(f"B {pair[1]}\nA {pair[0]}", style="bold"), soft_wrap=True)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("metric", overflow="fold")  # of all columns it alone may shrink: a cut number is none
        for head in ("A", "B", "B - A", "95 % interval", "p"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        names = [(row.metric, row.tag) for row in rows]
        above = None
        for row, name in zip(rows, names, strict=True):
            several = names.count(name) > 1
            if several and name != above:
                table.add_row(literal(folded(_about(row), _NAME)))
            above = name
            table.add_row(literal(folded(f" {row.called or 'mean'}" if several else _name(row), _NAME)), *_cells(row))
        console.print(table)
        for row in rows:
            console.print(literal(f"{_name(row)}: {_details(row)}", style="dim"), soft_wrap=True)


def _cells(row: ComparisonRow) -> list[Any]:
    f = row.found
    return [
        number(f.value_a),
        number(f.value_b),
        signed(f.difference),
        "–" if f.low is None else f"{signed(f.low)} … {signed(f.high)}",
        p_value(row.p_adjusted),
        literal(VERDICTS[row.verdict], style=_STYLES[row.verdict]),
    ]


def _name(row: ComparisonRow) -> str:
    return " ".join(part for part in (plain_line(row.metric), row.called, _tag(row)) if part)


def _about(row: ComparisonRow) -> str:
    return " ".join(part for part in (plain_line(row.metric), _tag(row)) if part)


def _tag(row: ComparisonRow) -> str:
    return plain_line(f"@{row.tag}") if row.tag else ""


def _details(row: ComparisonRow) -> str:
    """How many cases, what they could show, by which method."""
    cases = f"{row.found.n} case{'' if row.found.n == 1 else 's'}"
    if row.found.clusters != row.found.n:
        cases += f" in {row.found.clusters} cluster{'' if row.found.clusters == 1 else 's'}"
    few = row.bounded and row.detectable is None and row.found.std_error is not None
    reach = ", too few to detect anything" if few else ""
    reach = reach if row.detectable is None else f", could detect {number(row.detectable)}"
    direction = "" if row.higher_is_better else "; lower is better"
    return f"{row.dataset}, {cases}{reach}; {method(row.found.method)}{direction}"


def _print_margin(console: Console, found: Comparison, margin: float) -> None:
    words = {True: "not worse", False: "worse", None: "cannot tell whether worse"}
    for row in found.rows:
        held = not_worse(row.found, margin, higher_is_better=row.higher_is_better)
        needed = cases_to_decide(row.found, margin, higher_is_better=row.higher_is_better)
        more = f"; about {needed:,} cases would decide, if it stayed as it is" if needed else ""
        console.print(literal(f"{_name(row)}: {words[held]} by more than {margin:g}{more}"), soft_wrap=True)


def _print_flips(console: Console, found: Comparison) -> None:
    """How many cases flipped, and those that got worse most."""
    for changed in found.flips:
        pair = f" ({changed.pair[1]} against {changed.pair[0]})" if found.several else ""
        worst = [row for row in changed.rows if row["change"] < 0][:_WORST]
        flips = f"{changed.worsened} from pass to fail, {changed.improved} from fail to pass"
        head = f"{flips}; {'got worse most' if worst else 'no case got worse'}{pair}"
        console.print(literal(head, style="bold"), soft_wrap=True)
        for row in worst:
            name = f"  {signed(row['change'])}  {plain_line(row['case_id'])}  {row['metric']}"
            why = plain_line(row["reason"] or "no reason given")
            line = Text.assemble(f"{name}  ", (why, "dim"), no_wrap=True, overflow="ellipsis")
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

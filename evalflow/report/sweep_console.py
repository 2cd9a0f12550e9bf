"""What a sweep says on a terminal: a line for each run as it ends, then all of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from evalflow.lazy import pl
from evalflow.report.console import headline_rows, print_table
from evalflow.report.sweep import print_boards
from evalflow.report.wording import folded, literal, number, percent, series_name, varying

FEW = 4
"""Runs that a sweep may have, to be shown in full."""
_COLUMNS = 5
_HEAD_WIDTH = 12


def run_line(name: str, manifest: Mapping[str, Any], summary: pl.DataFrame) -> str:
    """A run of a sweep in one line: its first numbers, its errors, and its exit code where it is not 0.

    Args:
        name: Its folder's name.
        manifest: run.json.
        summary: The columns of summary.parquet.
    """
    rows = headline_rows(summary)
    found = [f"{_column(row)} {number(row['value'])}" for row in rows[:_COLUMNS]]
    found += [f"{len(rows) - _COLUMNS} more"] if len(rows) > _COLUMNS else []
    errors = manifest["scores"]["error"]
    ends = [f"{errors} error{'' if errors == 1 else 's'}"] if errors else []
    ends += [f"exit code {manifest['exit_code']}"] if manifest["exit_code"] else []
    return "; ".join((f"{name}: {', '.join(found)}", *ends))


def print_sweep(
    console: Console, summary: pl.DataFrame, agreement: pl.DataFrame, boards: Sequence[Mapping[str, Any]]
) -> None:
    """The headline rows of all runs, how far every two judges agree, and who leads.

    Args:
        console: Where to print.
        summary: The columns of summary.parquet after a column `run`.
        agreement: metric, judge_a, judge_b, n, agreement, correlation.
        boards: What `board_lines` takes.
    """
    if summary["run"].n_unique() > FEW:
        _print_grids(console, headline_rows(summary))
    else:
        rows = sorted(headline_rows(summary), key=lambda row: (row["metric"], row["statistic"]))
        parts = varying(rows)
        cells = {(row["metric"], row["statistic"], series_name(row, parts)) for row in rows}
        print_table(console, rows, parts if len(cells) == len(rows) else (*parts, "run"))
    for row in agreement.head(FEW).iter_rows(named=True):
        facts = [f"rank correlation {number(row['correlation'], 2)}"]
        if row["agreement"] is not None:
            facts.append(f"same verdict {percent(row['agreement'])}")
        pair = f"{row['metric']}: {row['judge_a']} and {row['judge_b']}"
        console.print(literal(f"{pair} on {row['n']} answers: {', '.join(facts)}"), soft_wrap=True)
    if agreement.height > FEW:
        rest = f"report.html has the agreement of {agreement.height - FEW} more pairs of judges"
        console.print(literal(rest, style="dim"))
    print_boards(console, boards, most=FEW)


def _print_grids(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each run and a column for each number, so many columns at a time."""
    several = len({row["dataset"] for row in rows}) > 1
    columns = list(dict.fromkeys(_key(row, several=several) for row in rows))
    values = {(row["run"], _key(row, several=several)): number(row["value"]) for row in rows}
    for start in range(0, len(columns), _COLUMNS):
        shown = columns[start : start + _COLUMNS]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("run", overflow="fold")
        for column in shown:
            table.add_column(literal(folded(column, _HEAD_WIDTH)), justify="right", overflow="fold")
        for run in dict.fromkeys(row["run"] for row in rows):
            table.add_row(literal(run), *(literal(values.get((run, column), "–")) for column in shown))
        console.print(table)


def _key(row: Mapping[str, Any], *, several: bool) -> str:
    return f"{row['dataset']} {_column(row)}" if several else _column(row)


def _column(row: Mapping[str, Any]) -> str:
    return row["metric"] if row["statistic"] == "mean" else f"{row['metric']} {row['statistic']}"

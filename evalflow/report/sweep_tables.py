"""The numbers of a sweep: a table for each metric with a row for each run, and all metrics side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from evalflow.records import CASES
from evalflow.records.manifest import Manifest
from evalflow.report.numbers import (
    HEAD,
    NUMBERS,
    SCALE,
    headline_of_each,
    judge_cell,
    number_cells,
    own_scale_of_runs,
    varies,
)
from evalflow.report.page import Cell, PageColumn, PageTable
from evalflow.report.wording import (
    ColumnKind,
    counted,
    folded,
    interval,
    joined,
    literal,
    metric_name,
    number,
    percent,
    plain_statistic,
    table_of,
    who_scored,
    without_means_of_figures,
)
from evalflow.summary.finding import is_corrected
from evalflow.summary.rows import SummaryRow

_FILLED = 0.75  # share of the cells side by side that must have a number
_RUN_WIDTH, _JUDGE_WIDTH = 22, 20
_MOST = 12  # rows of a table on a terminal


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One number of a metric, for each run of a sweep that has it."""

    title: str
    rows: Sequence[SummaryRow]
    is_headline: bool


def metric_tables(rows: Sequence[SummaryRow], manifests: Mapping[str, Manifest]) -> list[MetricTable]:
    """A table for each dataset, metric and statistic over all tags: whole cases first, then headlines, then the rest.

    `rows` are those of the runs' summaries, with the run's name as `run`; `manifests` are by that name.
    """
    shown = [one for run in manifests for one in without_means_of_figures(row for row in rows if row.run == run)]
    shown = [row for row in shown if row.tag is None]
    first = {(row.dataset, row.metric, row.statistic) for row in headline_of_each(shown)}
    groups: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for row in shown:
        groups.setdefault((row.dataset, row.metric, row.statistic), []).append(row)
    several = varies(shown, "dataset") if shown else False
    tables = [
        MetricTable(_title(own[0], manifests, dataset if several else ""), own, key in first)
        for key, own in groups.items()
        for dataset in key[:1]
    ]
    return sorted(tables, key=lambda one: (not one.is_headline, one.rows[0].metric != CASES))


def _title(row: SummaryRow, manifests: Mapping[str, Manifest], dataset: str) -> str:
    about = manifests[row.run]
    facts = about.metrics.get(row.metric)
    configs: Mapping[str, Mapping[str, Any]] = about.config.get("metric") or {}
    config: Mapping[str, Any] = configs.get(facts.key, {}) if facts else {}
    lower = "lower is better" if config.get("direction") == "lower_is_better" else ""
    if row.metric == CASES:
        return joined(metric_name(row.metric), dataset)
    statistic = "" if row.statistic == "mean" else plain_statistic(row.statistic)
    return joined(about.titles.get(row.metric, row.metric), statistic, dataset, lower)


def page_table(table: MetricTable, manifests: Mapping[str, Manifest]) -> PageTable:
    """The table for a page: run, judge with its kind and calibration, and the numbers with intervals."""
    several = varies(table.rows, "target")
    grades, by = own_scale_of_runs(table.rows, manifests), _decided_by(table.rows)
    rows: list[Sequence[Cell]] = []
    for place, row in enumerate(table.rows):
        named = (row.run, row.target) if several else row.run
        value, *others = number_cells(row)
        own = (*grades[place : place + 1], *by[place : place + 1])
        rows.append((named, _judge(row, manifests), value, *own, *others))
    columns = [*([SCALE] if grades else []), *([PageColumn("By")] if by else [])]
    return PageTable([PageColumn("Run"), PageColumn("Judge", "judged"), NUMBERS[0], *columns, *NUMBERS[1:]], rows)


def _decided_by(rows: Sequence[SummaryRow]) -> list[str]:
    """For each row `labels` if these correct its value, else `judge` or `metric`; empty if they correct none."""
    if not any(is_corrected(row, "value") for row in rows):
        return []
    return ["labels" if is_corrected(row, "value") else f"{who_scored(row.judge)} alone" for row in rows]


def _judge(row: SummaryRow, manifests: Mapping[str, Manifest]) -> tuple[str, ...]:
    about = manifests[row.run]
    if row.metric == CASES:
        return ("those of its metrics",)
    return judge_cell(row.judge, about.judges.get(row.judge or ""), about.metrics.get(row.metric))


def side_by_side(all_tables: Sequence[MetricTable]) -> PageTable | None:
    """A row for each run with the headline number of each metric; None for a single metric, or if most cells are empty.

    A run with several numbers for a metric, such as those of two judges, has a row for each.
    """
    tables = [one for one in all_tables if one.is_headline]
    cells: dict[tuple[str, int], dict[str, Cell]] = {}
    for table in tables:
        seen: dict[str, int] = {}
        for row in table.rows:
            place = seen[row.run] = seen.get(row.run, -1) + 1
            ends = interval(row.ci_low, row.ci_high) + (", by labels" if is_corrected(row, "value") else "")
            cells.setdefault((row.run, place), {})[table.title] = (number(row.value), ends)
    filled = sum(len(own) for own in cells.values())
    if len(tables) < 2 or len(cells) < 2 or filled < _FILLED * len(cells) * len(tables):
        return None
    names = list(dict.fromkeys(run for run, _ in cells))
    rows: list[Sequence[Cell]] = [
        (run, *(own.get(table.title, "not run") for table in tables))
        for run, place in sorted(cells, key=lambda key: (names.index(key[0]), key[1]))
        for own in [cells[run, place]]
    ]
    return PageTable([PageColumn("Run"), *(PageColumn(table.title, "num value") for table in tables)], rows)


def print_tables(console: Console, rows: Sequence[SummaryRow], manifests: Mapping[str, Manifest]) -> None:
    """Print a table for each headline number of a sweep; the page has the others."""
    tables = metric_tables(rows, manifests)
    for one in tables:
        if one.is_headline:
            _print_table(console, one, manifests)
    if rest := sum(not one.is_headline for one in tables):
        console.print(literal(f"report.html has {counted(rest, 'more table')}", style="dim"))


def _print_table(console: Console, table: MetricTable, manifests: Mapping[str, Manifest]) -> None:
    judges = [", ".join(_judge(row, manifests)) for row in table.rows]
    is_one = len(set(judges)) == 1
    columns: dict[str, ColumnKind] = {"run": "name"} if is_one else {"run": "name", "judge": "name"}
    grades, by = own_scale_of_runs(table.rows, manifests), _decided_by(table.rows)
    mixed = by if len(set(by)) > 1 else []
    columns |= {"score": "number", **({HEAD: "number"} if grades else {}), **({"by": "word"} if mixed else {})}
    columns |= dict.fromkeys(("95 % interval", "scored", "pass"), "number")
    lines = [
        [
            folded(row.run, _RUN_WIDTH),
            *([] if is_one else [folded(judge, _JUDGE_WIDTH)]),
            number(row.value),
            *grades[place : place + 1],
            *mixed[place : place + 1],
            interval(row.ci_low, row.ci_high),
            f"{row.n_scored:,}",
            percent(row.pass_rate),
        ]
        for place, (row, judge) in enumerate(zip(table.rows, judges, strict=True))
    ]
    about = f"judge {judges[0]}" if is_one and table.rows[0].judge else ""
    corrected = "corrected by labels" if by and not mixed else ""
    console.print(literal(joined(table.title, about, corrected), style="bold"), soft_wrap=True)
    console.print(table_of(columns, lines[:_MOST]))
    if len(lines) > _MOST:
        console.print(literal(f"  {counted(len(lines) - _MOST, 'more run')} in report.html", style="dim"))

"""A run on a terminal: progress and results, readable at 80 columns and without colour."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from evalflow.lazy import pl
from evalflow.records.manifest import Manifest
from evalflow.report.gate_sentences import OUTCOMES, gates_once
from evalflow.report.numbers import HEAD, own_scale_cells
from evalflow.report.page import judge_lines, sample_lines
from evalflow.report.sentences import label_lines, of_run
from evalflow.report.wording import (
    case_name,
    caveat_lines,
    cost,
    counted,
    folded,
    headline_rows,
    interval,
    literal,
    number,
    percent,
    plain,
    plain_line,
    print_cut,
    print_lines,
    provider_savings,
    series_name,
    table_of,
    varying,
)
from evalflow.summary.labelled_cells import counted_pass, counted_score, with_people
from evalflow.summary.rows import GateOutcome, SummaryRow

if TYPE_CHECKING:
    from evalflow.engine.bookkeeping import Tally

_WORST = 3
_NAME_WIDTH = 20
_NUMBERS = 61
_GRADES = 7
"""Characters of the column of grades on metrics' own scales, such as 4.0/5."""
_TICK = 0.1
_LINE_EVERY = 10.0


def print_summary(
    console: Console,
    manifest: Manifest,
    summary: pl.DataFrame,
    directions: Mapping[str, str],
    gates: Sequence[GateOutcome] = (),
) -> None:
    """Print the judges, the headline and the table of a run: a line per metric, or per figure if it has figures."""
    print_lines(console, [*judge_lines(manifest), *sample_lines(manifest)], "dim")
    rows = headline_rows(summary)
    heads = of_run(rows, {gate["of_metric"] for gate in gates})
    print_lines(console, map(str, heads), "bold")
    print_table(console, rows, varying(rows), own_scale_cells(rows, manifest.metrics))
    for metric in dict.fromkeys(row.metric for row in rows):
        if directions.get(metric) == "lower_is_better":
            console.print(literal(f"{metric}: lower is better", style="dim"))
    for line in (*label_lines(rows, heads), *caveat_lines(rows)):
        console.print(literal(line, style="dim"))


def print_worst(console: Console, worst: Sequence[WorstCase], questions: Mapping[tuple[str, str], str]) -> None:
    """Print the worst cases, each with a one-line reason; `questions` are by dataset and id."""
    if not worst:
        return
    console.print(literal(f"worst {len(worst)}" if len(worst) > 1 else "worst", style="bold"))
    for case in worst:
        name = case_name(case.case_id, questions.get((case.dataset, case.case_id)))
        head = f"  {number(case.score, 2):>5}  {name}  {case.metric}{case.by_labels}"
        print_cut(console, head, case.reason or "no reason given")


@dataclass(frozen=True, slots=True)
class WorstCase:
    """One of a run's worst cases, by its worst metric. If people labelled the answer, `score` is theirs."""

    dataset: str
    case_id: str
    metric: str
    score: float
    reason: str | None
    judged: float | None  # the judge's score, if `score` is people's

    @property
    def by_labels(self) -> str:
        """Says that people gave the score, with the judge's score; "" if the judge gave it."""
        return "" if self.judged is None else f" by labels (judge {number(self.judged, 2)})"


def worst_cases(
    scores: pl.LazyFrame, directions: Mapping[str, str], people: pl.DataFrame | None = None, count: int = _WORST
) -> list[WorstCase]:
    """The worst scored cells, one per case, ties in input order; a perfect score is never among them.

    Failed cells come first, then those worst within their metric. `people` are those of a `Calibration`: their label
    of an answer replaces the judge's score of it; answers with nothing to score are left out.
    """
    lower = [metric for metric, direction in directions.items() if direction == "lower_is_better"]
    cells = with_people(scores.filter((pl.col("status") == "scored") & pl.col("member_of").is_null()), people)
    cells = cells.filter(~pl.col("human_undefined")).with_columns(
        judged=pl.when(pl.col("human").is_not_null()).then("score"), score=counted_score(), passed=counted_pass()
    )
    is_lower = pl.col("metric").is_in(lower)
    badness = pl.when(is_lower).then(pl.col("score")).otherwise(-pl.col("score"))
    perfect = pl.when(is_lower).then(pl.col("score") <= 0).otherwise(pl.col("score") >= 1)
    place = badness.rank("average").over("metric") / pl.len().over("metric")
    order = {"fails": pl.col("passed").eq_missing(False), "place": place, "badness": badness}
    shown = [one.name for one in fields(WorstCase)]
    ordered = cells.filter(~perfect).select(*shown, **order).sort(*order, descending=True, maintain_order=True)
    worst = ordered.unique(["dataset", "case_id"], keep="first", maintain_order=True).head(count)
    return [WorstCase(**row) for row in worst.select(shown).collect().iter_rows(named=True)]


def print_totals(console: Console, manifest: Manifest) -> None:
    """Print requests, tokens (if any), cost (also if unknown) and time in one line."""
    requests, cached = manifest.requests, manifest.cached
    parts = ["requests unknown" if requests is None else counted(requests, "request")]
    if cached:
        saved = f", which saves {cost(manifest.saved_usd)}" if manifest.saved_usd else ""
        parts.append(f"{cached:,} from the cache{saved}")
    if tokens := (manifest.input_tokens or 0) + (manifest.output_tokens or 0):
        parts.append(f"{tokens:,} tokens")
    if saved := provider_savings(manifest):
        parts.append(saved)
    if tokens or manifest.cost_usd is None:
        parts.append(f"cost {cost(manifest.cost_usd)}")
    parts.append(f"{manifest.seconds:.1f} s")
    console.print(literal(" · ".join(parts), style="dim"))


def print_gates(console: Console, gates: Sequence[GateOutcome]) -> None:
    """Print one line per gate."""
    styles = {True: "green", False: "bold red", None: "yellow"}
    for gate in gates_once(gates):
        passed = gate["passed"]
        word, style = OUTCOMES[passed].upper() if passed is False else OUTCOMES[passed], styles[passed]
        console.print(Text.assemble("gate ", (word, style), f"  {plain(gate['message'])}"), soft_wrap=True)


def print_table(console: Console, rows: Sequence[SummaryRow], parts: Sequence[str], grades: Sequence[str] = ()) -> None:
    """Print summary rows, named by metric and by those of `parts` that differ between rows.

    `grades` are the values of the rows on their metrics' own scales, if any.
    """
    width = _NAME_WIDTH - _GRADES if grades else _NAME_WIDTH
    lines: list[Sequence[str | Text]] = []
    above = None
    for place, row in enumerate(rows):
        is_figure = row.statistic != "mean"
        if is_figure and row.metric != above:
            lines.append([folded(row.metric, width)])
        above = row.metric
        figure = folded(f"  {plain_line(row.statistic)}", max(width, console.width - _NUMBERS), "    ")
        name = figure if is_figure else folded(row.metric, width)
        states, ends = map(str, row.states.values()), interval(row.ci_low, row.ci_high)
        lines.append([name, number(row.value), *grades[place : place + 1], ends, *states, percent(row.pass_rate)])
        if which := series_name(row, parts):
            lines.append([literal(folded(f"  {which}", width), style="dim")])
    heads = ("score", *([HEAD] if grades else []), "95 % interval", "scored", "undef", "error", "skip", "pass")
    console.print(table_of({"metric": "name", **dict.fromkeys(heads, "number")}, lines))


async def follow(counts: Tally, console: Console) -> None:
    """Show progress until cancelled, and once more at the end."""
    if console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets")):
        await _follow_bar(counts, console)
    else:
        await _follow_lines(counts, console)


async def _follow_bar(counts: Tally, console: Console) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} scores · {task.fields[facts]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    started = time.monotonic()
    with Progress(*columns, console=console, transient=False) as progress:
        task = progress.add_task("", total=counts.expected, facts="")
        try:
            while True:
                progress.update(task, completed=counts.done, facts=_progress_facts(counts, started))
                await asyncio.sleep(_TICK)
        finally:
            progress.update(task, completed=counts.done, facts=_progress_facts(counts, started))


async def _follow_lines(counts: Tally, console: Console) -> None:
    started = time.monotonic()
    try:
        while True:
            await asyncio.sleep(_LINE_EVERY)
            console.print(_progress_line(counts, started), highlight=False)
    finally:
        console.print(_progress_line(counts, started), highlight=False)


def _progress_line(counts: Tally, started: float) -> str:
    return f"{counts.done}/{counts.expected} scores · {_progress_facts(counts, started)}"


def _progress_facts(counts: Tally, started: float) -> str:
    rate = counts.done / max(time.monotonic() - started, 1e-9)
    pace = f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"
    facts = [f"{counts.in_flight} cases under way", pace, f"{counts.errors} errors"]
    if counts.requests or counts.cost is None:
        facts.append(f"cost {cost(counts.cost)}")
    facts += counts.waits.lines()
    return " · ".join(facts)

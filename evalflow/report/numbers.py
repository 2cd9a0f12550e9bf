"""The numbers of runs as rows of a page's table: the value, its interval, the pass rate and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalflow.records import CASES
from evalflow.records.manifest import JudgeFacts, Manifest, MetricFacts
from evalflow.report.page import Bar, Cell, PageColumn, PageTable
from evalflow.report.wording import (
    bracketed,
    counted,
    interval,
    joined,
    metric_name,
    number,
    percent,
    plain_statistic,
    series_name,
    varying,
    who_scored,
)
from evalflow.summary.finding import is_corrected, judge_alone
from evalflow.summary.rows import SummaryRow

HEAD = "scale"
ABOUT = "The score on the metric's own scale"


def own_scale_cells(rows: Sequence[SummaryRow], metrics: Mapping[str, MetricFacts]) -> list[str]:
    """The cell of each row; empty if no row is of a metric with another scale than 0 to 1, so that none has a column.

    Only means have one: a figure or a share of passed cases has no grade.

    Example:
        >>> row = SummaryRow("rag", "bot", "tone", "mean", "judge", None, 8, 8, 0, 0, 0, value=0.75)
        >>> tone = {"declared": "tone", "judge": "judge", "asks": True, "embeds": False, "bounded": True, "key": "tone"}
        >>> about = MetricFacts(**tone, description="", version=1, prompt_sha256=None, figures=None, scale=(1, 5))
        >>> own_scale_cells([row], {"tone": about})
        ['4.0/5']
    """
    cells = [_cell(row, metrics.get(row.metric)) for row in rows]
    return [cell or "–" for cell in cells] if any(cells) else []


def own_scale_of_runs(rows: Sequence[SummaryRow], manifests: Mapping[str, Manifest]) -> list[str]:
    """Like `own_scale_cells`, for rows of several runs, whose scales may differ; `manifests` are by the run's name."""
    cells = [own_scale_cells([row], manifests[row.run].metrics) for row in rows]
    return [cell[0] if cell else "–" for cell in cells] if any(cells) else []


def _cell(row: SummaryRow, about: MetricFacts | None) -> str:
    if about is None or about.scale is None or row.statistic != "mean" or row.value is None:
        return ""
    low, high = about.scale
    grade = low + row.value * (high - low)
    return f"{grade:.1f}/{high:g}" if low in (0, 1) else f"{grade:.1f} in {low:g} to {high:g}"


NUMBERS = (
    PageColumn("Score", "num value"),
    PageColumn("95 % interval", "interval"),
    PageColumn("Pass rate", "num"),
    PageColumn("Scored", "num", "Cells with a score, of all"),
)
SCALE = PageColumn(HEAD.capitalize(), "num", ABOUT)
"""The column after the score if a metric has a scale of its own."""
_ACROSS = 5  # metrics side by side


@dataclass(frozen=True, slots=True)
class TagTables:
    """The numbers of tags: how many tags there are, in words, and tables of some of the metrics each."""

    n: str
    tables: Sequence[PageTable]


def headline_of_each(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """The first row of each metric, dataset, target, judge and run: its mean, or the first of its figures."""
    headlines: dict[tuple[str | None, ...], SummaryRow] = {}
    for row in rows:
        headlines.setdefault((row.run, *row.series), row)
    return list(headlines.values())


def numbers_table(
    rows: Sequence[SummaryRow], directions: Mapping[str, str], metrics: Mapping[str, MetricFacts]
) -> PageTable:
    """The numbers of a run: a row for each metric and figure over all classes."""
    parts = varying(rows)
    shown = [row for row in rows if "[" not in row.statistic]
    grades = own_scale_cells(shown, metrics)
    cells: list[Sequence[Cell]] = []
    for place, row in enumerate(shown):
        lower = "lower is better" if directions.get(row.metric) == "lower_is_better" else ""
        name = metric_name(row.metric)
        statistic = "" if row.metric == CASES or row.statistic == "mean" else row.statistic
        below = joined(plain_statistic(statistic), lower, series_name(row, parts))
        value, *others = number_cells(row)
        cells.append(((name, below) if below else name, value, *grades[place : place + 1], *others))
    own = [SCALE] if grades else []
    return PageTable([PageColumn("Metric"), NUMBERS[0], *own, *NUMBERS[1:]], cells)


def tag_tables(rows: Sequence[SummaryRow]) -> TagTables | None:
    """The headline numbers of each tag: a row for each tag, a column for each metric; None without tags."""
    own = headline_of_each_tag(rows)
    if not own:
        return None
    parts = varying(own)
    metrics = sorted(dict.fromkeys(row.metric for row in own), key=lambda metric: metric != CASES)
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    counts: dict[tuple[str, str], int] = {}
    for row in own:
        key = (row.tag or "", series_name(row, parts))
        cells.setdefault(key, {})[row.metric] = (number(row.value), interval(row.ci_low, row.ci_high))
        counts[key] = max(counts.get(key, 0), row.n)
    tables: list[PageTable] = []
    for start in range(0, len(metrics), _ACROSS):
        shown = metrics[start : start + _ACROSS]
        columns = [
            PageColumn("Tag"),
            PageColumn("n", "num"),
            *(PageColumn(metric_name(one), "num value") for one in shown),
        ]
        lines: list[Sequence[Cell]] = [
            ((tag, series) if series else tag, f"{counts[tag, series]:,}", *(by_metric.get(one, "–") for one in shown))
            for (tag, series), by_metric in cells.items()
        ]
        tables.append(PageTable(columns, lines))
    return TagTables(counted(len({tag for tag, _ in cells}), "tag"), tables)


def headline_of_each_tag(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """`headline_of_each` of the rows of each tag."""
    by_tag: dict[str, list[SummaryRow]] = {}
    for row in rows:
        by_tag.setdefault(row.tag or "", []).append(row)
    return [row for tag in sorted(by_tag) for row in headline_of_each(by_tag[tag])]


def number_cells(row: SummaryRow) -> list[Cell]:
    """The cells of NUMBERS for a row of the summary. Below a number corrected by labels stands the judge's."""
    alone, who = judge_alone(row), who_scored(row.judge)
    by = f"by {counted(row.n_labels, 'label')}" if row.n_labels else ""
    value, rate = [number(row.value)], [percent(row.pass_rate)]
    if is_corrected(row, "value"):
        value += [by, f"{who} alone {number(alone.value)}{bracketed(alone.ci_low, alone.ci_high)}"]
    elif by:
        value += [f"{by.removeprefix('by ')}, not corrected"]
    if row.pass_rate_low is not None:
        rate.append(interval(row.pass_rate_low, row.pass_rate_high, percent))
    if is_corrected(row, "pass_rate"):
        rate.append(f"{who} alone {percent(alone.pass_rate)}")
    states = ", ".join(f"{n:,} {state}" for state, n in row.states.items() if n and state != "scored")
    scored = f"{row.n_scored:,} of {row.n:,}" if states else f"{row.n_scored:,}"
    return [tuple(value), Bar(row.value, row.ci_low, row.ci_high), tuple(rate), (scored, states)]


def judge_cell(judge: str | None, about: JudgeFacts | None, metric: MetricFacts | None) -> tuple[str, ...]:
    """The judge of a metric: its name, its kind, and whether it is calibrated for the metric."""
    if judge is None or about is None:
        return (judge or "none needed",)
    own = ["judges its own answers"] if about.judges_itself else []
    return (judge, judge_kind(about), calibration_in_words(metric), *own)


def judge_kind(about: JudgeFacts) -> str:
    """The kind of judge: LLM, panel, cascade, or "not an LLM"."""
    if about.kind:
        return f"{about.kind} of {counted(len(about.members), 'judge')}"
    return "LLM" if about.nature.startswith("LLM ") else "not an LLM"


def calibration_in_words(metric: MetricFacts | None) -> str:
    """Whether a metric's judge is calibrated, such as `calibrated by 60 labels`."""
    certificate = metric.certificate if metric else None
    if certificate is None:
        return "not calibrated"
    if certificate["stale"]:
        return "not calibrated since it changed"
    from evalflow.summary.agreement import beyond_chance  # late: few runs have a certificate

    labels = counted(certificate["n_labels"], "label")
    agrees = beyond_chance(certificate["agreement"])
    return f"calibrated by {labels}" if agrees else f"{labels}, but no agreement shown"


def varies(rows: Sequence[SummaryRow], part: str) -> bool:
    """Whether rows differ in a part, such as the dataset."""
    return len({getattr(row, part) for row in rows}) > 1

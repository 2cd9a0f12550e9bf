"""The numbers of runs as rows of a page's table: the number that holds, its interval, the pass rate and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalflow.records.manifest import JudgeFacts, MetricFacts
from evalflow.report.page import Bar, Cell, PageColumn
from evalflow.report.wording import bracketed, counted, interval, number, percent
from evalflow.summary.finding import is_corrected, judge_alone

NUMBERS = (
    PageColumn("Value", "num value"),
    PageColumn("95 % interval", "interval"),
    PageColumn("Pass rate", "num"),
    PageColumn("Scored", "num", "Cells with a score, of all"),
)
_STATES = ("undefined", "error", "skipped")


def headline_of_each(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first row of each metric, dataset, target, judge and run: its mean, or the first of its figures."""
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(part) for part in ("run", "metric", "dataset", "target", "judge")), row)
    return list(found.values())


def number_cells(row: Mapping[str, Any]) -> list[Cell]:
    """The cells of NUMBERS for a row of the summary; below a number that labels correct is the judge's."""
    alone = judge_alone(row)
    by = f"by {counted(row['n_labels'], 'label')}" if row["n_labels"] else ""
    value, rate = [number(row["value"])], [percent(row["pass_rate"])]
    if is_corrected(row, "value"):
        value += [by, f"judge alone {number(alone['value'])}{bracketed(alone['ci_low'], alone['ci_high'])}"]
    elif by:
        value += [f"{by.removeprefix('by ')}, not corrected"]
    if row["pass_rate_low"] is not None:
        rate.append(interval(row["pass_rate_low"], row["pass_rate_high"], percent))
    if is_corrected(row, "pass_rate"):
        rate.append(f"judge alone {percent(alone['pass_rate'])}")
    states = ", ".join(f"{row[f'n_{state}']:,} {state}" for state in _STATES if row[f"n_{state}"])
    scored = f"{row['n_scored']:,} of {row['n']:,}" if states else f"{row['n_scored']:,}"
    return [tuple(value), Bar(row["value"], row["ci_low"], row["ci_high"]), tuple(rate), (scored, states)]


def judge_cell(judge: str | None, about: JudgeFacts | None, metric: MetricFacts | None) -> tuple[str, ...]:
    """The judge of a metric: its name, its kind, and whether it is calibrated for the metric."""
    if judge is None or about is None:
        return (judge or "none needed",)
    own = ["judges its own answers"] if about.judges_itself else []
    return (judge, judge_kind(about), calibration_in_words(metric), *own)


def judge_kind(about: JudgeFacts) -> str:
    """What a judge is: LLM, panel, cascade, or else that it is not an LLM."""
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


def varies(rows: Sequence[Mapping[str, Any]], part: str) -> bool:
    """Whether rows differ in a part, such as the dataset."""
    return len({row[part] for row in rows}) > 1

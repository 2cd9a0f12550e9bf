"""A finished run, as reports use it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalflow.config.schema import MetricConfig
from evalflow.lazy import pl
from evalflow.records import Case
from evalflow.records.manifest import Manifest, MetricFacts
from evalflow.report.results_csv import AnswerOf, CaseKey
from evalflow.summary.rows import Detail, GateOutcome

if TYPE_CHECKING:
    from evalflow.report.calibration import Calibration


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A finished run for reports: the contents of scores.parquet, summary.parquet and summary.json, and its cases.

    `gates` are as in `decide`; `categorising` names the metrics that classify cases; `cases` is iterated at most once.
    `kept` reads some of the cases from a cases.jsonl that need not be written again; None if it must be written.
    """

    scores: pl.LazyFrame
    summary: pl.DataFrame
    details: Sequence[Detail]
    gates: Sequence[GateOutcome]
    manifest: Manifest
    metrics: Mapping[str, MetricConfig]
    cases: Iterable[Case]
    answers: AnswerOf
    kept: Callable[[Collection[CaseKey]], Iterable[Case]] | None = None
    calibration: Calibration | None = None
    max_error_rate: float = 0.0
    categorising: Collection[str] = ()


def with_titles(run: Reported) -> Reported:
    """The run for display: metrics have their titles instead of their names."""
    titles = run.manifest.titles
    if not titles:
        return run
    shown, calibration = pl.col("metric").replace(titles), run.calibration
    labelled = [
        replace(row, metric=titles.get(row.metric, row.metric)) for row in (calibration.rows if calibration else ())
    ]
    return replace(
        run,
        scores=run.scores.with_columns(shown),
        summary=run.summary.with_columns(shown),
        details=[with_title(detail, titles) for detail in run.details],
        gates=[_gate_with_title(gate, titles) for gate in run.gates],
        metrics={titles.get(name, name): config for name, config in run.metrics.items()},
        calibration=replace(calibration, rows=labelled, people=calibration.people.with_columns(shown))
        if calibration
        else None,
    )


def _gate_with_title(gate: GateOutcome, titles: Mapping[str, str]) -> GateOutcome:
    """A gate with the title of its value's metric, in its name and in the words about it."""
    name, metric = gate["name"], gate["of_metric"]
    if metric is None or metric not in titles:
        return gate
    title = titles[metric]
    shown = f"{title}{name.removeprefix(metric)}" if name.startswith(metric) else name
    of = f"{title}{gate['of'].removeprefix(metric)}" if gate["metric"].startswith("tag:") else gate["of"]
    message = f"{shown}{gate['message'].removeprefix(name)}".replace(f"({gate['of']})", f"({of})", 1)
    return {**gate, "of_metric": title, "name": shown, "of": of, "message": message}


def facts_by_title(manifest: Manifest) -> dict[str, MetricFacts]:
    """The facts of a run's metrics, with the same names as in `with_titles`."""
    titles = manifest.titles
    return {titles.get(name, name): facts for name, facts in manifest.metrics.items()}


def with_title(row: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, Any]:
    """A row of a table or a detail, with its metric's title instead of the name."""
    return {key: titles.get(value, value) if key == "metric" else value for key, value in row.items()}

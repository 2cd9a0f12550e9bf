"""Files of a whole sweep: its run.json, its table over all runs, its leaderboards and its report."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from evalflow.app.core.changed import obstacles, what_changed
from evalflow.app.core.comparison import ComparisonOptions, attributed, compare_two, test_orders
from evalflow.app.core.labels import labelled_cases
from evalflow.app.core.result_rules import RunMetric
from evalflow.app.core.saved import SavedRun
from evalflow.config.schema import MetricConfig
from evalflow.engine.folder import RunFolder
from evalflow.engine.manifest import now
from evalflow.lazy import pl
from evalflow.paths import private_folder
from evalflow.records import CASES
from evalflow.records.manifest import SCHEMA, Manifest, SweepManifest
from evalflow.report.sweep import agreement, write_sweep_report
from evalflow.summary.compare import (
    ComparisonRow,
    Traits,
)
from evalflow.summary.families import adjusted
from evalflow.summary.ranking import CommonCases, common_cases, rank_by_mean
from evalflow.summary.summarise import Summary, summarise_metrics, write_summary
from evalflow.summary.verdicts import reversed_verdict


def open_sweep(folder: Path, run_id: str, overrides: Sequence[str]) -> None:
    """Write the sweep's run.json before its first job."""
    private_folder(folder)
    begun: dict[str, Any] = {"schema": SCHEMA, "run_id": run_id, "status": "running", "started_at": now()}
    manifest = SweepManifest(**begun, finished_at=None, overrides=list(overrides), jobs=[])
    RunFolder(folder).write_manifest(manifest)


def write_sweep(
    folder: Path, jobs: Sequence[Path], failures: Mapping[str, str] | None = None
) -> tuple[Summary, pl.DataFrame]:
    """Write the sweep's tables and report from the files of its runs; `failures` are why runs ended early, by folder.

    Returns the runs' summaries, with the folder's name in the first column, `run`, and the leaderboards as details; and
    the agreement of the judges, per metric and pair of judges.
    """
    runs = [(job.name, RunFolder(job).read_manifest(), pl.read_parquet(job / "summary.parquet")) for job in jobs]
    summary = pl.concat([frame.select(pl.lit(name).alias("run"), pl.all()) for name, _, frame in runs])
    agreed = agreement([pl.scan_parquet(RunFolder(job).scores) for job in jobs])
    boards = leaderboards([SavedRun(RunFolder(folder / name), about, name) for name, about, _ in runs], summary)
    found = Summary(summary, boards)
    write_summary(found, folder)
    opened = RunFolder(folder).read_sweep()
    assert opened is not None
    failed = opened.failed if failures is None else failures
    ended = {"status": "failed" if failed else "done", "finished_at": now(), "jobs": [job.name for job in jobs]}
    manifest = opened.model_copy(update={**ended, "failed": failed, **_totals(runs)})
    calibration = RunFolder(folder).calibration
    choice = json.loads(calibration.read_text(encoding="utf-8")) if calibration.is_file() else None
    write_sweep_report(
        folder / "report.html", manifest=manifest, runs=runs, agreement=agreed, boards=boards, choice=choice
    )
    RunFolder(folder).write_manifest(manifest)
    return found, agreed


def _totals(runs: Sequence[tuple[str, Manifest, pl.DataFrame]]) -> dict[str, Any]:
    """Requests, tokens, cost and time of all runs; None if a run's value is unknown."""
    totals: dict[str, Any] = {}
    for key in ("requests", "cached", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "seconds"):
        values = [value for _, manifest, _ in runs if (value := getattr(manifest, key)) is not None]
        totals[key] = sum(values) if len(values) == len(runs) else None
    return totals


_BOARD = ("dataset", "metric", "judge")
_SHOWN = ("run", "target", "value", "ci_low", "ci_high", "n", "n_scored")
_RATE = {"value": "pass_rate", "ci_low": "pass_rate_low", "ci_high": "pass_rate_high"}


def leaderboards(runs: Sequence[SavedRun], summary: pl.DataFrame) -> list[dict[str, Any]]:
    """A board for each dataset, metric, judge and statistic that several runs have, as details of the sweep's summary.

    The statistics are the mean, the pass rate and the figures over all classes; equal statistics share one board. The
    verdicts and p-values are those that `compare` gives for the sweep. Runs are ranked by their values on the cases
    that all of them have scored; runs that cannot be compared with the ranked ones follow without a rank. People's
    labels, of `cases_labelled` cases, are not used. `summary` has the runs' summaries, with the column `run` in front.
    """
    by_name = {run.name: run for run in runs}
    pairs = [(a, b, what_changed(a, b)) for a, b in combinations(runs, 2)]
    options = ComparisonOptions()
    rows = [
        row
        for a, b, changed in pairs
        if not obstacles(changed)
        for row in attributed(compare_two(a, b, options)[0], changed)
    ]
    differences = adjusted(rows, options.adjust, test_orders(runs))
    found: list[dict[str, Any]] = []
    labelled = labelled_cases(runs)
    metrics = summary.filter(pl.col("tag").is_null() & (pl.col("metric") != CASES))
    for key, rows in metrics.group_by(_BOARD, maintain_order=True):
        about: dict[str, Any] = dict(zip(_BOARD, key, strict=True))
        names: list[str] = rows["run"].unique(maintain_order=True).to_list()
        if len(names) < 2:
            continue
        own = [row for row in differences if (row.dataset, row.metric) == (about["dataset"], about["metric"])]
        ranked = _comparable(names, {row.pair for row in own})
        common = next(common_cases({name: _scores(by_name[name], about) for name in ranked}), None) if ranked else None
        cases = {"cases": common.cases.height if common else 0, "cases_left_out": common.all_left_out if common else 0}
        shown = rows
        if common and common.all_left_out:
            shown = pl.concat([_on(by_name[name], common.cases.select("case_id"), about) for name in ranked])
        ranges = _rank_ranges(common, by_name[names[0]].traits.get(about["metric"], Traits()))
        known: set[str] = set()
        for statistic, standing in _standings(rows):
            if statistic in known or standing["run"].n_unique() < standing.height or standing.height < 2:
                continue
            compared = [row for row in own if statistic in (row.statistic, *row.also)]
            also = [name for name in (compared[0].also if compared else ()) if all(name in r.also for r in compared)]
            known.update(also)
            values = dict(_standings(shown)).get(statistic)
            board = _ranked(standing, values, ranked, compared, ranges.get(statistic, {}))
            people = max(labelled.get((about["dataset"], about["metric"]), {"": 0}).values())
            counts = {**cases, "cases_labelled": people}
            found.append({**about, "statistic": statistic, "also": also, **counts, "leaderboard": board})
    return found


def _comparable(names: Sequence[str], pairs: Collection[tuple[str, str]]) -> list[str]:
    """The largest group of runs in which every two can be compared; the first of several equally large ones."""
    best: list[str] = []
    for i, first in enumerate(names):
        group = [first]
        for name in names[i + 1 :]:
            if all((other, name) in pairs for other in group):
                group.append(name)
        best = max(best, group, key=len)
    return best if len(best) > 1 else []


def _rank_ranges(common: CommonCases | None, traits: Traits) -> dict[str, dict[str, tuple[int, int]]]:
    """The ranks that each run may have, by statistic; for means and pass rates."""
    if common is None or not common.cases.height:
        return {}
    return {
        ranking.by: {row.run: (row.rank_low, row.rank_high) for row in ranking.rows}
        for ranking in rank_by_mean(common, traits)
    }


def _scores(run: SavedRun, about: Mapping[str, Any]) -> pl.LazyFrame:
    return run.scores().filter((pl.col("dataset") == about["dataset"]) & (pl.col("metric") == about["metric"]))


def _on(run: SavedRun, cases: pl.DataFrame, about: Mapping[str, Any]) -> pl.DataFrame:
    traits = run.traits[about["metric"]]
    config = MetricConfig(kind="", direction="higher_is_better" if traits.higher_is_better else "lower_is_better")
    measured = {about["metric"]: RunMetric(config, traits.bounded, traits.figures)}
    scores = _scores(run, about).join(cases.lazy(), on="case_id", how="semi")
    rows = summarise_metrics(scores, measured, run.manifest.config["seed"]).frame
    return rows.filter(pl.col("tag").is_null()).select(pl.lit(run.name).alias("run"), pl.all())


def _standings(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each statistic that have a value; the rows of the mean have the pass rate."""
    figures = rows.filter(~pl.col("statistic").str.contains("[", literal=True) & (pl.col("statistic") != "mean"))
    means = rows.filter(pl.col("statistic") == "mean")
    yield "mean", means.drop_nulls("value").select(_SHOWN)
    rates = means.drop_nulls("pass_rate").with_columns(**{name: pl.col(rate) for name, rate in _RATE.items()})
    yield "pass_rate", rates.select(_SHOWN)
    for (statistic,), own in figures.drop_nulls("value").group_by("statistic", maintain_order=True):
        yield str(statistic), own.select(_SHOWN)


def _ranked(
    standing: pl.DataFrame, values: pl.DataFrame | None, ranked: Sequence[str], compared: Sequence[ComparisonRow],
    ranges: Mapping[str, tuple[int, int]],
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows with p_adjusted and verdict: the ranked ones, the best first, then those that are not comparable.

    `ranges` are the ranks that each run may have; none for figures. The first is best unless another was found better
    on the cases that the two share; the verdict of each other is that of its comparison with the first.
    """
    rows = {row["run"]: row for row in standing.to_dicts()}
    known = {} if values is None else {row["run"]: row for row in values.to_dicts() if row["run"] in ranked}
    pairs = {row.pair: row for row in compared}
    higher = not compared or compared[0].higher_is_better
    order = sorted((name for name in rows if name in known), key=lambda name: known[name]["value"], reverse=higher)
    order = order if len(order) > 1 else []
    board: list[dict[str, Any]] = []
    for name in order:
        own = {key: known[name][key] for key in ("value", "ci_low", "ci_high")}
        p, verdict = _against(pairs, order[0], name) if name != order[0] else (None, "best")
        low, high = ranges.get(name, (None, None))
        board.append({**rows[name], **own, "p_adjusted": p, "verdict": verdict, "rank_low": low, "rank_high": high})
    if any(row["verdict"] == "better" for row in board):
        board[0]["verdict"] = "cannot_tell"
    rest = [row for name, row in rows.items() if name not in order]
    none = {"p_adjusted": None, "verdict": "not_comparable", "rank_low": None, "rank_high": None}
    return [*board, *(row | none for row in rest)]


def _against(pairs: Mapping[tuple[str, str], ComparisonRow], first: str, other: str) -> tuple[float | None, str]:
    row = pairs.get((first, other))
    if row is not None:
        return row.p_adjusted, row.verdict
    row = pairs.get((other, first))
    return (None, "not_comparable") if row is None else (row.p_adjusted, reversed_verdict(row.verdict))

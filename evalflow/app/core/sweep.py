"""Files of a whole sweep: its run.json, its table over all runs, its leaderboards and its report."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from evalflow.app.core.comparison import NO_LABELS, ComparisonOptions, compare_pairs
from evalflow.app.core.labels import ComparedLabels, labels_to_compare
from evalflow.app.core.result_rules import RunMetric
from evalflow.app.core.saved import SavedRun
from evalflow.config.schema import MetricConfig
from evalflow.engine.bookkeeping import now
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from evalflow.lazy import pl
from evalflow.paths import private_folder
from evalflow.records import CASES
from evalflow.records.manifest import SCHEMA, Manifest, SweepManifest
from evalflow.report.sweep import JudgePair, agreement, write_sweep_report
from evalflow.summary.compare import ComparisonRow
from evalflow.summary.pairing import Traits
from evalflow.summary.passing_cases import passing_cases, passing_metrics
from evalflow.summary.ranking import BoardPlace, CommonCases, Leaderboard, Ranking, common_cases, rank_by_mean
from evalflow.summary.summarise import Summary, summarise_metrics, write_summary
from evalflow.summary.verdicts import Standing, of_first, reversed_verdict

log = logging.getLogger("evalflow")
_BOARD = ("dataset", "metric", "judge")
_RAW = ("raw_value", "raw_low", "raw_high")
_VALUE = ("value", "ci_low", "ci_high")
_SHOWN = ("run", "target", *_VALUE, *_RAW, "n", "n_scored")
_RATE = {
    "value": "pass_rate",
    "ci_low": "pass_rate_low",
    "ci_high": "pass_rate_high",
    "raw_value": "raw_pass_rate",
    "raw_low": "raw_pass_rate_low",
    "raw_high": "raw_pass_rate_high",
}


def leaderboards(runs: Sequence[SavedRun], summary: pl.DataFrame) -> list[Leaderboard]:
    """A board for each dataset, metric, judge and statistic that several runs have, as details of the sweep's summary.

    The statistics are the mean, the pass rate and the figures over all classes; equal statistics share one board. The
    verdicts and p-values are those that `compare` gives for the sweep. Runs are ranked by their values on the cases
    that all of them have scored, corrected by the labels of `n_labels` cases of each run; or by the judge alone, with
    the reason `uncorrected` if people labelled some. Runs that cannot be compared with the ranked ones follow without a
    rank. `summary` has the runs' summaries, with the column `run` in front.
    """
    labels = _labels(runs)
    differences = [row for row in _differences(runs, labels) if row.attribution == "answers"]
    all_boards: list[Leaderboard] = []
    for key, rows in summary.filter(pl.col("tag").is_null()).group_by(_BOARD, maintain_order=True):
        about: dict[str, Any] = dict(zip(_BOARD, key, strict=True))
        if rows["run"].n_unique() > 1:
            own = [row for row in differences if (row.dataset, row.metric) == (about["dataset"], about["metric"])]
            all_boards += _boards(about, rows, own, {run.name: run for run in runs}, labels)
    return all_boards


def _labels(runs: Sequence[SavedRun]) -> ComparedLabels:
    """Return the labels of the runs; none, with a warning, if some are invalid."""
    try:
        return labels_to_compare(runs, None)
    except UserError as error:
        log.warning("the leaderboards use no labels: %s", error)
        return NO_LABELS


def _differences(runs: Sequence[SavedRun], labels: ComparedLabels) -> Sequence[ComparisonRow]:
    pairs = list(combinations(runs, 2))
    try:
        return compare_pairs(pairs, ComparisonOptions(lists_cases=False), labels).rows if pairs else []
    except UserError:
        return []  # nothing can be compared


def _boards(
    about: Mapping[str, Any],
    rows: pl.DataFrame,
    own: Sequence[ComparisonRow],
    runs: Mapping[str, SavedRun],
    labels: ComparedLabels,
) -> Iterator[Leaderboard]:
    """The boards of one dataset, metric and judge; `own` are its differences."""
    names: list[str] = rows["run"].unique(maintain_order=True).to_list()
    ranked = _comparable(names, {row.pair for row in own})
    traits = runs[names[0]].traits.get(about["metric"], Traits())
    scores = {name: _scores(runs[name], about) for name in ranked}
    common = _common(scores, {name: runs[name] for name in ranked}, labels, about["metric"])
    cases = (common.cases.height, common.all_left_out) if common else (0, 0)
    rankings: dict[str, Ranking] = {}
    if common is not None and common.cases.height:
        unusable = labels.unusable_in(*(runs[name] for name in ranked)).get((about["dataset"], about["metric"]), "")
        seed = runs[ranked[-1]].manifest.config["seed"]
        rankings = {one.by: one for one in rank_by_mean(common, traits, seed=seed, unusable=unusable)}
    shown = rows
    if common and common.all_left_out:
        every = [_on(runs[name], scores[name], common.cases.select("case_id"), about) for name in ranked]
        shown = pl.concat(every, how="diagonal_relaxed")
    known: set[str] = set()
    for statistic, standing in _standings(rows):
        if statistic in known or standing["run"].n_unique() < standing.height or standing.height < 2:
            continue
        compared = [row for row in own if statistic in (row.statistic, *row.also)]
        also = [name for name in (compared[0].also if compared else ()) if all(name in row.also for row in compared)]
        known.update(also)
        values = dict(_standings(shown)).get(statistic)
        ranking = rankings.get(statistic)
        board = _Board(statistic, compared, ranked, ranking)
        labelled, why = (ranking.labelled, ranking.uncorrected) if ranking else (0, "")
        if ranking is None or about["metric"] == CASES:  # a ranking of whole cases knows no labels
            labelled = max((row.labelled for row in compared), default=0)
            why = next((row.uncorrected for row in compared if row.uncorrected), "")
        of = (about["dataset"], about["metric"], about["judge"])
        yield Leaderboard(*of, statistic, also, *cases, labelled, why, board.places(standing, values))


def _common(
    scores: Mapping[str, pl.LazyFrame], runs: Mapping[str, SavedRun], labels: ComparedLabels, metric: str
) -> CommonCases | None:
    if not scores:
        return None
    return next(common_cases(scores, {} if metric == CASES else labels.people_of(runs)), None)


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


def _scores(run: SavedRun, about: Mapping[str, Any]) -> pl.LazyFrame:
    own = run.scores().filter(pl.col("dataset") == about["dataset"])
    if about["metric"] == CASES:
        return passing_cases(own, passing_metrics(own)).lazy()
    return own.filter(pl.col("metric") == about["metric"])


def _on(run: SavedRun, scores: pl.LazyFrame, cases: pl.DataFrame, about: Mapping[str, Any]) -> pl.DataFrame:
    traits = run.traits.get(about["metric"], Traits(bounded=True))
    config = MetricConfig(kind="", direction="higher_is_better" if traits.higher_is_better else "lower_is_better")
    measured = {about["metric"]: RunMetric(config, traits.bounded, traits.figures)}
    rows = summarise_metrics(
        scores.join(cases.lazy(), on="case_id", how="semi"), measured, run.manifest.config["seed"]
    ).frame
    if about["metric"] == CASES:
        rows = rows.with_columns(statistic=pl.lit("pass_rate"))
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


@dataclass(frozen=True, slots=True)
class _Board:
    """One statistic of several runs: their differences, which of them are ranked, and their ranks for a mean or rate.

    Ranked runs have either all their values corrected by labels, or none.
    """

    statistic: str
    compared: Sequence[ComparisonRow]
    ranked: Sequence[str]
    ranking: Ranking | None

    def places(self, standing: pl.DataFrame, values: pl.DataFrame | None) -> list[BoardPlace]:
        """The places with p_adjusted and verdict: the ranked ones, the best first, then those that are not comparable.

        The verdict of each but the first is that of its comparison with the first, on the cases that the two share.
        """
        rows = {row.run: row for row in _places(standing)}
        known = {row.run: self._value(row) for row in _places(values)} if values is not None else {}
        ranks = {row.run: row for row in self.ranking.rows} if self.ranking else {}
        higher = not self.compared or self.compared[0].higher_is_better
        own = [name for name in rows if name in known and name in self.ranked]
        order = sorted(own, key=lambda name: known[name]["value"], reverse=higher) if len(own) > 1 else []
        comparisons = {name: self._against(order[0], name) for name in order[1:]}
        comparisons |= {name: (None, of_first([verdict for _, verdict in comparisons.values()])) for name in order[:1]}
        board: list[BoardPlace] = []
        for name in order:
            (p, verdict), rank = comparisons[name], ranks.get(name)
            ends = {"rank_low": rank.rank_low, "rank_high": rank.rank_high} if rank else {}
            board.append(replace(rows[name], **known[name], p_adjusted=p, verdict=verdict, **ends))
        return [*board, *(row for name, row in rows.items() if name not in order)]

    def _value(self, row: BoardPlace) -> dict[str, Any]:
        """A run's value, with the judge's beside it if labels correct all runs; else the judge's alone."""
        ranks = {one.run: one for one in self.ranking.rows} if self.ranking else {}
        own = ranks.get(row.run)
        if own is not None and own.raw is not None:
            return dict(zip((*_VALUE, *_RAW), (own.value, own.low, own.high, *own.raw), strict=True))
        alone = row.value if row.raw_value is None else row.raw_value
        ends = (row.ci_low, row.ci_high) if row.raw_value is None else (row.raw_low, row.raw_high)
        return dict(zip((*_VALUE, *_RAW), (alone, *ends, None, None, None), strict=True))

    def _against(self, first: str, other: str) -> tuple[float | None, Standing]:
        pairs = {row.pair: row for row in self.compared}
        row = pairs.get((first, other))
        if row is not None:
            return row.p_adjusted, row.verdict
        row = pairs.get((other, first))
        return (None, "not_comparable") if row is None else (row.p_adjusted, reversed_verdict(row.verdict))


def _places(rows: pl.DataFrame) -> list[BoardPlace]:
    return [BoardPlace(*row) for row in rows.iter_rows()]


def open_sweep(folder: Path, run_id: str, overrides: Sequence[str]) -> None:
    """Write the sweep's run.json before its first job."""
    private_folder(folder)
    begun: dict[str, Any] = {"schema": SCHEMA, "run_id": run_id, "status": "running", "started_at": now()}
    manifest = SweepManifest(**begun, finished_at=None, overrides=list(overrides), jobs=[])
    RunFolder(folder).write_manifest(manifest)


def write_sweep(
    folder: Path, jobs: Sequence[Path], failures: Mapping[str, str] | None = None
) -> tuple[pl.DataFrame, list[JudgePair], list[Leaderboard]]:
    """Write the sweep's tables and report from the files of its runs; `failures` are why runs ended early, by folder.

    Returns the runs' summaries, with the folder's name in the first column, `run`; the agreement of the judges, per
    metric and pair of judges; and the leaderboards, which are the details of the sweep's summary.
    """
    runs = [(job.name, RunFolder(job).read_manifest(), pl.read_parquet(job / "summary.parquet")) for job in jobs]
    summary = pl.concat([frame.select(pl.lit(name).alias("run"), pl.all()) for name, _, frame in runs])
    agreed = agreement([pl.scan_parquet(RunFolder(job).scores) for job in jobs])
    boards = leaderboards([SavedRun(RunFolder(folder / name), about, name) for name, about, _ in runs], summary)
    write_summary(Summary(summary, [asdict(board) for board in boards]), folder)
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
    return summary, agreed, boards


def _totals(runs: Sequence[tuple[str, Manifest, pl.DataFrame]]) -> dict[str, Any]:
    """Requests, tokens, cost and time of all runs; None if a run's value is unknown."""
    totals: dict[str, Any] = {}
    for key in ("requests", "cached", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "seconds"):
        values = [value for _, manifest, _ in runs if (value := getattr(manifest, key)) is not None]
        totals[key] = sum(values) if len(values) == len(runs) else None
    for key in ("provider_cached", "provider_saved_usd"):
        known = [value for _, manifest, _ in runs if (value := getattr(manifest, key)) is not None]
        totals |= {key: sum(known)} if known else {}
    return totals

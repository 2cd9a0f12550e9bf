"""Comparison of runs: comparable runs, the differences between two, and a metric's history over many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evalflow.addons.studio.store.scores import common_cases
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.pair_reviews import preference_between
from evalflow.addons.studio.work.runs import MAX_PAGE, Run, get_run, list_runs, run_row
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.titles import titles_of
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.changed import (
    KINDS,
    Kind,
    Obstacle,
    not_allowed,
    obstacles,
    other_versions,
    unlike_metrics,
    what_changed,
)
from evalflow.app.core.comparison import ComparisonOptions, compare_labelled
from evalflow.app.core.labels import labels_to_compare
from evalflow.app.core.ranking import rank_runs, ranked_items
from evalflow.app.core.rederive import MetricInRun
from evalflow.app.core.saved import SavedRun, find_scored
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.records import CASES
from evalflow.records.manifest import Manifest
from evalflow.report.wording import without_means_of_figures
from evalflow.summary.case_changes import CaseChanges, changed_cells
from evalflow.summary.gates import parse_condition
from evalflow.summary.pairing import pair_scores
from evalflow.summary.rows import SummaryRow
from evalflow.summary.verdicts import Condition, overall

if TYPE_CHECKING:
    from evalflow.report.comparison import Comparison
    from evalflow.report.ranking import RankingPage


@dataclass(frozen=True, slots=True)
class ComparableRun:
    """A candidate for a comparison. `obstacles`: reasons against it that are known without reading the cases."""

    run: Run
    obstacles: Sequence[Obstacle]


@requires("read")
def scored_runs(space: Workspace) -> list[Run]:
    """The latest runs with results, newest first."""
    return [run for run in list_runs(space, limit=MAX_PAGE).items if run.metrics]


@requires("read")
def candidates(space: Workspace, run_id: str) -> list[ComparableRun]:
    """The runs that share a dataset and a metric with this one: those without obstacles first, then newest first."""
    run = get_run(space, run_id)
    scored = scored_of(run)
    others = (other for other in scored_runs(space) if other.run_id != run_id and share_scores(run, other))
    comparable = [candidate(other, scored) for other in others]
    return sorted(comparable, key=lambda candidate: bool(candidate.obstacles))


@requires("read")
def whole_runs(space: Workspace, bot: str) -> list[Run]:
    """The latest runs of a bot with results of all cases or of a random sample, newest first."""
    return [run for run in scored_runs(space) if run.bot == bot and not run.taken.is_part]


def candidate(other: Run, scored: SavedRun) -> ComparableRun:
    """A run with results as a candidate, with the obstacles to comparing it."""
    try:
        return ComparableRun(other, obstacles(what_changed(scored_of(other), scored, declared_only=True)))
    except EvalflowError as error:
        return ComparableRun(other, [Obstacle("cases", f"run {other.run_id} cannot be read: {error}")])


def share_scores(one: Run, other: Run) -> bool:
    """Whether two runs with results share a dataset and a metric."""
    return all(_names(one, what) & _names(other, what) for what in ("metrics", "datasets"))


@requires("read")
@takes_turn
def compare_runs(space: Workspace, a: str, b: str, how: ComparisonOptions | None = None) -> Comparison:
    """Compare run B with run A like the command `compare`, without writing files."""
    pair = _pair(space, a, b)
    how = replace(how or ComparisonOptions(), allow_option="allow=")
    comparison = compare_labelled([pair], how)
    titles, runs = titles_of(space), [get_run(space, run_id) for run_id in (a, b)]
    own = {name: titles.of("metric", name, runs[1].bot) for name in pair[1].manifest.metrics}
    asked = preference_between(space, a, b)
    return replace(
        comparison,
        titles={run.run_id: run.title for run in runs},
        metric_titles={name: title for name, title in own.items() if title != name},  # else the runs have one
        preferences=[asked] if asked else [],
    )


def passing_metrics(run: Run) -> set[str]:
    """The metrics with pass or fail of a run with results."""
    return {row.metric for row in run.summary if row.pass_rate is not None}


def gated_metrics(run: Run) -> set[str]:
    """The metrics with a gate of a run with results."""
    return {gate["of_metric"] for gate in run.facts["gates"] if gate["of_metric"]}


@requires("read")
@takes_turn
def rank(
    space: Workspace, runs: Sequence[str], *, metric: str | None, pairwise: bool, items: bool, allow: Collection[Kind]
) -> RankingPage:
    """Rank runs like the command `rank`, without writing files."""
    saved = [scored_of(get_run(space, run_id)) for run_id in runs]
    ranking = rank_runs(saved, metric=metric, pairwise=pairwise, allow=allow, allow_option="allow=")
    return ranking.page(ranked_items(ranking) if items else ())


@requires("read")
@takes_turn
def changed_cases(space: Workspace, a: str, b: str) -> CaseChanges:
    """The cases whose answer or score differs between two runs, paged."""
    pair = _pair(space, a, b)
    known = space.read(common_cases, run_row(space, a).id, run_row(space, b).id)
    one, other = pair
    traits, people = one.traits | other.traits, labels_to_compare(pair, None).people_in(one, other)
    cells = changed_cells(
        pair_scores(one.scores(), other.scores(), traits, people),
        traits,
        known,
        by_labels=any(differs for *_, differs in known),
    )
    return CaseChanges((a, b), cells)


@requires("read")
def obstacles_between(space: Workspace, a: str, b: str, allow: Collection[Kind] = ()) -> list[Obstacle]:
    """Every reason why run B cannot be compared with run A, except the allowed ones."""
    return not_allowed(what_changed(*_pair(space, a, b)), allow)


def _pair(space: Workspace, a: str, b: str) -> tuple[SavedRun, SavedRun]:
    if a == b:
        raise UserError(Problem("this is one run, not two", "b", "choose another run"))
    return scored_of(get_run(space, a)), scored_of(get_run(space, b))


def scored_of(run: Run) -> SavedRun:
    """The manifest and scores of a run."""
    if not run.metrics:
        raise TakenError(
            Problem(f"run {run.run_id} has no results yet", "run", "wait until it has ended, or resume it")
        )
    return replace(find_scored(str(run.folder)), name=run.run_id)


def _names(run: Run, what: Literal["metrics", "datasets"]) -> set[str]:
    return set(run.facts["datasets"]) if what == "datasets" else set(run.metrics)


_LOOKED_AT = 10
"""The number of earlier runs searched for a comparable one."""


@dataclass(frozen=True, slots=True)
class Related:
    """The bot, datasets and earlier run that a run's page links to.

    Attributes:
        bot: Its name. Empty if no bot of that name exists here, e.g. for a run from the command line.
        datasets: The run's datasets that exist here.
        before: The latest earlier run of the same bot that shares a dataset and a metric, preferably a comparable one;
            never a run of a part of the cases. None without such a run, or if this run's results are missing.
    """

    bot: str
    datasets: Sequence[str]
    before: ComparableRun | None


@requires("read")
def related(space: Workspace, run_id: str) -> Related:
    """The bot, datasets and earlier run that a run's page links to."""
    run = get_run(space, run_id)
    known = {dataset.name for dataset in list_datasets(space)}
    own = run.request.datasets if run.request else run.facts.get("datasets", ())
    return Related(_bot(space, run), [name for name in own if name in known], _before(space, run))


def _bot(space: Workspace, run: Run) -> str:
    try:
        return get_bot(space, run.bot).name
    except NotFoundError:
        return ""


def _before(space: Workspace, run: Run) -> ComparableRun | None:
    if not run.metrics:
        return None
    earlier = (
        other for other in whole_runs(space, run.bot) if other.created_at < run.created_at and share_scores(run, other)
    )
    try:
        scored = scored_of(run)
    except EvalflowError:
        return None
    comparable = [candidate(other, scored) for other in islice(earlier, _LOOKED_AT)]
    return next((one for one in comparable if not one.obstacles), comparable[0] if comparable else None)


def row_statistic(metric: str, statistic: str) -> str:
    """The statistic of a number's row in the summary: a pass rate is in the row of the mean, except for `cases`."""
    return "mean" if statistic == "pass_rate" and metric != CASES else statistic


def interval_of(row: SummaryRow, statistic: str) -> tuple[float | None, float | None, float | None]:
    """A number of a row of the summary, and its 95 % interval; the pass rate has its own columns."""
    if statistic == "pass_rate":
        return row.pass_rate, row.pass_rate_low, row.pass_rate_high
    return row.value, row.ci_low, row.ci_high


_CALLED = ("the run before", "this one")


@dataclass(frozen=True, slots=True)
class TrackedMetric:
    """A metric with a history.

    Attributes:
        statistics: The available statistics: mean, pass_rate, or names of figures.
    """

    bot: str
    dataset: str
    metric: str
    statistics: Sequence[str]
    runs: int


@dataclass(frozen=True, slots=True)
class PointGate:
    """A gate on the number. `passed` is None if the data could not decide."""

    condition: Condition
    passed: bool | None


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A run in a history.

    Attributes:
        run_id, title, at: The run, and when it was created (ISO 8601, UTC).
        value, low, high: The number and its 95 % interval; None if missing.
        threshold: The run's threshold: the lowest passing score, or the highest if lower is better; None without one.
        breaks: Why this point cannot be compared with the previous one.
        changed: Other changes since the previous point: the bot, or the data.
        taken: The selection of cases in words, such as a random sample; empty for all cases.
    """

    run_id: str
    title: str
    at: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_scored: int
    threshold: float | None
    gates: Sequence[PointGate]
    breaks: Sequence[Obstacle]
    changed: Sequence[str]
    taken: str = ""

    @property
    def gate_failed(self) -> bool:
        """Whether a gate failed; an undecided gate did not."""
        return overall(gate.passed for gate in self.gates) is False


@dataclass(frozen=True, slots=True)
class History:
    """A number over runs, oldest first. `higher_is_better` and `bounded` (to 0..1) come from the latest run."""

    points: Sequence[HistoryPoint]
    higher_is_better: bool
    bounded: bool


@requires("read")
def tracked_metrics(space: Workspace) -> list[TrackedMetric]:
    """All metrics with a history, those with the latest run first; runs of a part of the cases do not count."""
    by_metric: dict[tuple[str, str, str], dict[str, None]] = {}
    count: dict[tuple[str, str, str], set[str]] = {}
    for run in (run for run in scored_runs(space) if not run.taken.is_part):
        for row in run.summary:
            key = (run.bot, row.dataset, row.metric)
            known = by_metric.setdefault(key, {})
            known[row.statistic] = None
            if row.pass_rate is not None:
                known["pass_rate"] = None
            count.setdefault(key, set()).add(run.run_id)
    return [TrackedMetric(*key, list(statistics), len(count[key])) for key, statistics in by_metric.items()]


@requires("read")
def history(space: Workspace, bot: str, dataset: str, metric: str, statistic: str = "mean") -> History:
    """How a number changed over the latest runs. `statistic`: mean, pass_rate, or the name of a figure."""
    return _history(whole_runs(space, bot), dataset, metric, statistic, functools.cache(_manifest))


@requires("read")
def histories(space: Workspace, bot: str, latest: int) -> list[tuple[str, str, str, History]]:
    """Histories of the last whole run's numbers, over the `latest` runs: dataset, metric, statistic, history.

    For a metric with pass and fail the number is the pass rate.
    """
    runs = whole_runs(space, bot)[:latest]
    read = functools.cache(_manifest)
    by_series: dict[tuple[str, str, str], History] = {}
    for row in without_means_of_figures(runs[0].summary) if runs else ():
        statistic = "pass_rate" if row.statistic == "mean" and row.pass_rate is not None else row.statistic
        key = (row.dataset, row.metric, statistic)
        if key not in by_series:
            by_series[key] = _history(runs, *key, read)
    return [(*key, history) for key, history in by_series.items()]


def _history(
    runs: Sequence[Run], dataset: str, metric: str, statistic: str, manifest: Callable[[Path], Manifest | None]
) -> History:
    points: list[HistoryPoint] = []
    own: MetricInRun | None = None
    before: Manifest | None = None
    for run in reversed(runs):
        row = _row(run, dataset, metric, statistic)
        if row is None:
            continue
        now = manifest(run.folder)
        own = run.metrics.get(metric)
        point = _point(run, row, statistic, [] if not points else _breaks(metric, before, now), before, now)
        if statistic == "pass_rate" and points and point.threshold != points[-1].threshold:
            point = replace(point, changed=[*point.changed, "the threshold"])
        points.append(point)
        before = now
    higher = own is None or own.higher_is_better or statistic == "pass_rate"
    return History(points, higher, (own is not None and own.bounded) or statistic == "pass_rate")


def _row(run: Run, dataset: str, metric: str, statistic: str) -> SummaryRow | None:
    own = run.metrics.get(metric)
    wanted = (row_statistic(metric, statistic), dataset, metric, own and own.judge)
    for row in run.summary:
        if (row.statistic, row.dataset, row.metric, row.judge) == wanted:
            return row
    return None


def _point(
    run: Run,
    row: SummaryRow,
    statistic: str,
    breaks: Sequence[Obstacle],
    before: Manifest | None,
    now: Manifest | None,
) -> HistoryPoint:
    value, low, high = interval_of(row, statistic)
    own = run.metrics.get(row.metric)
    return HistoryPoint(
        run_id=run.run_id,
        title=run.title,
        at=run.created_at,
        value=value,
        low=low,
        high=high,
        n=row.n,
        n_scored=row.n_scored,
        threshold=own and own.threshold,
        gates=list(_gates(run, row.dataset, row.metric, statistic)),
        breaks=breaks,
        changed=list(_changed(row.dataset, before, now)) if before and now else [],
        taken=run.taken.in_words,
    )


def _gates(run: Run, dataset: str, metric: str, statistic: str) -> Iterator[PointGate]:
    """The gates on the number itself, not those on a tag or against a baseline."""
    for gate in run.facts["gates"]:
        if gate["dataset"] == dataset and gate["name"] == f"{metric} {statistic} {gate['condition']}":
            yield PointGate(parse_condition(gate["condition"], gate["name"]), gate["passed"])


def _manifest(folder: Path) -> Manifest | None:
    try:
        return RunFolder(folder).read_manifest()
    except (EvalflowError, OSError, ValueError):
        return None


def _breaks(metric: str, before: Manifest | None, now: Manifest | None) -> list[Obstacle]:
    if before is None or now is None:
        return [Obstacle("metric", "the folder of a run is gone, so that nobody can tell whether it measured the same")]
    if metric == CASES:
        if set(before.metrics) != set(now.metrics):
            return [Obstacle("metric", "other metrics were run, so a case passed other things")]
        return [one for name in now.metrics for one in _breaks(name, before, now)]
    old, new = (manifest.metrics.get(metric) for manifest in (before, now))
    if old is None or new is None:
        return [Obstacle("metric", f"the files of a run do not know metric {metric}")]
    versions = other_versions({metric: old.version}, {metric: new.version}, _CALLED)
    parts = [*versions, *unlike_metrics(metric, before, now, _CALLED)]
    return [Obstacle(part.kind, part.what) for part in parts if part.kind in KINDS]


def _changed(dataset: str, before: Manifest, now: Manifest) -> Iterator[str]:
    if before.target.identity != now.target.identity:
        yield "the bot"
    old, new = (manifest.datasets.get(dataset) for manifest in (before, now))
    if old and new and old.sha256 != new.sha256:
        yield "the data"
    elif old and new and old.cases != new.cases:
        yield "which cases are run"

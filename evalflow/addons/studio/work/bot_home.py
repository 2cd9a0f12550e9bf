"""A bot's home page: its latest result, the change since the run before, and its weak tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.comparing import (
    ComparableRun,
    compare_runs,
    gated_metrics,
    interval_of,
    related,
    row_statistic,
    scored_runs,
)
from evalflow.addons.studio.work.runs import Run, list_runs
from evalflow.addons.studio.work.scores import summary
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.rederive import MetricInRun
from evalflow.errors import UserError
from evalflow.records import CASES
from evalflow.report.sentences import of_run, shown_statistic
from evalflow.report.wording import without_means_of_figures
from evalflow.summary.rows import SummaryRow

if TYPE_CHECKING:
    from evalflow.report.comparison_sentences import ComparisonSentence

    pass

LATEST = 5
"""The number of runs listed."""
FEWEST = 5
"""The fewest scored answers with which a tag is called weak."""
_WEAKEST = 5


@dataclass(frozen=True, slots=True)
class Headline:
    """The one number that sums up a run.

    It is the share of cases that pass everything, if the run has that figure; else a number of one metric.

    Attributes:
        metric: Its metric, or `cases` for the cases that pass everything.
        statistic: pass_rate; for a metric without pass or fail, mean or the name of a figure.
        value, low, high: The number and its 95 % interval; None if nothing was scored.
        n, n_scored: The number of answers, and of answers with a score.
        why: Why this metric was chosen among several; empty for `cases`.
        is_one_of_several: Whether the run has more metrics.
        judged: The metrics whose judges it is by, each judge once; empty without a judge.
        row: The number's row of the summary.
    """

    run: Run
    metric: str
    dataset: str
    judge: str | None
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_scored: int
    why: str
    row: SummaryRow
    is_one_of_several: bool = False
    judged: Sequence[MetricInRun] = ()


@dataclass(frozen=True, slots=True)
class HeadlineChange:
    """How the number of a headline changed since an earlier run.

    Attributes:
        before: None if no earlier run shares a dataset and a metric.
        sentence: The result of the comparison; None if the runs cannot be compared.
    """

    before: ComparableRun | None
    sentence: ComparisonSentence | None


@dataclass(frozen=True, slots=True)
class WeakTag:
    """The number of a headline on the cases of a tag."""

    tag: str
    value: float
    low: float | None
    high: float | None
    n_scored: int


@dataclass(frozen=True, slots=True)
class BotHome:
    """The latest runs of a bot, newest first, and the headline of the latest one with results.

    A run of a part of the cases (e.g. only those that failed) provides the headline only if there is no other run.
    """

    runs: Sequence[Run]
    headline: Headline | None


@requires("read")
def bot_home(space: Workspace, bot: str) -> BotHome:
    """The parts of a bot's home page that need no comparison."""
    runs = list_runs(space, limit=LATEST, bot=bot).items
    scored = next((run for run in runs if run.facts.get("metrics") and not run.taken.is_part), None)
    if scored is None:
        own = [run for run in scored_runs(space) if run.bot == bot]
        scored = min(own, key=_is_part, default=None)
    return BotHome(runs, headline_of(scored) if scored else None)


def _is_part(run: Run) -> bool:
    return run.taken.is_part


@requires("read")
def headlines(space: Workspace) -> dict[str, Headline]:
    """The headline of each bot's latest run with results, by bot; see `BotHome`."""
    by_bot: dict[str, Headline] = {}
    for run in sorted(scored_runs(space), key=_is_part):
        if run.bot not in by_bot and (headline := headline_of(run)):
            by_bot[run.bot] = headline
    return by_bot


def headline_of(run: Run) -> Headline | None:
    """The headline of a run with results, as in its reports, on the dataset with the most answers."""
    metrics = run.metrics
    rows = [row for row in without_means_of_figures(run.summary) if row.metric in {*metrics, CASES}]
    if not rows:
        return None
    row = max((head.row for head in of_run(rows, gated_metrics(run))), key=lambda row: row.n)
    is_one_of_several = len(metrics) > 1 and row.metric != CASES
    why = "no metric has pass and fail" if row.pass_rate is None else "it is the first with pass and fail"
    if row.metric in gated_metrics(run):
        why = "it has a gate"
    statistic = shown_statistic(row)
    place = (row.metric, row.dataset, row.judge, statistic)
    return Headline(
        run,
        *place,
        *interval_of(row, statistic),
        row.n,
        row.n_scored,
        why if is_one_of_several else "",
        row,
        is_one_of_several,
        _judged(run, row),
    )


def _judged(run: Run, row: SummaryRow) -> list[MetricInRun]:
    if row.metric == CASES:
        passing = {one.metric for one in run.summary if one.pass_rate is not None}
        own = [metric for name, metric in run.metrics.items() if name in passing and metric.judge]
    else:
        own = [run.metrics[row.metric]] if row.judge else []
    return list({metric.judged: metric for metric in reversed(own)}.values())[::-1]


@requires("read")
def change_since(space: Workspace, headline: Headline) -> HeadlineChange:
    """How the headline changed since the run before; reads both runs' folders."""
    before = related(space, headline.run.run_id).before
    if before is None:
        return HeadlineChange(None, None)
    try:
        comparison = compare_runs(space, before.run.run_id, headline.run.run_id)
    except UserError:  # `before.obstacles` say why
        return HeadlineChange(before, None)
    # The comparison succeeded, so the obstacles do not apply: equal answers may be compared despite different judges.
    return HeadlineChange(replace(before, obstacles=[]), next(iter(comparison.sentences.values()), None))


@requires("read")
def weak_tags(space: Workspace, headline: Headline) -> list[WeakTag]:
    """The tags with the worst numbers, worst first; only those that are worse than the overall number."""
    metric = headline.run.metrics.get(headline.metric)
    is_lower_better = metric is not None and not metric.higher_is_better and headline.statistic != "pass_rate"
    candidates = [tag for row in summary(space, headline.run.run_id) for tag in _tagged(row, headline)]
    candidates.sort(key=lambda one: -one.value if is_lower_better else one.value)
    if headline.value is None:
        return []
    worse = [
        one for one in candidates if (one.value > headline.value if is_lower_better else one.value < headline.value)
    ]
    return [one for one in worse if not any(_is_all_of(other, one) for other in worse)][:_WEAKEST]


def _is_all_of(tag: WeakTag, parent: WeakTag) -> bool:
    """Whether a sub-tag has all cases of its parent, so that the parent's row is redundant."""
    return tag.tag.startswith(f"{parent.tag} > ") and tag.n_scored == parent.n_scored


def _tagged(row: SummaryRow, headline: Headline) -> Iterator[WeakTag]:
    statistic = row_statistic(headline.metric, headline.statistic)
    wanted = (headline.metric, headline.dataset, headline.judge, statistic)
    if row.tag is None or (row.metric, row.dataset, row.judge, row.statistic) != wanted:
        return
    value, low, high = interval_of(row, headline.statistic)
    if value is not None and row.n_scored >= FEWEST:
        yield WeakTag(row.tag, value, low, high, row.n_scored)

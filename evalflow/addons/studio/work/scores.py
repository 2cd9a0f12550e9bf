"""The scores of a run: the table of results, pages of scores, distributions, and pass rates at other thresholds."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from evalflow.addons.studio.store import results, reviews
from evalflow.addons.studio.store.results import ResultCell, ResultRow
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.store.scores import Limit, People, PeopleScore, RunScores, Score, ScoreFilter
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.runs import ENDED, run_row
from evalflow.addons.studio.work.space import Page, Workspace, not_found, place_of
from evalflow.app.core.labels import people_of_run
from evalflow.app.core.rederive import MetricInRun, metrics_in
from evalflow.app.core.saved import open_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.summary.labelled_cells import PASSING_SHARE
from evalflow.summary.rows import SummaryRow, rows_of

log = logging.getLogger(__name__)
__all__ = ["ResultCell", "ResultRow", "Score", "ScoreFilter"]


@dataclass(frozen=True, slots=True)
class PassRate:
    """The share of a metric's scores, by one judge, that pass a threshold.

    Attributes:
        passed, n: Counts; `n` is the number of scores in state scored.
        rate: The share; None if nothing was scored. `run_files.passing` gives its interval.
    """

    metric: str
    judge: str | None
    threshold: float
    direction: str
    passed: int
    n: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a metric's scores: `counts[i]` lie between `edges[i]` and `edges[i + 1]`.

    Of these, `passed[i]` pass the given threshold; None without a threshold.
    """

    metric: str
    edges: Sequence[float]
    counts: Sequence[int]
    passed: Sequence[int] | None = None


MAX_PAGE = 500
BINS = 20


@requires("read")
def list_scores(
    space: Workspace,
    run_id: str,
    wanted: ScoreFilter | None = None,
    cursor: str | None = None,
    limit: int = 50,
    *,
    sort: str = "input",
) -> Page[Score]:
    """Scores of a run.

    `cursor` is `next` of the previous page with the same filter and order. `limit`: at most 500. `sort`: input (the
    order of the data), or score or -score (lowest or highest first, for one metric).
    """
    chosen, limit = wanted or ScoreFilter(), max(1, min(limit, MAX_PAGE))
    if sort not in ("input", "score", "-score"):
        raise UserError(Problem(f"{sort!r} is not an order", "sort", "input, score or -score"))
    if sort != "input" and chosen.metric is None:
        raise UserError(Problem("only the scores of one metric can be sorted", "sort", "choose a metric"))
    with _scores_of(space, run_id) as scores:
        if sort == "input":
            page = scores.page(chosen, place_of(cursor, int, int), limit + 1)
        else:
            place = place_of(cursor, float, int, int)
            page = scores.page_by_score(chosen, place, limit + 1, is_descending=sort == "-score")
    more = None
    if len(page) > limit:
        last = page[limit - 1]
        more = ",".join(map(repr, last.place if sort == "input" else (last.score, *last.place)))
    return Page(page[:limit], more)


@requires("read")
def case_scores(space: Workspace, run_id: str, dataset: str, case_id: str) -> list[Score]:
    """All scores of a case, each with the judge's steps, answer by answer if it was answered repeatedly.

    Empty if the run does not have the case.
    """
    with _scores_of(space, run_id) as scores:
        return _with_steps(scores, scores.positions(dataset, case_id)[:MAX_PAGE])


@requires("read")
def answer_scores(
    space: Workspace, run_id: str, position: int, thresholds: Mapping[str, float] | None = None
) -> list[Score]:
    """All scores of an answer, at most `MAX_PAGE`, each with the judge's steps."""
    with _scores_of(space, run_id, thresholds) as scores:
        return _with_steps(scores, [position])


def _with_steps(scores: RunScores, positions: Sequence[int]) -> list[Score]:
    if not positions:
        return []
    page = scores.page(ScoreFilter(positions=positions), None, MAX_PAGE * len(positions))
    steps = scores.steps(positions)
    return [replace(one, steps=steps.get(one.place)) for one in page]


@requires("read")
def get_score(space: Workspace, run_id: str, score_id: str) -> Score:
    """One score with the judge's steps. Prompts are included only if the run saved them."""
    position, _, n = score_id.partition("-")
    stored_score = None
    with _scores_of(space, run_id) as scores:
        if score_id.isascii() and position.isdecimal() and n.isdecimal() and len(score_id) < 20:
            stored_score = scores.get((int(position), int(n)))
    if stored_score is None:
        raise not_found("score", score_id, [])
    return stored_score


@requires("read")
def order_results(
    space: Workspace,
    run_id: str,
    wanted: ScoreFilter | None = None,
    sort: str = "worst",
    thresholds: Mapping[str, float] | None = None,
) -> Sequence[int]:
    """The positions of the answers that have a matching score, in the order of the results.

    `sort`: worst (most failed scores first, then most errors, then the lowest mean of the scores from 0 to 1), input
    (the order of the data), or low:METRIC or high:METRIC. `thresholds` by metric replace the run's. People's labels
    count in place of the scores of the answers that they labelled.
    """
    by, _, metric = sort.partition(":")
    if by not in ("worst", "input") and not (by in ("low", "high") and metric):
        raise UserError(Problem(f"{sort!r} is not an order", "sort", "worst, input, low:METRIC or high:METRIC"))
    row = run_row(space, run_id)
    scales = {name: own.higher_is_better for name, own in metrics_in(row.facts).items() if own.bounded}
    with _results_of(space, run_id, thresholds) as scores:

        def ranking() -> results.AnswerRanking:
            if row.state not in ENDED:
                return results.rank_answers(scores, scales)
            key = (row.id, row.version, *scores.limits)
            return space.rankings.get(key, lambda: results.rank_answers(scores, scales))

        return results.positions_in_order(scores, wanted or ScoreFilter(), results.ResultOrder(by, metric), ranking)


@requires("read")
def read_results(
    space: Workspace, run_id: str, positions: Sequence[int], thresholds: Mapping[str, float] | None = None
) -> list[ResultRow]:
    """The answers at these positions with a cell for each metric, in this order."""
    with _results_of(space, run_id, thresholds) as scores:
        return results.result_rows(scores, positions)


@requires("read")
def questions_at(space: Workspace, run_id: str, positions: Sequence[int]) -> dict[int, str]:
    """The questions of the answers at these positions (at most 500), by position."""
    with _scores_of(space, run_id) as scores:
        return results.questions_at(scores, positions)


@requires("read")
def answered_cases(space: Workspace, run_id: str, positions: Sequence[int]) -> dict[str, list[str]]:
    """The ids of the cases whose answers stand at these positions, by dataset."""
    by_dataset: dict[str, list[str]] = {}
    with _scores_of(space, run_id) as scores:
        for dataset, case in results.cases_at(scores, positions):
            by_dataset.setdefault(dataset, []).append(case)
    return by_dataset


@requires("read")
def failed_cases(space: Workspace, run_id: str) -> dict[str, list[str]]:
    """The ids of the cases with a score that fails or ended in an error, by dataset."""
    failed = [ScoreFilter(passed=False), ScoreFilter(status="error")]
    positions = {place for one in failed for place in order_results(space, run_id, one, "input")}
    return answered_cases(space, run_id, sorted(positions))


@requires("read")
def note_view(space: Workspace, run_id: str) -> None:
    """Note that the person who acts has seen the run's scores, so that their later labels of its answers are not blind.

    The audit has no row for it, since nothing of the project changes.
    """
    run, by = run_row(space, run_id), space.identify().name
    if not space.read(reviews.has_viewed, [run.run_id], by):
        with space.database.writing() as connection:
            reviews.note_view(connection, run.id, by)


@requires("read")
def summary(space: Workspace, run_id: str) -> list[SummaryRow]:
    """The rows of a run's summary, including tags. Empty until the run has ended."""
    file = run_row(space, run_id).path / "summary.parquet"
    return rows_of(pl.read_parquet(file)) if file.is_file() else []


@requires("read")
def run_tags(space: Workspace, run_id: str) -> list[tuple[str, int]]:
    """Every tag of a run with the number of answers that have it or a sub-tag."""
    with _scores_of(space, run_id) as scores:
        return scores.tags()


@requires("read")
def pass_rates(
    space: Workspace, run_id: str, thresholds: Mapping[str, float] | None = None, metric: str | None = None
) -> list[PassRate]:
    """The pass rate of each metric with a threshold, at the given thresholds or else the run's. Nothing is re-run."""
    rates: list[PassRate] = []
    with _scores_of(space, run_id, thresholds) as scores:
        for limit in (one for one in scores.limits if metric in (None, one.metric)):
            passed, n = scores.passing(limit)
            direction = "higher_is_better" if limit.higher else "lower_is_better"
            rates.append(
                PassRate(limit.metric, limit.judge, limit.value, direction, passed, n, passed / n if n else None)
            )
    return rates


@requires("read")
def distribution(space: Workspace, run_id: str, metric: str, threshold: float | None = None) -> Distribution | None:
    """The distribution of a metric's scores: over 0..1 for a bounded metric, else from the lowest to the highest score.

    With a threshold, it counts how many scores of each bin pass. None if nothing was scored.
    """
    return distributions(space, run_id, {metric: threshold}).get(metric)


@requires("read")
def distributions(space: Workspace, run_id: str, thresholds: Mapping[str, float | None]) -> dict[str, Distribution]:
    """The distributions of several metrics, as `distribution` gives each, by name; `thresholds` names them."""
    row = run_row(space, run_id)
    known = metrics_in(row.facts)
    with space.database.reading() as connection:
        scores = RunScores(connection, row.id)
        by_metric = {name: _distribution(scores, name, known.get(name), limit) for name, limit in thresholds.items()}
    return {name: one for name, one in by_metric.items() if one is not None}


def _distribution(
    scores: RunScores, metric: str, own: MetricInRun | None, threshold: float | None
) -> Distribution | None:
    span = scores.span(metric)
    if span is None:
        return None
    low, high = (0.0, 1.0) if own and own.bounded else span
    edges = [low, high] if low == high else [low + (high - low) * i / BINS for i in range(BINS)] + [high]
    histogram = scores.histogram(metric, edges, threshold, higher=own is None or own.higher_is_better)
    counts, passed = ([pair[i] for pair in histogram] for i in (0, 1))
    return Distribution(metric, edges, counts, None if threshold is None else passed)


@contextmanager
def _scores_of(space: Workspace, run_id: str, thresholds: Mapping[str, float] | None = None) -> Generator[RunScores]:
    row = run_row(space, run_id)
    with space.database.reading() as connection:
        yield RunScores(connection, row.id, limits_of(row.facts, thresholds))


@contextmanager
def _results_of(space: Workspace, run_id: str, thresholds: Mapping[str, float] | None = None) -> Generator[RunScores]:
    """The scores of a run with people's, which count in the table of results.

    If the labels cannot be read, the scores count, and `labels_fault` says why.
    """
    row = run_row(space, run_id)
    with _scores_of(space, run_id, thresholds) as scores:
        people, _ = _labels(space, row, scores, thresholds)
        yield replace(scores, people=people)


@requires("read")
def labels_fault(space: Workspace, run_id: str, thresholds: Mapping[str, float] | None = None) -> str:
    """Why people's labels cannot be read, so that they do not count in the results; empty if they can."""
    with _scores_of(space, run_id, thresholds) as scores:
        return _labels(space, run_row(space, run_id), scores, thresholds)[1]


def _labels(
    space: Workspace, row: StoredRun, scores: RunScores, thresholds: Mapping[str, float] | None
) -> tuple[People, str]:
    """People's labels, and why they cannot be read; the facts of a run say whether it has any."""
    if row.state not in ENDED or not any(one.get("n_labels") for one in row.facts.get("summary", ())):
        return {}, ""
    key = (row.id, row.version, *scores.limits)
    try:
        return space.labelled.get(key, lambda: _people(row, scores, thresholds)), ""
    except (UserError, OSError) as error:
        log.warning("labels of %s cannot be read, so its scores count: %s", row.run_id, error)
        return {}, str(error)


def _people(row: StoredRun, scores: RunScores, thresholds: Mapping[str, float] | None) -> People:
    frame = people_of_run(open_run(RunFolder(row.path)), thresholds)
    people: dict[tuple[int, str], PeopleScore] = {}
    rows = [] if frame is None else frame.to_dicts()
    places = scores.places({one["case_id"] for one in rows})
    for one in rows:
        place = places.get((one["dataset"], one["case_id"], one["target"], one["target_repeat"]))
        if place is not None:
            share = one["accepted"]
            passed = None if share is None else share >= PASSING_SHARE
            people[place, one["metric"]] = PeopleScore(one["human"], passed)
    return people


def limits_of(facts: Mapping[str, Any], thresholds: Mapping[str, float] | None = None) -> list[Limit]:
    """The thresholds of a run's metrics, or those that replace them."""
    limits: list[Limit] = []
    for name, metric in metrics_in(facts).items():
        value = (thresholds or {}).get(name, metric.threshold)
        if value is not None:
            limits.append(Limit(name, metric.judge, value, metric.higher_is_better))
    return limits

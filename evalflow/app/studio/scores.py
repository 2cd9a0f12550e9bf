"""What runs found: scores by the page, their distribution, and what another threshold would say, free."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalflow.app.studio.runs import run_row
from evalflow.app.studio.space import Workspace, not_found
from evalflow.datasets import tag_name
from evalflow.errors import Problem, UserError
from evalflow.records import passes
from evalflow.store import scores
from evalflow.store.scores import Filter, Limit


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """Which scores; None: whatever it is.

    Attributes:
        metric, status: Those with exactly this; status is scored, undefined, error or skipped.
        tag: Those of cases with this tag, or one below it.
        text: Those whose question, answer or case id has this in it; capitals of ASCII do not matter.
        low, high: Those that scored within these, bounds included.
        passed: Those that passed, or that did not, by the thresholds given or else the run's.
        answer: Those of one answer, by its position.
    """

    metric: str | None = None
    status: str | None = None
    tag: str | None = None
    text: str | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    answer: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One score with what it is about.

    Attributes:
        id: Of the score in its run.
        position: Of the answer in its run, in input order, from 0.
        value: On the metric's own scale.
        threshold, passed: None where no threshold counts, passed also unless scored.
        error, error_type: Why there is no score.
        answer_error: Why there is no answer.
        steps: What the judge said, step by step; None where it was not asked for (see `get_score`).
    """

    id: str
    position: int
    dataset: str
    case_id: str
    tags: Sequence[str]
    question: str
    answer: str | None
    reference: str | None
    answer_error: str | None
    target: str
    target_repeat: int
    metric: str
    judge: str | None
    repeat: int
    status: str
    score: float | None
    value: Any
    threshold: float | None
    passed: bool | None
    reason: str | None
    error_type: str | None
    error: str | None
    path: str | None
    cost_usd: float | None
    latency_s: float | None
    steps: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class ScorePage:
    """Some scores; `next` is the cursor of those that follow, None at the end."""

    items: Sequence[Score]
    next: str | None


@dataclass(frozen=True, slots=True)
class PassRate:
    """How many of the scores of a metric, by one judge, reach a threshold.

    Attributes:
        passed, n: Counts; `n` is of those in state scored.
        rate: The share; None where nothing was scored. Its interval, which knows what belongs together, is told by
            `thresholds.passing`.
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
    """How the scores of a metric lie: `counts[i]` of them between `edges[i]` and `edges[i + 1]`.

    Of these, `passed[i]` pass the threshold that was asked for; None where none was.
    """

    metric: str
    edges: Sequence[float]
    counts: Sequence[int]
    passed: Sequence[int] | None = None


MAX_PAGE = 500
BINS = 20
_LARGEST = 2**31 - 1
"""What a database takes as a place."""


def list_scores(
    space: Workspace,
    run_id: str,
    wanted: ScoreFilter | None = None,
    cursor: str | None = None,
    limit: int = 50,
    *,
    sort: str = "input",
    thresholds: Mapping[str, float] | None = None,
) -> ScorePage:
    """Scores of a run.

    Args:
        space: Where.
        run_id: Which run.
        wanted: Which of its scores.
        cursor: `next` of the page before, with the same filter and order; None for the first.
        limit: How many at most, up to 500.
        sort: input (the order of the data), or score or -score (the lowest or the highest first, of one metric).
        thresholds: Other thresholds by metric, for `passed`; the run's stay as they are.

    Raises:
        NotFoundError: There is no such run.
        UserError: The cursor or the order is none.
    """
    row, limit = run_row(space, run_id), max(1, min(limit, MAX_PAGE))
    limits = _limits(row, thresholds)
    chosen = _filter(wanted or ScoreFilter(), limits)
    if sort not in ("input", "score", "-score"):
        raise UserError(Problem(f"{sort!r} is no order", "sort", "input, score or -score"))
    if sort != "input" and chosen.metric is None:
        raise UserError(Problem("only the scores of one metric can be sorted", "sort", "choose a metric"))
    with space.database.reading() as connection:
        if sort == "input":
            place = _cursor(cursor, (int, int))
            found = scores.page(connection, row["id"], chosen, place, limit + 1)
        else:
            place = _cursor(cursor, (float, int, int))
            descending = sort == "-score"
            found = scores.page_by_score(connection, row["id"], chosen, place, limit + 1, descending=descending)
    more = None
    if len(found) > limit:
        last = found[limit - 1]
        more = ",".join(repr(last[key]) for key in (["score"] if sort != "input" else []) + ["position", "n"])
    return ScorePage([_score(one, limits) for one in found[:limit]], more)


def neighbours(
    space: Workspace, run_id: str, position: int, wanted: ScoreFilter, sort: str = "input"
) -> tuple[int | None, int | None]:
    """The answers before and after one, by their positions, in a list of scores as `list_scores` gives it.

    Raises:
        NotFoundError: There is no such run.
    """
    row = run_row(space, run_id)
    chosen = _filter(wanted, _limits(row, None))
    with space.database.reading() as connection:

        def step(*, back: bool) -> int | None:
            if sort == "input" or chosen.metric is None:
                start = (position, -1 if back else _LARGEST)
                found = scores.page(connection, row["id"], chosen, start, 1, descending=back)
            else:
                descending = (sort == "-score") != back
                own = scores.page(connection, row["id"], replace(chosen, positions=[position]), None, MAX_PAGE)
                places = [(one["score"], one["position"], one["n"]) for one in own if one["score"] is not None]
                if not places:
                    return None
                start = min(places) if descending else max(places)
                found = scores.page_by_score(connection, row["id"], chosen, start, 1, descending=descending)
            return found[0]["position"] if found else None

        return step(back=True), step(back=False)


def case_scores(space: Workspace, run_id: str, dataset: str, case_id: str) -> list[Score]:
    """All scores of a case, answer by answer where it was answered repeatedly; none where the run does not have it.

    Raises:
        NotFoundError: There is no such run.
    """
    row = run_row(space, run_id)
    limits = _limits(row, None)
    with space.database.reading() as connection:
        places = scores.positions(connection, row["id"], dataset, case_id)[:MAX_PAGE]
        wanted = replace(_filter(ScoreFilter(), limits), positions=places)
        found = scores.page(connection, row["id"], wanted, None, MAX_PAGE * len(places)) if places else []
    return [_score(one, limits) for one in found]


def answer_scores(
    space: Workspace, run_id: str, position: int, thresholds: Mapping[str, float] | None = None
) -> list[Score]:
    """All scores of an answer, at most `MAX_PAGE`, each with the judge's steps.

    Raises:
        NotFoundError: There is no such run.
    """
    row = run_row(space, run_id)
    limits = _limits(row, thresholds)
    with space.database.reading() as connection:
        wanted = _filter(ScoreFilter(answer=position), limits)
        found = scores.page(connection, row["id"], wanted, None, MAX_PAGE)
        steps = scores.steps(connection, row["id"], position)
    return [_score({**one, "steps": steps.get(one["n"])}, limits) for one in found]


def get_score(space: Workspace, run_id: str, score_id: str, thresholds: Mapping[str, float] | None = None) -> Score:
    """One score with the judge's steps: prompts as sent are not among them where the run did not keep them.

    Raises:
        NotFoundError: There is none.
    """
    row = run_row(space, run_id)
    position, _, n = score_id.partition("-")
    found = None
    if position.isdigit() and n.isdigit() and len(score_id) < 20:
        with space.database.reading() as connection:
            found = scores.score(connection, row["id"], (int(position), int(n)))
    if found is None:
        raise not_found("score", score_id, [])
    return _score(found, _limits(row, thresholds))


def count_scores(
    space: Workspace, run_id: str, wanted: ScoreFilter | None = None, thresholds: Mapping[str, float] | None = None
) -> int:
    """How many scores of a run there are; of a large run this looks at each of them."""
    row = run_row(space, run_id)
    with space.database.reading() as connection:
        return scores.count(connection, row["id"], _filter(wanted or ScoreFilter(), _limits(row, thresholds)))


def summary(space: Workspace, run_id: str) -> list[dict[str, Any]]:
    """The rows of a run's summary, also of each tag, as in summary.json; none before it has ended.

    Raises:
        NotFoundError: There is no such run.
    """
    file = Path(run_row(space, run_id)["folder"]) / "summary.json"
    return json.loads(file.read_text(encoding="utf-8"))["rows"] if file.is_file() else []


def run_tags(space: Workspace, run_id: str) -> list[tuple[str, int]]:
    """Every tag of a run with how many answers have it, or one below it."""
    row = run_row(space, run_id)
    with space.database.reading() as connection:
        return scores.tags(connection, row["id"])


def pass_rates(
    space: Workspace, run_id: str, thresholds: Mapping[str, float] | None = None, metric: str | None = None
) -> list[PassRate]:
    """The pass rate of each metric that has a threshold, by the ones given or else the run's; nothing is run again.

    Args:
        space: Where.
        run_id: Which run.
        thresholds: By metric.
        metric: Only of this one.

    Raises:
        NotFoundError: There is no such run.
    """
    row = run_row(space, run_id)
    found: list[PassRate] = []
    with space.database.reading() as connection:
        for limit in (one for one in _limits(row, thresholds) if metric in (None, one.metric)):
            passed, n = scores.passing(connection, row["id"], limit)
            direction = "higher_is_better" if limit.higher else "lower_is_better"
            rate = passed / n if n else None
            found.append(PassRate(limit.metric, limit.judge, limit.value, direction, passed, n, rate))
    return found


def distribution(space: Workspace, run_id: str, metric: str, threshold: float | None = None) -> Distribution | None:
    """How the scores of a metric lie: over 0..1 where it is bounded, else from the lowest to the highest.

    Args:
        space: Where.
        run_id: Which run.
        metric: Whose.
        threshold: Which of them pass is counted by it.

    Returns:
        None where nothing was scored.

    Raises:
        NotFoundError: There is no such run.
    """
    row = run_row(space, run_id)
    metrics: list[Mapping[str, Any]] = row["facts"].get("metrics", [])
    about = {str(one["name"]): one for one in metrics}.get(metric)
    with space.database.reading() as connection:
        span = scores.span(connection, row["id"], metric)
        if span is None:
            return None
        low, high = (0.0, 1.0) if about and about["bounded"] else span
        edges = [low, high] if low == high else [low + (high - low) * i / BINS for i in range(BINS)] + [high]
        higher = about is None or about["direction"] == "higher_is_better"
        found = scores.histogram(connection, row["id"], metric, edges, threshold, higher=higher)
    counts, passed = ([pair[i] for pair in found] for i in (0, 1))
    return Distribution(metric, edges, counts, None if threshold is None else passed)


def _limits(row: Mapping[str, Any], thresholds: Mapping[str, float] | None) -> list[Limit]:
    found: list[Limit] = []
    for metric in row["facts"].get("metrics", []):
        value = (thresholds or {}).get(metric["name"], metric["threshold"])
        if value is not None:
            found.append(Limit(metric["name"], metric["judge"], value, metric["direction"] == "higher_is_better"))
    return found


def _filter(wanted: ScoreFilter, limits: Sequence[Limit]) -> Any:
    return Filter(
        metric=wanted.metric,
        status=wanted.status,
        tag=tag_name(wanted.tag) if wanted.tag else None,
        text=wanted.text or None,
        low=wanted.low,
        high=wanted.high,
        passed=wanted.passed,
        limits=limits,
        positions=None if wanted.answer is None else [wanted.answer],
    )


def _cursor(text: str | None, kinds: Sequence[type]) -> Any:
    if text is None:
        return None
    parts = text.split(",")
    try:
        if len(parts) != len(kinds) or len(text) > 60:
            raise ValueError
        found = tuple(kind(part) for kind, part in zip(kinds, parts, strict=True))
        if not all(0 <= value <= _LARGEST if isinstance(value, int) else math.isfinite(value) for value in found):
            raise ValueError
        return found
    except ValueError:
        raise UserError(Problem(f"{text!r} is no cursor", "cursor", "take `next` of the page before")) from None


def _score(row: Mapping[str, Any], limits: Sequence[Limit]) -> Score:
    limit = next((one for one in limits if (one.metric, one.judge) == (row["metric"], row["judge"])), None)
    value = row["score"]
    passed = None
    if limit is not None and value is not None:
        passed = passes(value, limit.value, higher_is_better=limit.higher)
    steps = row.get("steps")
    made: dict[str, Any] = {
        "id": f"{row['position']}-{row['n']}",
        "value": None if row["value"] is None else json.loads(row["value"]),
        "threshold": limit.value if limit else None,
        "passed": passed,
        "steps": None if steps is None else json.loads(steps),
    }
    return Score(**{name: made[name] if name in made else row[name] for name in Score.__dataclass_fields__})

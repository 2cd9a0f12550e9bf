"""Verdicts on scores: agree, or say another value; and results that are taken out of a run's figures.

A person who gives a verdict has seen the score, so verdicts are labels that never enter a corrected mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from evalflow.addons.studio.store import verdicts as stored
from evalflow.addons.studio.store.rows import from_row, storable
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.store.scores import CELL
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.run_cases import case_and_answer
from evalflow.addons.studio.work.run_files import apply_exclusions
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.scores import Score, answer_scores
from evalflow.addons.studio.work.space import Page, Workspace, every_item, not_found, row_number
from evalflow.app.core.saved import SavedRun, open_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.labels.read import answer_hash
from evalflow.metrics.scale import (
    BooleanScale,
    LabelScale,
    LikertScale,
    RecordedScale,
    label_bounds,
    label_scale,
    read_label,
)
from evalflow.summary.exclusions import ExcludedResult
from evalflow.values.jsonvalues import as_map

if TYPE_CHECKING:
    from sqlalchemy import Connection

LONGEST_COMMENT = 5_000
"""In characters; also of the reason of an exclusion."""
MOST_GRADES = 11
"""A scale of whole grades has a choice for each, up to this many."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's verdict on what a score should be.

    Attributes:
        value: On the metric's own scale.
        agrees: Whether that is what the judge says.
        is_mine: Whether the person who asks gave it.
    """

    metric: str
    by: str
    value: object
    agrees: bool
    is_mine: bool
    comment: str | None
    at: str


@dataclass(frozen=True, slots=True)
class VerdictScale:
    """How a metric is graded by people.

    Attributes:
        choices: Each value with its words, if there are few; else a number between `low` and `high` (None: unbounded).
        judged: What the judge says, on this scale.
    """

    kind: Literal["choices", "number"]
    choices: Sequence[tuple[object, str]]
    low: float | None
    high: float | None
    judged: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion(ExcludedResult):
    """A result that does not count; `position` is its answer's in the run."""

    position: int


@dataclass(frozen=True, slots=True)
class ScoreVerdicts:
    """People's verdicts on a score.

    Attributes:
        scale: None if the score cannot be judged: `fault` says why.
    """

    scale: VerdictScale | None
    fault: str
    verdicts: Sequence[Verdict]
    exclusion: Exclusion | None


@dataclass(frozen=True, slots=True)
class VerdictLabel:
    """A verdict as a row of a labels file. `position` is the answer's in the run."""

    dataset: str | None
    case_id: str
    target: str | None
    target_repeat: int | None
    answer_hash: str | None
    metric: str
    value: object
    by: str
    comment: str | None
    weight: float
    at: str | None
    position: int | None
    kind: str
    blind: bool
    seen_before: bool


@requires("read")
def score_verdicts(space: Workspace, run_id: str, position: int, metric: str) -> ScoreVerdicts:
    """People's verdicts on a score, and how it can be graded."""
    verdicts = answer_verdicts(space, run_id, position).get(metric)
    if verdicts is None:
        raise not_found("score", _name(run_id, position, metric), [])
    return verdicts


@requires("read")
def answer_verdicts(space: Workspace, run_id: str, position: int) -> dict[str, ScoreVerdicts]:
    """People's verdicts on the scores of an answer, by metric, and how each can be graded."""
    row, scored = run_row(space, run_id), _scored(space, run_id, position)
    saved = cache(partial(_saved, row))
    with space.database.reading() as connection:
        labels = stored.of_answer(connection, row.id, position)
        out = {one["metric"]: one for one in stored.exclusions_of(connection, row.id, position)}
    me, by_metric = space.identify().name, dict[str, ScoreVerdicts]()
    for metric, score in scored.items():
        scale, fault = _scale_or_fault(saved, score)
        judged = scale.judged if scale else None
        verdicts = [
            from_row(Verdict, one, agrees=one["value"] == judged is not None, is_mine=one["by"] == me)
            for one in labels
            if one["metric"] == metric
        ]
        excluded = from_row(Exclusion, out[metric]) if metric in out else None
        by_metric[metric] = ScoreVerdicts(scale, fault, verdicts, excluded)
    return by_metric


@requires("edit")
def agree(space: Workspace, run_id: str, position: int, metric: str) -> None:
    """Say that the judge is right, in place of one's earlier verdict."""
    _give(space, run_id, position, metric, None, "")


@requires("edit")
def disagree(space: Workspace, run_id: str, position: int, metric: str, value: object, comment: str = "") -> None:
    """Say another value, on the metric's own scale, in place of one's earlier verdict."""
    if value is None:
        raise UserError(Problem("a value is needed", "verdict.value", "say what the score should be"))
    _give(space, run_id, position, metric, value, comment)


@requires("edit")
def withdraw(space: Workspace, run_id: str, position: int, metric: str) -> None:
    """Delete one's verdict, if there is one."""
    row, score = run_row(space, run_id), _score(space, run_id, position, metric)
    with space.changing("delete", "verdict", _name(run_id, position, metric)) as connection:
        stored.remove(connection, _of_person(space, row, score))


@requires("read")
def run_labels(space: Workspace, run_id: str, cursor: str | None = None, limit: int = 50) -> Page[VerdictLabel]:
    """The verdicts on a run as rows of a labels file, in the order in which they were given.

    Labels of a review are not among them: nobody sees these before the review shows its result.
    """
    labels = space.read(stored.page, run_row(space, run_id).id, row_number(cursor) or 0, limit + 1)
    more = str(labels[limit - 1]["id"]) if len(labels) > limit else None
    return Page([from_row(VerdictLabel, row) for row in labels[:limit]], more)


@requires("read")
def all_run_labels(space: Workspace, run_id: str) -> Iterator[VerdictLabel]:
    """All rows of `run_labels`, read in pages, the first of them at once."""
    return every_item(lambda cursor: run_labels(space, run_id, cursor, 500))


@requires("edit")
def exclude(space: Workspace, run_id: str, position: int, metric: str, reason: str) -> None:
    """Take a result out of an ended run: its figures without these results are shown too. `reason` is required.

    TakenError while the run has not ended, or something else works on it.
    """
    row, text = run_row(space, run_id), storable(reason).strip()
    _score(space, run_id, position, metric)
    if not 0 < len(text) <= LONGEST_COMMENT:
        raise UserError(Problem(f"a reason has 1 to {LONGEST_COMMENT:,} characters", "exclusion.reason"))
    values = {"run": row.id, "position": position, "metric": metric, "reason": text, "by": space.identify().name}

    def changed() -> list[ExcludedResult]:
        with space.changing("exclude", "result", _name(run_id, position, metric)) as connection:
            stored.exclude(connection, values)
            return _excluded(connection, row.id)

    apply_exclusions(space, run_id, changed)


@requires("edit")
def bring_back(space: Workspace, run_id: str, position: int, metric: str) -> None:
    """Count an excluded result again. NotFoundError if it is not excluded; TakenError as of `exclude`."""
    row, name = run_row(space, run_id), _name(run_id, position, metric)

    def changed() -> list[ExcludedResult]:
        with space.changing("include", "result", name) as connection:
            if not stored.bring_back(connection, row.id, position, metric):
                raise not_found("exclusion", name, [])
            return _excluded(connection, row.id)

    apply_exclusions(space, run_id, changed)


def _excluded(connection: Connection, run: int) -> list[ExcludedResult]:
    return [from_row(ExcludedResult, one) for one in stored.exclusions_of(connection, run)]


def _give(space: Workspace, run_id: str, position: int, metric: str, value: object, comment: str) -> None:
    row, score = run_row(space, run_id), _score(space, run_id, position, metric)
    text = storable(comment).strip()
    if len(text) > LONGEST_COMMENT:
        raise UserError(Problem(f"a comment has at most {LONGEST_COMMENT:,} characters", "verdict.comment"))
    try:
        saved = _saved(row)
        judged = _scale(saved, score).judged
        _, answer = case_and_answer(saved, score)
    except OSError as error:
        raise UserError(Problem(f"the run's files cannot be read: {error.strerror}", "run")) from None
    if answer is None:
        raise UserError(Problem("there is no answer to judge", "verdict"))
    try:
        wanted = judged if value is None else read_label(_label_scale(saved, metric), value)[1]
    except ValueError as error:
        raise UserError(Problem(str(error), "verdict.value")) from None
    values = _of_person(space, row, score) | {"value": wanted, "comment": text or None, "project_id": space.project_id}
    values["answer_hash"] = answer_hash(answer)
    with space.changing("judge", "result", _name(run_id, position, metric)) as connection:
        if not stored.lock(connection, row.id, position):
            raise not_found("answer", str(position), [])
        stored.put(connection, values)


def _score(space: Workspace, run_id: str, position: int, metric: str) -> Score:
    score = _scored(space, run_id, position).get(metric)
    if score is None:
        raise not_found("score", _name(run_id, position, metric), [])
    return score


def _scored(space: Workspace, run_id: str, position: int) -> dict[str, Score]:
    """The scores of an answer by metric; the first if several judges scored it."""
    all_scores = answer_scores(space, run_id, position) if 0 <= position < INTEGER_END else []
    return {score.metric: score for score in reversed(all_scores)}


def _saved(row: StoredRun) -> SavedRun:
    return open_run(RunFolder(row.path))


def _label_scale(saved: SavedRun, metric: str) -> RecordedScale:
    run_metric = saved.rules.metrics[metric]
    return label_scale(run_metric.config, bounded=run_metric.bounded)


def _scale_or_fault(saved: Callable[[], SavedRun], score: Score) -> tuple[VerdictScale | None, str]:
    try:
        return _scale(saved(), score), ""
    except UserError as error:
        return None, error.problems[0].what
    except OSError as error:
        return None, f"the run's files cannot be read: {error.strerror}"


def _scale(saved: SavedRun, score: Score) -> VerdictScale:
    """How people grade the score; UserError if it has none that can be judged."""
    if score.metric not in saved.rules.metrics:
        raise UserError(Problem(f"the run's files do not have the metric {score.metric!r}", "verdict"))
    if score.status != "scored":
        raise UserError(Problem("there is no score to agree with", "verdict"))
    scale, judged = _label_scale(saved, score.metric), None
    for value in (as_map(score.value).get("verdict", score.value), score.score):
        if judged is None and isinstance(value, bool | int | float | str):
            try:
                _, judged = read_label(scale, value)
            except ValueError:
                continue
    if judged is None:
        raise UserError(Problem("the judge's value is not on a scale that people can use", "verdict"))
    if isinstance(scale, BooleanScale) or isinstance(score.value, bool):
        yes, no = (True, False) if isinstance(judged, bool) else (1.0, 0.0)
        return VerdictScale("choices", [(yes, "yes"), (no, "no")], None, None, judged)
    if isinstance(scale, LabelScale):
        return VerdictScale("choices", [(word, word) for word in scale.values], None, None, judged)
    low, high = label_bounds(scale)
    if isinstance(scale, LikertScale) and scale.max - scale.min < MOST_GRADES:
        anchors = scale.anchors or {}
        grades = [
            (grade, f"{grade}: {anchors[grade]}" if anchors.get(grade) else str(grade))
            for grade in range(scale.min, scale.max + 1)
        ]
        return VerdictScale("choices", grades, low, high, judged)
    return VerdictScale("number", [], low, high, judged)


def _of_person(space: Workspace, row: StoredRun, score: Score) -> dict[str, object]:
    """The columns that tell a person's verdict from others."""
    return {
        "run": row.id,
        **{name: getattr(score, name) for name in CELL},
        "metric": score.metric,
        "by": space.identify().name,
    }


def _name(run_id: str, position: int, metric: str) -> str:
    return f"{metric} of {run_id} answer {position}"

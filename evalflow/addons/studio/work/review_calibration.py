"""Calibration of a run's judges by the labels of a review, and saving it as the command `calibrate` does."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.reviews import ReviewedAnswer
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.comparing import scored_of, scored_runs, share_scores
from evalflow.addons.studio.work.review_results import (
    ShownLabel,
    current_labels,
    flags_of,
    item_key,
    review_labels,
    shown_label,
)
from evalflow.addons.studio.work.review_rows import StoredReview, stored_review
from evalflow.addons.studio.work.reviews import scored_run
from evalflow.addons.studio.work.run_files import change_files
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.calibration import calibration_of, no_certificate
from evalflow.app.core.certificates import Certificate, saved_certificates
from evalflow.app.core.kept_labels import RunLabels, read_kept
from evalflow.app.core.labels import bound_labels, labels_of_run
from evalflow.app.core.rederive import Calibrated, calibrate_run, rewrite
from evalflow.app.core.saved import SavedRun
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.report.calibration import Calibration
from evalflow.report.page import verdict_of
from evalflow.report.wording import counted
from evalflow.summary.calibration import CalibrationRow

log = logging.getLogger("evalflow")


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """An answer with the judge's score and people's score, both from 0 to 1; `value` is the grade as people gave it.

    `agreed` is 1 if judge and people agree, 0 if not, and one half if people are tied between the judge's class and
    another.
    """

    metric: str
    position: int | None
    dataset: str
    case_id: str
    judge: str | None
    score: float
    human: float
    difference: float
    agreed: float
    value: str | None
    reason: str | None
    labels: Sequence[ShownLabel]


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A judge's certificate for a metric: in words how well it agrees with people, and when it was issued (ISO 8601).

    `why_not` is why the labels do not suffice for one; empty if they do.
    """

    metric: str
    judge: str
    agreement: str = ""
    issued_at: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """How well the run's judges agree with the labels of a review.

    Attributes:
        is_provisional: Whether people may still label: the review is open, or they have answers that they began before.
        calibration: None without scored answers.
        cases: The labelled answers with a score; those on which judge and people differ most come first.
        is_saved: Whether the run was calibrated with exactly these labels.
        certificates: One for each judge, without `issued_at` until they are saved.
    """

    is_provisional: bool
    calibration: Calibration | None
    cases: Sequence[JudgedCase]
    is_saved: bool
    certificates: Sequence[IssuedCertificate]


@dataclass(frozen=True, slots=True)
class SavedCalibration:
    """The results of saving: certificates, and in words the gates and the exit code that people's labels decided."""

    certificates: Sequence[IssuedCertificate]
    changes: Sequence[str]


@requires("edit")
@takes_turn
def review_result(space: Workspace, name: str) -> ReviewResult:
    """Compare the run's judges with the labels of a review, as `calibrate` does with its export; saves nothing.

    UserError without labels, if the run was deleted, or if people compare the answers of two runs.
    """
    review = _of_judges(stored_review(space, name))
    run = scored_run(space, review.run_id)
    given_labels = list(review_labels(space, name))
    if not any(row["value"] is not None for row in given_labels):
        raise UserError(
            Problem("nobody has labelled an answer yet", "review", "this page then shows what labels say of the judge")
        )
    people = bound_labels(run, given_labels)
    calibration = calibration_of(run, people)
    rows, held, labels = space.read(stored.all_rows, review.id)
    items, flags = {item_key(row): row for row in rows}, flags_of(held)
    given: dict[tuple[int, str], list[ShownLabel]] = defaultdict(list)
    for row in current_labels(review.rubrics, labels):
        if row.is_given:
            given[row.item, row.metric].append(shown_label(row, flags))
    cases = [one for series in calibration.rows for one in _judged(series, items, given)] if calibration else []
    cases.sort(key=lambda one: (-abs(one.difference), one.dataset, one.case_id))
    is_saved = calibration is not None and _is_saved(run, people)
    return ReviewResult(
        review.state == "open" or any(one.is_reserved for one in held),
        calibration,
        cases,
        is_saved,
        _certificates(calibration, saved_certificates() if is_saved else []) if calibration else [],
    )


@requires("edit")
@takes_turn
def save_calibration(space: Workspace, name: str) -> SavedCalibration:
    """Calibrate the run with the labels of a closed review, as `calibrate --labels` does with their export.

    It issues the judge's certificates. From then on, gates and reports of the run count people's labels, and so do
    those of earlier runs that gave equal answers. TakenError while the review is open, or if something else works on
    the run.
    """
    review = _of_judges(stored_review(space, name))
    if review.state == "open":
        what = "people are still labelling, so the result is provisional"
        raise TakenError(Problem(what, "review", "close the review first"))
    rows = list(review_labels(space, name))
    calibration, _, changes = _apply_labels(space, review.run_id, lambda run: bound_labels(run, rows))
    if others := _follow_equal_answers(space, review.run_id):
        changes = [*changes, f"the labels also count in {counted(len(others), 'other run')}, which gave equal answers"]
    return SavedCalibration(_certificates(calibration, saved_certificates()), changes)


def _of_judges(review: StoredReview) -> StoredReview:
    if review.draw.against:
        what = "people compare the answers of two runs in this review, which says nothing of a judge"
        raise UserError(Problem(what, "review", "compare the two runs: the comparison shows what people prefer"))
    return review


def _is_saved(run: SavedRun, people: RunLabels) -> bool:
    """Whether the run was calibrated with the same labels."""
    with suppress(UserError):  # damaged labels, which `calibrate` would refuse
        kept = read_kept(run.folder)
        return kept is not None and kept.frame.drop("case_hash").equals(people.frame.drop("case_hash"))
    return False


def _certificates(calibration: Calibration, known: Sequence[Certificate]) -> list[IssuedCertificate]:
    """Of each metric's judge: the certificate that the run has, or would get."""
    run = calibration.manifest.run_id
    issued = {(one.metric, one.judge, one.dataset, one.target): one for one in known if one.run_id == run}
    shown: dict[tuple[str, str, str, str], IssuedCertificate] = {}
    for row in sorted(calibration.rows, key=lambda row: -row.corrected.n):
        if row.judge is None:
            continue
        key = (row.metric, row.judge, row.dataset, row.target)
        one = issued.get(key)
        about = IssuedCertificate(row.metric, row.judge, why_not=no_certificate(row))
        if one is not None:
            facts: Mapping[str, object] = {"agreement": one.agreement, "bias": one.bias}
            facts = {**facts, "n_labels": one.n_labels, "dataset": one.dataset}
            about = IssuedCertificate(row.metric, row.judge, verdict_of(row.metric, facts), one.issued_at)
        shown.setdefault(key, about)
    return list(shown.values())


def _judged(
    series: CalibrationRow,
    items: Mapping[tuple[str, str, str, int], ReviewedAnswer],
    given: Mapping[tuple[int, str], Sequence[ShownLabel]],
) -> Iterator[JudgedCase]:
    labelled, classes = series.answers.filter(series.answers["human"].is_not_null()), series.classes
    agreed = (labelled["score"] == labelled["human"]).cast(float).to_list()
    if classes is not None and not classes.by_threshold:
        agreed = classes.agreed.tolist()
    answers = labelled.select("case_id", "target_repeat", "score", "human", "said", "reason")
    for (case_id, repeat, score, human, verdict, reason), same in zip(answers.iter_rows(), agreed, strict=True):
        item = items.get((series.dataset, case_id, series.target, repeat))
        yield JudgedCase(
            metric=series.metric,
            position=item.position if item else None,
            dataset=series.dataset,
            case_id=case_id,
            judge=series.judge,
            score=score,
            human=human,
            difference=score - human,
            agreed=same,
            value=verdict if isinstance(verdict, str) else None,
            reason=reason,
            labels=given.get((item.item, series.metric), ()) if item else (),
        )


def _apply_labels(space: Workspace, run_id: str, labels: Callable[[SavedRun], RunLabels]) -> Calibrated:
    """Calibrate a run with labels, as the command `calibrate` does, with its certificates, gates and reports.

    `labels` is called once, while nothing else works on the run's files. UserError if none of the labelled answers has
    a score; TakenError while the run has not ended, or something else works on it.
    """
    done: list[Calibrated] = []

    def change(saved: SavedRun) -> None:
        calibration = calibrate_run(saved.folder, labels(saved))
        if calibration is None:
            hint = "look at the run's errors first: only scored answers can be calibrated"
            raise UserError(Problem("none of the labelled answers was scored", "labels", hint))
        done.append(calibration)

    change_files(space, run_id, ["calibration"], None, change)
    return done[0]


def _follow_equal_answers(space: Workspace, run_id: str) -> list[str]:
    """Derive again the results of the runs that now use labels of this run; returns their ids.

    A run that is active is calibrated when it ends, and one that cannot be read is left as it is.
    """
    labelled, followers = get_run(space, run_id), list[str]()
    for one in scored_runs(space):
        if one.run_id == run_id or not share_scores(labelled, one):
            continue
        try:
            labels = labels_of_run(scored_of(one))
            if labels is not None and any(other.run == run_id for other in labels.followed):
                change_files(space, one.run_id, ["calibration"], None, lambda saved: rewrite(saved.folder))
                followers.append(one.run_id)
        except EvalflowError as error:
            log.warning("labels of %s do not follow into %s: %s", run_id, one.run_id, error)
    return followers

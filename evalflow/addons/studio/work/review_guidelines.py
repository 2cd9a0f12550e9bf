"""The guidelines of a review: revised, and answers that were labelled by older ones given out again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.reviews import Assignment, GivenLabel
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_rows import metrics_column, stored_review
from evalflow.addons.studio.work.reviews import Review, change_review, guideline_text
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError, did_you_mean


@requires("edit")
def revise_guidelines(space: Workspace, name: str, expected: int, guidelines: Mapping[str, str]) -> Review:
    """Change the guidelines of metrics. Labels that follow the older ones then count no more."""
    review = stored_review(space, name)
    unknown = [metric for metric in guidelines if metric not in review.guidelines]
    if unknown:
        what = f"the review has no metric {unknown[0]!r}"
        raise UserError(Problem(what, "guidelines", did_you_mean(unknown[0], review.guidelines)))
    new = {**review.guidelines, **{metric: guideline_text(text) for metric, text in guidelines.items()}}
    metrics = [
        metric
        if (before := review.guidelines[metric.name]) == new[metric.name]
        else replace(metric, rubric=metric.rubric + 1, older=[*metric.older, before])
        for metric in review.metrics
    ]
    return change_review(space, name, expected, {"guidelines": new, "metrics": metrics_column(metrics)})


@requires("edit")
def give_out_again(space: Workspace, name: str, expected: int) -> Review:
    """Ask people again, first of all, for the answers that they have submitted by older guidelines only.

    The review is open from then on. The earlier labels stay, with their `rubric`; the desk does not show them, so that
    nobody is led by what they said before.
    """
    changed = change_review(space, name, expected, {"state": "open"})
    with space.changing("give out again", "review", name) as connection:
        labels = stored.label_rows(connection, changed.id)
        rubrics = {metric.name: metric.rubric for metric in changed.metrics}
        held = stored.review_assignments(connection, changed.id)
        anew: dict[str, object] = {"state": "open", "draft": {}, "is_flagged": False, "seconds": 0.0, "expires_at": 0.0}
        for item, person in submitted_by_older(held, labels, rubrics):
            stored.change_assignment(connection, changed.id, item, person, anew)
    return changed


def submitted_by_older(
    held: Sequence[Assignment], labels: Sequence[GivenLabel], rubrics: Mapping[str, int]
) -> Collection[tuple[int, str]]:
    """The items and people of submitted answers without a label by the newest guidelines on some metric.

    `rubrics`: the newest versions, by metric.
    """
    latest_rubrics = {
        (row.item, row.by, row.metric): row.rubric
        for row in sorted(labels, key=lambda row: row.rubric)
        if row.kind == "label"
    }
    older = {(item, by) for (item, by, metric), rubric in latest_rubrics.items() if rubric != rubrics[metric]}
    return [one for row in held if row.state == "submitted" and (one := (row.item, row.by)) in older]

"""Guidelines of a review: their versions, and answers that are given out again."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.studio.work import review_guidelines, review_results, reviews
from evalflow.addons.studio.work.review_desk import (
    CANNOT_TELL,
    decline_item,
    next_item,
    open_item,
    own_progress,
    submit_item,
)
from evalflow.addons.studio.work.space import StaleError, TakenError, Workspace
from tests.addons.studio.work.test_reviews import bare_review, person


def test_guidelines_have_versions_and_labels_follow_the_one_that_was_read(space: Workspace) -> None:
    bare_review(space, [1, 1])
    eve, ann = person(space, "eve", "editor"), person(space, "ann")
    first = next_item(ann, "r")
    assert first is not None
    submit_item(ann, "r", first.item, {"m": True}, rubrics={"m": 1})
    reading = next_item(ann, "r")
    assert reading is not None
    revised = review_guidelines.revise_guidelines(eve, "r", 1, {"m": "Look twice."})
    assert review_guidelines.revise_guidelines(eve, "r", revised.version, {"m": "Look twice."}).metrics[0].rubric == 2
    [metric] = reviews.get_review(eve, "r").metrics
    assert (metric.rubric, metric.guidelines, metric.older) == (2, "Look twice.", [""])
    with pytest.raises(TakenError, match="guidelines were changed"):
        submit_item(ann, "r", reading.item, {"m": True}, rubrics={"m": reading.metrics[0].rubric})
    again = open_item(ann, "r", reading.item)
    assert (again.metrics[0].guidelines, again.metrics[0].older) == ("Look twice.", ())
    submit_item(ann, "r", reading.item, {"m": False}, rubrics={"m": 2})
    assert review_results.progress(eve, "r").rubrics == {"m": {1: 1, 2: 1}}


def test_answers_labelled_by_older_guidelines_are_given_out_again(space: Workspace) -> None:
    bare_review(space, [2, 1, 1, 1], ("ann", "ben"))
    eve, ann, ben = person(space, "eve", "editor"), person(space, "ann"), person(space, "ben")
    label(ann, 0)
    label(ben, 0)
    label(ann, 1)
    declined = next_item(ann, "r")
    assert declined is not None
    decline_item(ann, "r", declined.item)
    assert review_results.progress(eve, "r").outdated == 0
    revised = review_guidelines.revise_guidelines(eve, "r", 1, {"m": "Look twice."})
    assert review_results.progress(eve, "r").outdated == 2
    label(ann, 3)
    with pytest.raises(StaleError):
        review_guidelines.give_out_again(eve, "r", 1)
    closed = review_results.close_review(eve, "r", revised.version)
    assert review_guidelines.give_out_again(eve, "r", closed.version).state == "open"
    found = review_results.progress(eve, "r")
    assert (found.outdated, found.labels) == (0, 1)
    assert [row["item"] for row in rows(eve) if row["rubric"] == 2 and row["missing"] is None] == [3]
    assert own_progress(ann, "r").left == 2
    again = next_item(ann, "r")
    assert again is not None
    assert (again.item, again.state, again.draft, again.metrics[0].guidelines) == (0, "open", {}, "Look twice.")
    assert missing(eve) == [0]  # it was served again, and has no label yet
    submit_item(ann, "r", 0, {"m": False}, rubrics={"m": 2})
    submit_item(ann, "r", 0, {"m": CANNOT_TELL}, rubrics={"m": 2})  # corrected: in the place of the last one only
    label(ben, 0)
    label(ben, 1)  # ann did not come back for it
    label(ben, 2)
    assert next_item(ann, "r") is None
    assert next_item(ben, "r") is None
    of_first = [(row["by"], row["rubric"], row["value"]) for row in rows(eve) if row["item"] == 0]
    assert sorted(of_first, key=str) == [("ann", 1, True), ("ann", 2, None), ("ben", 1, True), ("ben", 2, True)]
    assert all(row["at"] for row in rows(eve))
    assert review_results.progress(eve, "r").rubrics == {"m": {1: 3, 2: 5}}
    assert reviews.get_review(eve, "r").items_done == 4


def label(person: Workspace, item: int) -> None:
    """Label the next answer, which is this one."""
    found = next_item(person, "r")
    assert found is not None
    assert found.item == item
    submit_item(person, "r", item, {"m": True})


def rows(space: Workspace) -> list[dict[str, Any]]:
    """The labels of the review that people gave, in the order of its items."""
    return [{**row, "item": row["position"]} for row in review_results.review_labels(space, "r") if row["by"]]


def missing(space: Workspace) -> list[int]:
    """The served answers without a label by the newest guidelines."""
    found: Any = review_results.review_labels(space, "r")
    return [row["position"] for row in found if row["missing"] == "unfinished"]

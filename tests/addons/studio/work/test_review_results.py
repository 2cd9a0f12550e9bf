"""What a review finds: from labels at the desk to the corrected mean."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import review_calibration, review_guidelines, review_results, reviews
from evalflow.addons.studio.work.review_desk import CANNOT_TELL, decline_item, next_item, open_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import NotFoundError, Workspace, open_workspace
from evalflow.app.core.calibration import calibration_of
from evalflow.app.core.labels import read_labels
from evalflow.errors import UserError
from evalflow.labels.columns import LABEL_COLUMNS
from tests.addons.studio.web.finished import Finished, finish_runs
from tests.addons.studio.work.test_reviews import add_people, person


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Finished]]:
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        opened = open_workspace()
        made = finish_runs(opened)
        add_people(opened, {"ann": "annotator", "ben": "annotator", "eve": "editor"})
        yield opened, made
        opened.close()


def test_two_people_label_disagree_and_are_resolved(finished: tuple[Workspace, Finished], tmp_path: Path) -> None:
    space, runs = finished
    eve, ann, ben = person(space, "eve", "editor"), person(space, "ann"), person(space, "ben")
    request = ReviewRequest(name="r", run_id=runs.better, metrics=["exact"], size=10, people=["ann", "ben"], seed=3)
    reviews.create_review(eve, request)
    with pytest.raises(UserError, match="label"):
        review_calibration.review_result(eve, "r")
    for i in range(8):  # and the last two are not reached
        for me in (ann, ben):
            found = next_item(me, "r")
            assert found is not None
            assert found.item == i
            value = i != 3 or me is ann
            if i == 7 and me is ben:
                continue  # closes the browser
            submit_item(me, "r", i, {"exact": CANNOT_TELL if i == 5 else value}, f"Said {i}.", seconds=10 + i)
    found = review_results.progress(eve, "r")
    assert (found.labels, found.wanted) == (15, 20)
    assert [(one.name, one.done, one.median_seconds) for one in found.people] == [("ann", 8, 13.5), ("ben", 7, 13)]
    [agreement] = found.agreement
    assert agreement.doubled == 6
    assert agreement.alpha.value is not None
    [apart] = review_results.disagreements(eve, "r")
    assert (apart.item, Counter(one.value for one in apart.labels)) == (3, Counter([0.0, 1.0]))
    assert "ann" not in json.dumps([one.comment for one in apart.labels])
    with pytest.raises(UserError, match="reason"):
        review_results.resolve(eve, "r", 3, "exact", 1, "x" * (review_results.LONGEST_REASON + 1))
    with pytest.raises(NotFoundError):
        review_results.resolve(eve, "r", 99, "exact", 1, "No such.")
    review_results.resolve(eve, "r", 3, "exact", 0, "Wrong at first.")
    review_results.resolve(eve, "r", 3, "exact", 1, "It is the fee.")
    [apart] = review_results.disagreements(eve, "r")
    assert (apart.is_resolved, apart.resolved, apart.reason) == (True, 1.0, "It is the fee.")
    assert review_results.progress(eve, "r").agreement == found.agreement
    rows = list(review_results.review_labels(eve, "r"))
    assert {tuple(row) for row in rows} <= {tuple(row) for row in rows[:1]} | {tuple(rows[-1])}
    assert all(set(row) == set(LABEL_COLUMNS) for row in rows)
    assert {row["pi"] for row in rows} == {8 / 12}
    assert Counter((row["kind"], row["missing"]) for row in rows) == {
        ("label", None): 13,
        ("label", "cannot_tell"): 2,
        ("resolution", None): 1,
    }
    assert review_results.labels_csv(eve, "r").count("\n") == 17
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = review_calibration.review_result(eve, "r")
    run = reviews.scored_run(eve, runs.better)
    by_file = calibration_of(run, read_labels(run, str(file)))
    assert result.calibration is not None
    assert by_file is not None
    assert [row.corrected for row in result.calibration.rows] == [row.corrected for row in by_file.rows]
    assert result.is_provisional
    judged = result.cases
    assert len(judged) == 7
    assert [abs(one.difference) for one in judged] == sorted((abs(one.difference) for one in judged), reverse=True)


def test_strata_and_groups_are_weighted_by_what_was_served(finished: tuple[Workspace, Finished]) -> None:
    space, runs = finished
    eve, ann = person(space, "eve", "editor"), person(space, "ann")
    request = ReviewRequest(
        name="s", run_id=runs.worse, metrics=["exact"], size=8, people=["ann"], method="strata", seed=3
    )
    made = reviews.create_review(eve, request)
    assert made.doubled == 0
    for _ in range(5):
        found = next_item(ann, "s")
        assert found is not None
        submit_item(ann, "s", found.item, {"exact": 1})
    last = next_item(ann, "s")
    assert last is not None
    decline_item(ann, "s", last.item)
    rows: list[Any] = list(review_results.review_labels(eve, "s"))
    assert [row["missing"] for row in rows] == [None] * 5 + ["declined"]
    with pytest.raises(NotFoundError):
        open_item(ann, "s", last.item)
    total = sum(row["weight"] for row in rows)
    assert total in (11, 12)  # the only right answer may not have been served yet
    after = review_guidelines.revise_guidelines(eve, "s", made.version, {"exact": "Look again."})
    assert after.metrics[0].rubric == 2
    now = next_item(ann, "s")
    assert now is not None
    newer = list(review_results.review_labels(eve, "s"))
    assert Counter((row["rubric"], row["missing"]) for row in newer) == {
        (1, None): 5,
        (1, "declined"): 1,
        (2, "unfinished"): 1,
    }

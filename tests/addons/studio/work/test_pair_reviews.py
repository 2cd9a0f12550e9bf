"""Reviews in which people say which of two answers is better, blind to whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, review_desk, review_results, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.review_calibration import review_result, save_calibration
from evalflow.addons.studio.work.review_desk import DeskItem, next_item, open_item, submit_item
from evalflow.addons.studio.work.review_results import review_labels
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.work.test_reviews import add_people, person
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [ON_SQLITE, pytest.mark.slow]
BETTER: dict[str, Any] = {
    "kind": "pairwise",
    "description": "Which answer helps more.",
    "needs": ["question", "answer", "vars.old"],
    "against": "vars.old",
    "criteria": "The better answer helps more.",
}
COUNT = 24


def prefers_the_new(request: Request) -> dict[str, str]:
    """A judge that likes each new answer."""
    first = request.text.partition("<first id=")[2].partition("</first id=")[0]
    return {"reason": "It helps.", "better": "first" if "new" in first else "second"}


@pytest.fixture(name="run")
def _run(space: Workspace) -> str:
    with Endpoint(prefers_the_new) as endpoint:
        bots.create_bot(space, "desk", {"kind": "recorded"})
        metrics.create_metric(space, "desk", MetricDraft("better", BETTER))
        metrics.create_metric(space, "desk", MetricDraft("exact", {**EXACT, "gate": None}))
        datasets.create_dataset(space, "mine")
        rows = [
            {"id": f"c{i}", "question": f"Q{i}?", "answer": f"new {i}", "vars": {"old": f"old {i}"}, "reference": "x"}
            for i in range(COUNT)
        ]
        cases.add_cases(space, "mine", rows)
        values = {"model": "m", "base_url": endpoint.url, "api_key_env": None}
        request = RunRequest("desk", ["mine"], ["better", "exact"], judge="openai", judge_values=values)
        ended = finish(space, request).run_id
    add_people(space, dict.fromkeys(("ann", "ben"), "annotator"))
    return ended


def review_of(space: Workspace, run: str, *chosen: str) -> None:
    people = ["ann", "ben"]
    request = ReviewRequest(name="r", run_id=run, metrics=chosen, size=COUNT, people=people, overlap=1.0)
    reviews.create_review(space, request)


def served(space: Workspace, name: str, prefers: str) -> dict[str, DeskItem]:
    """Have a person label every answer as they prefer one; returns what they were shown, by question."""
    someone, found = person(space, name), dict[str, DeskItem]()
    while (item := next_item(someone, "r")) is not None:
        assert item.other is not None
        found[item.messages[-1]["content"]] = item
        submit_item(someone, "r", item.item, {"better": "first" if item.answer.startswith(prefers) else "second"})
    return found


def test_sides_tell_nothing_and_labels_are_of_the_answer(space: Workspace, run: str) -> None:
    review_of(space, run, "better")
    seen: Mapping[str, Mapping[str, DeskItem]] = {
        "ann": served(space, "ann", "new"),
        "ben": served(space, "ben", "old"),
    }
    for shown in seen.values():
        assert {item.answer.split()[0] for item in shown.values()} == {"new", "old"}
        assert all({item.answer[:3], str(item.other)[:3]} == {"new", "old"} for item in shown.values())
        assert [metric.scale.labels for metric in next(iter(shown.values())).metrics] == [["first", "second", "tie"]]
    assert any(seen["ann"][q].answer != seen["ben"][q].answer for q in seen["ann"])
    labels = [(row["by"], row["value"]) for row in review_labels(space, "r")]
    assert sorted(labels) == sorted([("ann", "win"), ("ben", "loss")] * COUNT)


def test_a_submitted_preference_is_shown_again_in_the_same_order(space: Workspace, run: str) -> None:
    review_of(space, run, "better")
    ann = person(space, "ann")
    item = next_item(ann, "r")
    assert item is not None
    for wrong in ("win", "third"):
        with pytest.raises(UserError):
            submit_item(ann, "r", item.item, {"better": wrong})
    submit_item(ann, "r", item.item, {"better": "second"})
    again = open_item(ann, "r", item.item)
    assert (again.answer, again.other) == (item.answer, item.other)
    assert again.draft["values"] == {"better": "second"}


def test_preferences_correct_the_judge_as_other_labels_do(space: Workspace, run: str) -> None:
    review_of(space, run, "better")
    for name in ("ann", "ben"):
        served(space, name, "new")
    review = reviews.get_review(space, "r")
    review_results.close_review(space, "r", review.version)
    found = review_result(space, "r").calibration
    assert found is not None
    (row,) = found.rows
    assert (row.metric, row.corrected.n, row.corrected.estimate) == ("better", COUNT, 1.0)
    save_calibration(space, "r")
    assert review_result(space, "r").is_saved


def test_one_review_is_of_two_answers_or_of_one(space: Workspace, run: str) -> None:
    assert reviews.candidates(space, run).compared == ["better"]
    with pytest.raises(UserError, match="cannot judge one answer and compare two"):
        review_of(space, run, "better", "exact")
    review_of(space, run, "exact")
    item = next_item(person(space, "ann"), "r")
    assert item is not None
    assert item.other is None
    assert review_desk.own_progress(person(space, "ann"), "r").left == COUNT

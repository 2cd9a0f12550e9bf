"""Reviews of two runs: people say which run's answer is better without knowing whose it is; the comparison shows it."""

from __future__ import annotations

import pytest

from evalflow.addons.studio.work import (
    comparing,
    pair_reviews,
    review_guidelines,
    review_results,
    reviews,
)
from evalflow.addons.studio.work.review_calibration import review_result, save_calibration
from evalflow.addons.studio.work.review_desk import CANNOT_TELL, decline_item, next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.scores import note_view
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from evalflow.report.comparison_sentences import preference_in_words
from tests.addons.studio.web.finished import EVIL, Finished, finish_runs
from tests.addons.studio.work.test_reviews import add_people, person
from tests.postgres import ON_SQLITE

pytestmark = [ON_SQLITE, pytest.mark.slow]


@pytest.fixture(name="made")
def _made(space: Workspace) -> Finished:
    add_people(space, dict.fromkeys(("ann", "ben"), "annotator"))
    return finish_runs(space)


def request(made: Finished, **changes: object) -> ReviewRequest:
    values = {"name": "r", "run_id": made.better, "against": made.worse, "metrics": [], "size": 10, "people": ["ann"]}
    return ReviewRequest(**{**values, **changes})


def label(space: Workspace, name: str, review: str = "r", *, sides: set[str] | None = None) -> None:
    """Have somebody prefer the right answer of each pair; `sides` gets where they saw it."""
    someone = person(space, name)
    while (item := next_item(someone, review)) is not None:
        assert {item.answer, item.other} >= {EVIL}
        assert (item.contexts, item.metrics[0].title) == (None, "Which answer is better")
        place = "second" if item.answer == EVIL else "first"
        if sides is not None:
            sides.add(place)
        submit_item(someone, review, item.item, {"preference": place})


def test_people_prefer_one_run_and_the_comparison_says_so(space: Workspace, made: Finished) -> None:
    review = reviews.create_review(space, request(made, size=12, overlap=0.5, people=["ann", "ben"]))
    assert (review.size, review.population, review.doubled, review.same) == (12, 12, 12, 0)
    asked = comparing.compare_runs(space, made.worse, made.better)
    assert asked.preferred == ["Nobody has said yet which answer is better."]
    sides: set[str] = set()
    for name in ("ann", "ben"):
        label(space, name, sides=sides)
    assert sides == {"first", "second"}
    found = comparing.compare_runs(space, made.worse, made.better)
    (one,) = found.preferences
    assert (one.n, one.wins, one.losses, one.verdict) == (12, 11, 1, "second")
    said = "prefer New prompt: its answer in 11 of 12 cases, that of As it was in 1 ("
    assert found.preferred[0].startswith(f"Provisional: people may still label. So far they {said}")
    assert one.document()["is_provisional"]
    assert one.unfinished == ["r"]
    (back,) = comparing.compare_runs(space, made.better, made.worse).preferences
    assert (back.wins, back.losses, back.verdict) == (1, 11, "first")
    rows = list(review_results.review_labels(space, "r"))
    assert {row["metric"] for row in rows} == {"preference"}
    assert {row["value"] for row in rows} == {"loss", "win"}
    with pytest.raises(UserError, match="says nothing of a judge"):
        review_result(space, "r")
    review_results.close_review(space, "r", reviews.get_review(space, "r").version)
    with pytest.raises(UserError, match="says nothing of a judge"):
        save_calibration(space, "r")
    closed = comparing.compare_runs(space, made.worse, made.better)
    assert closed.preferred[0].startswith(f"People {said}")
    assert not closed.preferences[0].is_provisional


def test_cases_without_a_label_that_counts_are_counted_by_why(space: Workspace, made: Finished) -> None:
    reviews.create_review(space, request(made))
    ann = person(space, "ann")
    label(space, "ann")

    def said() -> str:
        return preference_in_words(pair_reviews.preference_in(space, "r"))

    version = reviews.get_review(space, "r").version
    revised = review_guidelines.revise_guidelines(space, "r", version, {"preference": "Look twice."})
    older = "The labels of 10 cases are by older guidelines and no longer count."
    assert said() == f"No preference is known yet. {older}"
    review_guidelines.give_out_again(space, "r", revised.version)
    assert said() == f"No preference is known yet. {older}"
    for done in range(3):
        item = next_item(ann, "r")
        assert item is not None
        if done == 0:
            decline_item(ann, "r", item.item)
        else:
            submit_item(ann, "r", item.item, {"preference": CANNOT_TELL if done == 1 else "first"})
    counted = pair_reviews.preference_in(space, "r")
    assert (counted.n, counted.unsure, counted.outdated, counted.declined) == (1, 1, 7, 1)
    assert said().endswith(
        "In 1 more case nobody could tell. The labels of 7 more cases are by older guidelines and no longer count. "
        "1 more case was declined."
    )


def test_labels_say_who_has_seen_the_answers_of_either_run_before(space: Workspace, made: Finished) -> None:
    add_people(space, {"carl": "annotator"})
    seen: dict[str, str] = {"ann": made.worse, "ben": made.better, "carl": ""}
    labelled: dict[str, set[object]] = {}
    for name, run in seen.items():
        if run:
            note_view(person(space, name, "viewer"), run)
        reviews.create_review(space, request(made, name=name, people=[name]))
        label(space, name, name)
        labelled[name] = {row["seen_before"] for row in review_results.review_labels(space, name)}
    assert labelled == {"ann": {True}, "ben": {True}, "carl": {False}}
    note_view(space, made.worse)
    review_results.resolve(space, "carl", 0, "preference", "loss", "It is ruder.")
    decided = [row for row in review_results.review_labels(space, "carl") if row["kind"] == "resolution"]
    assert [row["seen_before"] for row in decided] == [True]


def test_a_decision_replaces_a_tie_and_another_review_adds_to_the_first(space: Workspace, made: Finished) -> None:
    reviews.create_review(space, request(made, overlap=1.0, people=["ann", "ben"], size=12))
    for name, place in (("ann", "first"), ("ben", "second")):
        someone = person(space, name)
        item = next_item(someone, "r")
        assert item is not None
        assert item.item == 0
        best = "second" if item.answer == EVIL else "first"
        worst = "first" if best == "second" else "second"
        submit_item(someone, "r", 0, {"preference": best if place == "first" else worst})
    assert pair_reviews.preference_in(space, "r").ties == 1
    review_results.resolve(space, "r", 0, "preference", "loss", "It is ruder.")
    assert pair_reviews.preference_in(space, "r").losses == 1
    reviews.create_review(space, request(made, name="again", run_id=made.worse, against=made.better, size=12))
    label(space, "ann", "again")
    both = pair_reviews.preference_between(space, made.worse, made.better)
    assert both is not None
    assert both.n == 12
    assert both.wins + both.losses + both.ties == 12


def test_what_cannot_be_compared_is_refused(space: Workspace, made: Finished) -> None:
    for changes, said in (
        ({"against": made.better}, "this is one run, not two"),
        ({"metrics": ["exact"]}, "judge no metric"),
        ({"method": "groups"}, "drawn at random"),
        ({"run_id": made.other, "against": made.better}, "the answers of both runs are the same"),
    ):
        with pytest.raises(UserError, match=said):
            reviews.create_review(space, request(made, **changes))

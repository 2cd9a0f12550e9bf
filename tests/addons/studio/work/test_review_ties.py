"""A review closes once ties are decided, or if somebody closes it with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from evalflow.addons.studio.store.reviews import GivenLabel
from evalflow.addons.studio.work import review_calibration, review_results, reviews
from evalflow.addons.studio.work.review_desk import CANNOT_TELL, next_item, submit_item
from evalflow.addons.studio.work.review_results import ties_of
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import TakenError, Workspace
from tests.addons.studio.web.judged import finish_judged
from tests.addons.studio.work.test_reviews import add_people, person


@pytest.mark.slow
def test_ties_are_decided_before_a_review_closes(space: Workspace) -> None:
    run = finish_judged(space, 20)
    add_people(space, {"ann": "annotator", "ben": "annotator", "eve": "editor"})
    eve = person(space, "eve", "editor")
    request = ReviewRequest(
        name="my r", run_id=run.run_id, metrics=["right"], size=20, people=["ann", "ben"], seed=3, overlap=1
    )
    made = reviews.create_review(eve, request)
    for who in ("ann", "ben"):
        me = person(space, who)
        while (found := next_item(me, "my r")) is not None:
            tied = found.item in (2, 5, 9) and who == "ben"
            submit_item(me, "my r", found.item, {"right": CANNOT_TELL if found.item == 7 and tied else not tied})
    assert review_results.progress(eve, "my r").ties == 3
    with pytest.raises(TakenError, match="3 ties between people are to be decided first") as refused:
        review_results.close_review(eve, "my r", made.version)
    assert "/reviews/my%20r#disagreements" in str(refused.value.problems[0].hint)
    review_results.resolve(eve, "my r", 5, "right", True, "It is.")
    found = review_results.disagreements(eve, "my r")
    assert [(one.item, one.is_tied, one.is_resolved) for one in found] == [
        (2, True, False),
        (9, True, False),
        (5, False, True),
    ]
    with pytest.raises(TakenError, match="2 ties between"):
        review_results.close_review(eve, "my r", made.version)
    closed = review_results.close_review(eve, "my r", made.version, allow_ties=True)
    assert closed.state == "closed"
    result = review_calibration.review_result(eve, "my r")
    assert result.calibration is not None
    [row] = result.calibration.rows
    assert sum(0 < one.agreed < 1 for one in result.cases) == 2
    assert row.agreement["accuracy"].value == pytest.approx(sum(one.agreed for one in result.cases) / 20)
    assert row.corrected.human_mean == pytest.approx((18 + 2 * 0.5) / 20)
    reviews.reopen_review(eve, "my r", closed.version)
    for item in (2, 9):
        review_results.resolve(eve, "my r", item, "right", False, "It is not.")
    assert review_results.close_review(eve, "my r", closed.version + 1).state == "closed"


values = st.one_of(st.sampled_from([0, 1, 0.0, 1.0, True, False]), st.sampled_from(["a", "b"]), st.none())


@given(st.lists(values, max_size=5), st.booleans())
def test_a_tie_is_between_values_that_equally_many_people_gave(given_values: list[Any], is_decided: bool) -> None:
    first = GivenLabel(0, "m", 1, "label", None, None, "", None, "", None, blind=True, seen_before=False)
    labels = [replace(first, value=value, by=str(i)) for i, value in enumerate(given_values)]
    labels += [replace(first, kind="resolution", value=1, by="eve")] * is_decided
    counts = sorted((given_values.count(value) for value in {*given_values} - {None}), reverse=True)
    tied = len(counts) > 1 and counts[0] == counts[1] and not is_decided
    assert ties_of({"m": 1}, labels) == ([(0, "m")] if tied else [])

"""What people prefer in reviews of two runs: which answer to the same case is better, blind to whose it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_results import current_labels
from evalflow.addons.studio.work.review_rows import REVIEWS, StoredReview, found_review, read_review
from evalflow.addons.studio.work.space import Workspace
from evalflow.metrics.scale import read_label
from evalflow.summary.preferences import PeoplePreference, preference_of

Place = tuple[str, str, int]
"""Which pair of answers: dataset, case and repeat."""


@requires("read")
def pair_reviews(space: Workspace, a: str, b: str) -> list[StoredReview]:
    """The reviews in which people compare the answers of these two runs, the newest first."""
    found = [one for one in map(read_review, REVIEWS.rows(space)) if {one.run_id, one.draw.against} == {a, b}]
    return sorted(found, key=lambda one: -one.id)


@requires("read")
def preference_between(space: Workspace, a: str, b: str) -> PeoplePreference | None:
    """What people prefer, run A's answers or run B's, over all reviews of both; None if nobody was asked."""
    found = pair_reviews(space, a, b)
    return _preference(space, (a, b), found) if found else None


@requires("edit")
def preference_in(space: Workspace, name: str) -> PeoplePreference:
    """What people prefer in one review."""
    review = found_review(space, name)
    return _preference(space, (review.draw.against, review.run_id), [review])


def _preference(space: Workspace, pair: tuple[str, str], reviews: list[StoredReview]) -> PeoplePreference:
    given: dict[Place, list[float]] = defaultdict(list)
    clusters: dict[Place, str] = {}
    shown: set[Place] = set()
    for review in reviews:
        for place, cluster, values in _of_review(space, review):
            shown.add(place)
            clusters[place] = cluster
            given[place] += values if review.run_id == pair[1] else [1 - value for value in values]
    known = [place for place in given if given[place]]
    return preference_of(
        pair,
        [fmean(given[place]) for place in known],
        [clusters[place] for place in known],
        unsure=len(shown) - len(known),
        population=max(review.draw.population for review in reviews),
        same=max(review.draw.same for review in reviews),
    )


def _of_review(space: Workspace, review: StoredReview) -> Iterator[tuple[Place, str, list[float]]]:
    """Each pair that somebody was shown, with its group and people's labels; a decision replaces the labels."""
    (metric,) = review.metrics
    items, held, labels = space.read(stored.all_rows, review.id)
    finished = {row.item for row in held if row.state != "open"}
    own: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for row in current_labels(review.rubrics, labels):
        if row.value is not None:
            own[row.item].append((row.kind, read_label(metric.scale, row.value)[0]))
    for item in items:
        if item.item in finished or item.item in own:
            decided = [value for kind, value in own[item.item] if kind == "resolution"]
            values = decided or [value for _, value in own[item.item]]
            yield (item.dataset, item.case_id, item.target_repeat), f"{item.dataset} {item.group}", values

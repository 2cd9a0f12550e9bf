"""People's preferences in reviews of two runs: which answer to the same case is better, without knowing its run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.reviews import GivenLabel, ReviewedAnswer
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_results import current_labels
from evalflow.addons.studio.work.review_rows import REVIEWS, StoredReview, stored_review
from evalflow.addons.studio.work.space import Workspace
from evalflow.metrics.scale import read_label
from evalflow.summary.preferences import PeoplePreference, preference_of

Place = tuple[str, str, int]
"""Which pair of answers: dataset, case and repeat."""
_Without = Literal["unsure", "outdated", "declined"]
"""Why a pair has no label that counts; of several reviews the first of these."""
_WITHOUT: Sequence[_Without] = get_args(_Without)


@requires("read")
def pair_reviews(space: Workspace, a: str, b: str) -> list[StoredReview]:
    """The reviews in which people compare the answers of these two runs, the newest first."""
    reviews = [one for one in REVIEWS.own(space) if {one.run_id, one.draw.against} == {a, b}]
    return sorted(reviews, key=lambda one: -one.id)


@requires("read")
def preference_between(space: Workspace, a: str, b: str) -> PeoplePreference | None:
    """Whether people prefer run A's answers or run B's, over all reviews of both; None if nobody was asked."""
    reviews = pair_reviews(space, a, b)
    return _preference(space, (a, b), reviews) if reviews else None


@requires("edit")
def preference_in(space: Workspace, name: str) -> PeoplePreference:
    """People's preferences in one review."""
    review = stored_review(space, name)
    return _preference(space, (review.draw.against, review.run_id), [review])


def _preference(space: Workspace, pair: tuple[str, str], reviews: list[StoredReview]) -> PeoplePreference:
    given: dict[Place, list[float]] = defaultdict(list)
    clusters: dict[Place, str] = {}
    without: dict[Place, set[_Without]] = defaultdict(set)
    unfinished: list[str] = []
    for review in reviews:
        items, held, labels = space.read(stored.all_rows, review.id)
        if review.state == "open" or any(row.is_reserved for row in held):
            unfinished.append(review.name)
        for place, cluster, outcome in _of_review(review, items, labels):
            clusters[place] = cluster
            if isinstance(outcome, str):
                without[place].add(outcome)
            else:
                given[place] += outcome if review.run_id == pair[1] else [1 - value for value in outcome]
    why = Counter(next(one for one in _WITHOUT if one in without[place]) for place in clusters if place not in given)
    return preference_of(
        pair,
        [fmean(values) for values in given.values()],
        [clusters[place] for place in given],
        **{name: why[name] for name in _WITHOUT},
        population=max(review.draw.population for review in reviews),
        same=max(review.draw.same for review in reviews),
        unfinished=unfinished,
    )


def _of_review(
    review: StoredReview, items: Sequence[ReviewedAnswer], labels: Sequence[GivenLabel]
) -> Iterator[tuple[Place, str, list[float] | _Without]]:
    """Each pair that somebody was done with, with its group and people's labels, or why it has none that count.

    A decision replaces the labels.
    """
    (metric,) = review.metrics
    newest = review.rubrics
    own: dict[int, list[GivenLabel]] = defaultdict(list)
    for row in labels:
        own[row.item].append(row)
    for item in items:
        if rows := own[item.item]:
            current = [row for row in current_labels(newest, rows) if row.value is not None]
            decided = [row for row in current if row.kind == "resolution"]
            values = [read_label(metric.scale, row.value)[0] for row in decided or current]
            place = (item.dataset, item.case_id, item.target_repeat)
            yield place, f"{item.dataset} {item.group}", values or _why_without(newest, rows)


def _why_without(newest: Mapping[str, int], rows: Sequence[GivenLabel]) -> _Without:
    """Why a pair with these labels has none that counts."""
    current = current_labels(newest, rows)
    if any(row.is_given for row in current):
        return "unsure"
    return "declined" if all(row.missing == "declined" for row in current or rows) else "outdated"

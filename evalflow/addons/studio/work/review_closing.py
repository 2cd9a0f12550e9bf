"""Closing a review: people decide first what they are tied on."""

from __future__ import annotations

from urllib.parse import quote

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_results import ties_of
from evalflow.addons.studio.work.review_rows import found_review
from evalflow.addons.studio.work.reviews import Review, change_review
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.errors import Problem
from evalflow.report.wording import counted


@requires("edit")
def close_review(space: Workspace, name: str, expected: int, *, allow_ties: bool = False) -> Review:
    """End the labelling: nothing more is served, and what people have begun they may submit while it is reserved.

    TakenError while ties are to be decided, unless `allow_ties`: each then counts as the mean of its labels.
    """
    review = found_review(space, name)
    if not allow_ties and (ties := ties_of(review.rubrics, space.read(stored.label_rows, review.id))):
        what = f"{counted(len(ties), 'tie')} between people {'is' if len(ties) == 1 else 'are'} to be decided first"
        hint = (
            f"decide them on /reviews/{quote(name, safe='')}#disagreements, or close it with allow_ties: a tie then "
            "counts as the mean of its labels"
        )
        raise TakenError(Problem(what, "state", hint))
    return change_review(space, name, expected, {"state": "closed"})

"""The desk: a person is given one answer of a review after the other, and labels it without seeing others' judgements.

Nothing that these functions return tells of run, target, judge, scores or other people.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.reviews import BegunItem, ReviewedAnswer
from evalflow.addons.studio.store.rows import Row, storable, storable_json
from evalflow.addons.studio.store.scores import CELL
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_rows import StoredReview, named_review
from evalflow.addons.studio.work.reviews import ReviewMetric, ReviewScale, as_metric
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.kinds.pairwise import VERDICTS
from evalflow.metrics.scale import LabelScale, read_label, scale_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

LEASE_S = 15 * 60.0
"""How long an answer is reserved for a person after they last did something."""
LONGEST_COMMENT, LONGEST_DRAFT = 10_000, 50_000
_SEARCHES = 10
_PLACES = LabelScale(type="label", values=dict.fromkeys(VERDICTS[0], 0.0))
_SIDES = ReviewScale("label", None, None, list(_PLACES.values), {}, scale_text(_PLACES))
"""How people say which of two answers is better, without knowing whose they are."""


class NoValue(Enum):
    """In the place of a value."""

    CANNOT_TELL = "cannot_tell"


CANNOT_TELL: Final = NoValue.CANNOT_TELL
"""Who labels an answer can tell no value."""


@dataclass(frozen=True, slots=True)
class DeskItem:
    """An answer to label.

    Attributes:
        item: Identifies it in the review.
        number: Its place among those that this person has opened, from 1.
        state: Whether they have submitted it already.
        messages: The conversation, each with role and content.
        answer: What is judged. With another, they are in an order that tells nothing of whose they are, and the values
            are first, second and tie.
        other: The second of two answers that are compared; None: one is judged.
        contexts, reference: None if they are not to be shown.
        draft: As it was saved, or what was submitted: values and comment, and cannot_tell, a list of metrics.
        lease_expires_at: Until when it is reserved, in seconds since 1970.
    """

    review: str
    item: int
    number: int
    state: Literal["open", "submitted"]
    messages: Sequence[Mapping[str, str]]
    answer: str
    other: str | None
    contexts: Sequence[Mapping[str, str]] | None
    reference: str | None
    metrics: Sequence[ReviewMetric]
    draft: Mapping[str, Any]
    is_flagged: bool
    seconds: float
    lease_expires_at: float


@dataclass(frozen=True, slots=True)
class OwnItem:
    """An answer that the person has opened. `number` is its place among these, from 1."""

    item: int
    number: int
    state: Literal["open", "submitted", "declined"]
    is_flagged: bool


@dataclass(frozen=True, slots=True)
class OwnProgress:
    """A person's progress: answers submitted, declined and left for them. Others may label those that are left.

    Of a closed review, those are left that they have begun.
    """

    done: int
    declined: int
    left: int
    items: Sequence[OwnItem]
    state: Literal["open", "closed"]


@requires("label")
def next_item(space: Workspace, name: str) -> DeskItem | None:
    """The next answer for the person who asks, leased to them for 15 minutes; None if none is left for them.

    The search reads; only taking what it found writes, so that people who ask at once wait for each other but briefly.
    TakenError if others took all that was found, several times in a row. Once the review is closed it is the answer
    that they have begun, while it is reserved.
    """
    me = space.identify().name
    for _ in range(_SEARCHES):
        moment = time.time()
        with space.database.reading() as connection:
            review = named_review(space, name, connection)
            if review.state != "open":
                return _begun_before_closing(connection, review, me)
            candidates = stored.candidates(connection, review.id, me, moment)
        if not candidates:
            return None
        with space.database.writing() as connection:
            item = stored.take(connection, review.id, candidates, me, moment, LEASE_S)
            if item is not None:
                return _read_item(connection, review, item, me)
    raise TakenError(Problem("others were given every answer that was free", "review", "ask again"))


@requires("label")
def open_item(space: Workspace, name: str, item: int) -> DeskItem:
    """An answer that the person has begun or submitted, to continue with it or to correct it."""
    me = space.identify().name
    with space.database.writing() as connection:
        review = named_review(space, name, connection)
        _expect_mine(connection, review, item, me)
        _extend(connection, review.id, item, me, {})
        return _read_item(connection, review, item, me)


@requires("label")
def save_draft(
    space: Workspace, name: str, item: int, draft: Mapping[str, object], seconds: float, *, flagged: bool = False
) -> None:
    """Save what the person has entered so far, as in `DeskItem.draft`, and extend their lease.

    `seconds` is the whole time that they have worked on it. A submitted answer is not changed by a draft.
    """
    me = space.identify().name
    if len(json.dumps(draft, default=str)) > LONGEST_DRAFT:
        raise UserError(Problem(f"a draft has at most {LONGEST_DRAFT:,} characters", "draft"))
    with space.database.writing() as connection:
        review = named_review(space, name, connection)
        if _expect_mine(connection, review, item, me).part.state == "open":
            kept = {"draft": storable_json(dict(draft)), "seconds": _seconds(seconds), "is_flagged": flagged}
            _extend(connection, review.id, item, me, kept)


@requires("label")
def submit_item(
    space: Workspace,
    name: str,
    item: int,
    values: Mapping[str, object],
    comment: str = "",
    *,
    flagged: bool = False,
    seconds: float = 0.0,
    rubrics: Mapping[str, int] | None = None,
) -> None:
    """Submit a value, or CANNOT_TELL, for every metric of an answer; it replaces what was submitted before.

    `rubrics`: by metric the versions of the guidelines that the person has read; TakenError if there are newer ones.
    """
    me, comment = space.identify().name, storable(comment.strip())
    if len(comment) > LONGEST_COMMENT:
        raise UserError(Problem(f"a comment has at most {LONGEST_COMMENT:,} characters", "comment"))
    with space.changing("label", "review", name) as connection:
        review = named_review(space, name, connection)
        if any((rubrics or {}).get(metric, rubric) != rubric for metric, rubric in review.rubrics.items()):
            what = "the guidelines were changed while you had this answer open"
            raise TakenError(Problem(what, "guidelines", "read them again, and submit"))
        begun = _expect_mine(connection, review, item, me)
        places = _places(review, begun, me)
        read = _read_values(review, begun.content.metrics, values, places)
        shown = {verdict: place for place, verdict in places.items()}
        submitted = {name: shown.get(str(value), value) for name, value in read.items() if value is not None}
        draft = {"values": submitted, "cannot_tell": [one for one in read if one not in submitted], "comment": comment}
        state = {"state": "submitted", "draft": draft, "is_flagged": flagged, "seconds": _seconds(seconds)}
        stored.change_assignment(connection, review.id, item, me, state)
        _put_labels(
            connection, review, begun.answer, me, read, {"comment": comment or None, "seconds": _seconds(seconds)}
        )


@requires("label")
def decline_item(space: Workspace, name: str, item: int, reason: str = "") -> None:
    """Hand an answer back; the person is not given it again, and another is."""
    me = space.identify().name
    with space.changing("decline", "review", name) as connection:
        review = named_review(space, name, connection)
        begun = _expect_mine(connection, review, item, me)
        stored.change_assignment(connection, review.id, item, me, {"state": "declined", "expires_at": 0.0})
        about = {"comment": storable(reason.strip())[:LONGEST_COMMENT] or None, "seconds": begun.part.seconds}
        nothing = dict.fromkeys(begun.content.metrics)
        _put_labels(connection, review, begun.answer, me, nothing, {**about, "missing": "declined"})


@requires("label")
def own_progress(space: Workspace, name: str) -> OwnProgress:
    """How far the person who asks is; also once the review is closed."""
    me = space.identify().name
    with space.database.reading() as connection:
        review = named_review(space, name, connection)
        opened = stored.opened_items(connection, review.id, me)
        if review.state == "open":
            left = stored.left_for(connection, review.id, me, time.time())
        else:
            left = sum(one.is_reserved for one in stored.review_assignments(connection, review.id, me))
    states = [state for _, state, _ in opened]
    items = [OwnItem(item, i, state, is_flagged) for i, (item, state, is_flagged) in enumerate(opened, 1)]
    return OwnProgress(states.count("submitted"), states.count("declined"), left, items, review.state)


def _begun_before_closing(connection: Connection, review: StoredReview, me: str) -> DeskItem | None:
    rows = stored.review_assignments(connection, review.id, me)
    begun = next((row.item for row in rows if row.is_reserved), None)
    return None if begun is None else _read_item(connection, review, begun, me)


def _expect_mine(connection: Connection, review: StoredReview, item: int, me: str) -> BegunItem:
    """The item and the person's part in it; refuses one that is not theirs to label."""
    begun = stored.begun_item(connection, review.id, item, me, time.time())
    if begun is None or begun.part.state == "declined":
        raise not_found("answer", str(item), [])
    if review.state != "open" and not begun.part.is_reserved:
        what = f"the review {review.name!r} is closed"
        raise TakenError(Problem(what, "review", "ask the person who created it to open it again"))
    if begun.part.state == "open" and not begun.untaken:
        what = "this answer was given to somebody else, because it was reserved for you no longer"
        raise TakenError(Problem(what, "item", "continue with the next one"))
    return begun


def _extend(connection: Connection, review: int, item: int, me: str, values: Mapping[str, object]) -> None:
    stored.change_assignment(connection, review, item, me, {**values, "expires_at": time.time() + LEASE_S})


def _read_item(connection: Connection, review: StoredReview, item: int, me: str) -> DeskItem:
    begun = stored.begun_item(connection, review.id, item, me, time.time())
    if begun is None:  # the review was deleted meanwhile
        raise not_found("answer", str(item), [])
    content, part, shown = begun.content, begun.part, review.shown
    places = _places(review, begun, me)
    is_turned = places.get("first") == "loss"
    metrics = [as_metric(one, review.guidelines[one.name]) for one in review.metrics if one.name in content.metrics]
    return DeskItem(
        review=review.name,
        item=item,
        number=begun.number,
        state="open" if part.state == "open" else "submitted",
        messages=content.messages,
        answer=content.answer if not is_turned or content.other is None else content.other,
        other=content.answer if is_turned else content.other,
        contexts=content.contexts if shown.contexts else None,
        reference=content.reference if shown.reference else None,
        metrics=[replace(one, scale=_SIDES) for one in metrics] if places else metrics,
        draft=begun.draft,
        is_flagged=part.is_flagged,
        seconds=part.seconds,
        lease_expires_at=part.expires_at,
    )


def _places(review: StoredReview, begun: BegunItem, me: str) -> Mapping[str, str]:
    """What the words for two places say of the answer in this person's order of the two; empty if one is judged.

    The order is drawn for each person and answer, and stays.
    """
    if begun.content.other is None:
        return {}
    order = hashlib.sha256(json.dumps([review.id, review.draw.seed, begun.answer.item, me]).encode()).digest()[0] % 2
    return VERDICTS[order]


def _read_values(
    review: StoredReview, metrics: Sequence[str], values: Mapping[str, object], places: Mapping[str, str]
) -> dict[str, object]:
    """The values on the metrics' own scales, None for CANNOT_TELL; a UserError names every problem."""
    scales = {metric.name: metric.scale for metric in review.metrics if metric.name in metrics}
    problems: list[Problem] = []
    for name in values:
        if name not in scales:
            problems.append(Problem(f"there is no metric {name!r} to label", name, did_you_mean(name, scales)))
    read: dict[str, object] = {}
    for name, scale in scales.items():
        value = values.get(name)
        if value is None or value == "":
            problems.append(Problem(f"{name} has no value yet", name, "give one, or say that you cannot tell"))
            continue
        try:
            if value is not CANNOT_TELL and places:
                value = places[str(read_label(_PLACES, value)[1])]
            read[name] = None if value is CANNOT_TELL else read_label(scale, value)[1]
        except ValueError as error:
            problems.append(Problem(f"{name}: {error}", name, "choose a value of the scale"))
    if problems:
        raise UserError(problems)
    return read


def _put_labels(
    connection: Connection,
    review: StoredReview,
    answer: ReviewedAnswer,
    me: str,
    read: Mapping[str, object],
    about: Mapping[str, object],
) -> None:
    seen = stored.has_viewed(connection, review.run_ids, me)
    rubrics = review.rubrics
    rows = [
        label_row(review, answer, me, metric, value, seen_before=seen, rubric=rubrics[metric])
        | {"missing": "cannot_tell" if value is None else None, **about}
        for metric, value in read.items()
    ]
    stored.replace_labels(connection, review.id, answer.item, rows, kind="label", by=me)


def label_row(
    review: StoredReview,
    answer: ReviewedAnswer,
    by: str,
    metric: str,
    value: object,
    *,
    seen_before: bool,
    rubric: int,
) -> Row:
    """A row of the blind labels of a review, with the weight of a single answer."""
    about = {name: getattr(answer, name) for name in (*CELL, "answer_hash")}
    return {
        **about,
        "project_id": review.project_id,
        "run": review.run,
        "metric": metric,
        "value": value,
        "by": by,
        "weight": 1.0,
        "comment": None,
        "blind": True,
        "seen_before": seen_before,
        "rubric": rubric,
        "seconds": None,
        "missing": None,
    }


def _seconds(seconds: float) -> float:
    return min(max(seconds, 0.0), 86_400.0) if math.isfinite(seconds) else 0.0

"""Reviews of answers by people: their items, assignments and labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from evalflow.addons.studio.store.rows import Row, chunks, every_as, from_row, now, one_as, upsert
from evalflow.addons.studio.store.tables import answers, assignments, labels, review_items, run_views, runs
from evalflow.app.core.reviewing import FrozenAnswer

_AT_ONCE = 500
_CANDIDATES = 20
LONGEST_LEASE_S = 20 * 60.0
"""A lease that lasts longer was made before the clock was set back, and has expired."""
_ITEM = [column for column in review_items.c if column.name != "content"]


# The desk's frequent queries are built once: building them takes longer than running them.
_others, _own = assignments.alias("others"), assignments.alias("own")
_HERE = review_items.c.review_id == bindparam("review")
_IS_MINE = and_(_own.c.review_id == bindparam("review"), _own.c.by == bindparam("person"))
_IS_OPENED = exists().where(_IS_MINE, _own.c.item == review_items.c.item)
_LEFT_S = assignments.c.expires_at - bindparam("moment")
_IS_EXPIRED = and_(assignments.c.state == "open", or_(_LEFT_S <= 0.0, _LEFT_S > LONGEST_LEASE_S))
_OTHERS_LEFT_S = _others.c.expires_at - bindparam("moment")
_HELD_BY_OTHERS = (
    select(func.count())
    .where(
        _others.c.review_id == bindparam("review"),
        _others.c.item == review_items.c.item,
        _others.c.by != bindparam("person"),
        or_(
            _others.c.state == "submitted",
            and_(_others.c.state == "open", _OTHERS_LEFT_S > 0.0, _OTHERS_LEFT_S <= LONGEST_LEASE_S),
        ),
    )
    .correlate(review_items)
    .scalar_subquery()
)
_UNTAKEN = select(review_items.c.item).where(_HERE, review_items.c.wanted > _HELD_BY_OTHERS)
_FREE = _UNTAKEN.where(~_IS_OPENED)
_BEGUN = _UNTAKEN.join(
    _own, and_(_own.c.review_id == review_items.c.review_id, _own.c.item == review_items.c.item)
).where(_IS_MINE, _own.c.state == "open")
_LISTED = review_items.c.item.in_(bindparam("items", expanding=True))
_FREE_OF = _FREE.where(_LISTED).order_by(review_items.c.item).limit(1)
_OPENED = select(_own.c.item, _own.c.state, _own.c.is_flagged).where(_IS_MINE).order_by(_own.c.opened_at, _own.c.item)
_earlier = assignments.alias("earlier")
_NUMBER = (
    select(1 + func.count())
    .where(
        _earlier.c.review_id == _own.c.review_id,
        _earlier.c.by == _own.c.by,
        tuple_(_earlier.c.opened_at, _earlier.c.item) < tuple_(_own.c.opened_at, _own.c.item),
    )
    .correlate(_own)
    .scalar_subquery()
)
_OF_PERSON = [column for column in _own.c if column.name not in ("review_id", "item")]
_BEGUN_ITEM = (
    select(review_items, *_OF_PERSON, _NUMBER.label("number"))
    .add_columns((review_items.c.wanted > _HELD_BY_OTHERS).label("untaken"))
    .join(_own, and_(_own.c.review_id == review_items.c.review_id, _own.c.item == review_items.c.item))
    .where(_HERE, _IS_MINE, review_items.c.item == bindparam("wanted_item"))
)

# Items are served in order. An item before a person's furthest one can be free only if somebody declined it or let it
# expire; so no search passes over all finished items again.
_FURTHEST_OWN = select(func.coalesce(func.max(_own.c.item), -1)).where(_IS_MINE).scalar_subquery()
_FURTHEST = (
    select(func.coalesce(func.max(assignments.c.item), -1))
    .where(assignments.c.review_id == bindparam("review"))
    .scalar_subquery()
)
_GIVEN_UP = select(assignments.c.item).where(
    assignments.c.review_id == bindparam("review"),
    assignments.c.state.in_(("declined", "open")),  # lets the query use the index: these are few
    or_(assignments.c.state == "declined", _IS_EXPIRED),
)
_RETURNED = _FREE.where(review_items.c.item < _FURTHEST_OWN, review_items.c.item.in_(_GIVEN_UP))
_AHEAD = _FREE.where(review_items.c.item > _FURTHEST_OWN)
_FIRST_RETURNED, _FIRST_AHEAD = (one.order_by(review_items.c.item).limit(_CANDIDATES) for one in (_RETURNED, _AHEAD))
_BETWEEN = _AHEAD.where(review_items.c.item <= _FURTHEST)
_UNTOUCHED = select(review_items.c.item).where(_HERE, review_items.c.item > _FURTHEST)
_counted = (select(func.count()).select_from(one.subquery()) for one in (_BEGUN, _RETURNED, _BETWEEN, _UNTOUCHED))
_LEFT = select(sum((one.scalar_subquery() for one in _counted), literal(0)))


@dataclass(frozen=True, slots=True)
class ReviewedAnswer:
    """An item of a review, without the content that people see."""

    item: int
    position: int | None
    dataset: str
    case_id: str
    target: str
    target_repeat: int
    answer_hash: str
    group: str
    stratum: str
    wanted: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A person's assignment to an item, without their draft. `expires_at`: in seconds since 1970; 0 is expired."""

    item: int
    by: str
    state: Literal["open", "submitted", "declined"]
    expires_at: float
    opened_at: float
    seconds: float
    is_flagged: bool

    @property
    def is_reserved(self) -> bool:
        """Whether the item is begun and its lease has not expired, even if the review is closed."""
        return self.state == "open" and 0.0 < self.expires_at - time.time() <= LONGEST_LEASE_S


@dataclass(frozen=True, slots=True)
class BegunItem:
    """An item and a person's assignment to it.

    `number`: its place among the items that they opened, from 1. `untaken`: the item still needs this person's label,
    because too few others have submitted or leased it.
    """

    answer: ReviewedAnswer
    content: FrozenAnswer
    part: Assignment
    draft: Mapping[str, Any]
    number: int
    untaken: bool


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """A label or a resolution of a review; if `value` is None, `missing` has the reason."""

    item: int
    metric: str
    rubric: int
    kind: Literal["label", "resolution"]
    value: bool | int | float | str | None
    missing: str | None
    by: str
    comment: str | None
    at: str
    seconds: float | None
    blind: bool
    seen_before: bool

    @property
    def is_given(self) -> bool:
        """Whether the person gave a value or chose "cannot tell"."""
        return self.kind == "label" and self.missing != "declined"


def add_items(connection: Connection, review: int, items: Sequence[Row]) -> None:
    """Add the answers of a review, in serving order."""
    for some in chunks(enumerate(items), _AT_ONCE):
        connection.execute(insert(review_items), [{**row, "review_id": review, "item": item} for item, row in some])


def answer_positions(connection: Connection, run: int) -> dict[tuple[str, str, str, int], int]:
    """The position of each answer of a run by dataset, case_id, target and target_repeat."""
    key = (answers.c.dataset, answers.c.case_id, answers.c.target, answers.c.target_repeat)
    rows = connection.execute(select(*key, answers.c.position).where(answers.c.run == run))
    return {(dataset, case, target, repeat): position for dataset, case, target, repeat, position in rows}


def candidates(connection: Connection, review: int, by: str, moment: float) -> list[int]:
    """The next items to serve to a person: first those that they have begun, then free ones in order.

    An item is free while fewer people than wanted have submitted or leased it. `moment`: now, in seconds since 1970.
    The list is empty only if no item is free for them.
    """
    asked = {"review": review, "person": by, "moment": moment}
    begun = sorted(connection.scalars(_BEGUN, asked))
    return begun + [item for query in (_FIRST_RETURNED, _FIRST_AHEAD) for item in connection.scalars(query, asked)]


def take(
    connection: Connection, review: int, items: Sequence[int], by: str, moment: float, lease_s: float
) -> int | None:
    """Lease to a person the first of these items that is still free, for `lease_s` seconds; None if all are taken.

    If they have begun an item meanwhile, that one is leased again: two simultaneous requests get the same item.
    """
    asked = {"review": review, "person": by, "moment": moment}
    begun = min(connection.scalars(_BEGUN, asked), default=None)
    if begun is not None:
        change_assignment(connection, review, begun, by, {"expires_at": moment + lease_s})
        return begun
    item = connection.scalar(_FREE_OF, {**asked, "items": list(items)})
    if item is not None:
        values = {"review_id": review, "item": item, "by": by, "state": "open", "opened_at": moment}
        values |= {"expires_at": moment + lease_s, "seconds": 0.0, "draft": {}, "is_flagged": False}
        connection.execute(insert(assignments), values)
    return item


def left_for(connection: Connection, review: int, by: str, moment: float) -> int:
    """The number of items left for a person, including those that they have begun."""
    return connection.scalar(_LEFT, {"review": review, "person": by, "moment": moment}) or 0


def begun_item(connection: Connection, review: int, item: int, by: str, moment: float) -> BegunItem | None:
    """An item with a person's assignment; None if they have not begun it."""
    asked = {"review": review, "person": by, "moment": moment, "wanted_item": item}
    begun = connection.execute(_BEGUN_ITEM, asked).mappings().first()
    if begun is None:
        return None
    row = dict(begun)
    answer, part = from_row(ReviewedAnswer, row), from_row(Assignment, row)
    return BegunItem(answer, FrozenAnswer(**row["content"]), part, row["draft"], row["number"], row["untaken"])


def opened_items(connection: Connection, review: int, by: str) -> list[tuple[int, Any, bool]]:
    """The items that a person opened, in that order, each with its state and whether they flagged it."""
    rows = connection.execute(_OPENED, {"review": review, "person": by})
    return [(item, state, is_flagged) for item, state, is_flagged in rows]


def change_assignment(connection: Connection, review: int, item: int, by: str, values: Mapping[str, Any]) -> None:
    """Change a person's assignment to an item."""
    statement = update(assignments).where(_at(review, item, assignments), assignments.c.by == by)
    connection.execute(statement.values(**values))


def review_assignments(connection: Connection, review: int, by: str | None = None) -> list[Assignment]:
    """The assignments of a review (one person's, or all) in the order of opening, without drafts."""
    columns = [column for column in assignments.c if column.name != "draft"]
    query = select(*columns).where(_of(review, assignments))
    query = query if by is None else query.where(assignments.c.by == by)
    return every_as(Assignment, connection, query.order_by(assignments.c.opened_at, assignments.c.item))


def reviewed_answer(connection: Connection, review: int, item: int) -> ReviewedAnswer | None:
    """One item without its content."""
    return one_as(ReviewedAnswer, connection, select(*_ITEM).where(_at(review, item, review_items)))


def all_rows(connection: Connection, review: int) -> tuple[list[ReviewedAnswer], list[Assignment], list[GivenLabel]]:
    """All items of a review in order, without contents; all assignments (see `review_assignments`); all labels."""
    items = select(*_ITEM).where(_of(review, review_items)).order_by(review_items.c.item)
    served = every_as(ReviewedAnswer, connection, items)
    return served, review_assignments(connection, review), label_rows(connection, review)


def contents(connection: Connection, review: int, items: Sequence[int]) -> dict[int, FrozenAnswer]:
    """The contents of these items."""
    frozen: dict[int, FrozenAnswer] = {}
    for some in chunks(items, _AT_ONCE):
        query = select(review_items.c.item, review_items.c.content)
        rows = connection.execute(query.where(_of(review, review_items), review_items.c.item.in_(some)))
        frozen.update((row.item, FrozenAnswer(**row.content)) for row in rows)
    return frozen


def counts(connection: Connection, reviews: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The number of fully labelled items, and of all items, by review."""
    done = select(assignments.c.review_id, assignments.c.item, func.count().label("number"))
    done = done.where(assignments.c.review_id.in_(reviews), assignments.c.state == "submitted")
    per_item = done.group_by(assignments.c.review_id, assignments.c.item).subquery()
    at = (per_item.c.review_id == review_items.c.review_id) & (per_item.c.item == review_items.c.item)
    finished = func.count().filter(func.coalesce(per_item.c.number, 0) >= review_items.c.wanted)
    query = select(review_items.c.review_id, finished, func.count()).select_from(review_items.outerjoin(per_item, at))
    query = query.where(review_items.c.review_id.in_(reviews)).group_by(review_items.c.review_id)
    return {review: (number, total) for review, number, total in connection.execute(query)}


def replace_labels(
    connection: Connection, review: int, item: int, rows: Sequence[Row], *, kind: str, by: str | None = None
) -> None:
    """Replace the labels of the same kind and person (None: anyone) on the same metrics.

    Labels given under other versions of the guidelines stay.
    """
    known = _at(review, item, labels) & (labels.c.kind == kind)
    known &= or_(*((labels.c.metric == row["metric"]) & (labels.c.rubric == row["rubric"]) for row in rows))
    connection.execute(delete(labels).where(known if by is None else known & (labels.c.by == by)))
    same = {"review_id": review, "item": item, "kind": kind, "version": 1, "at": now()}
    connection.execute(insert(labels), [{**row, **same} for row in rows])


def label_rows(connection: Connection, review: int) -> list[GivenLabel]:
    """All labels and resolutions of a review, by item."""
    query = select(labels).where(labels.c.review_id == review)
    return every_as(GivenLabel, connection, query.order_by(labels.c.item, labels.c.metric, labels.c.id))


def has_viewed(connection: Connection, run_ids: Sequence[str], by: str) -> bool:
    """Whether a person has opened the results of one of these runs."""
    query = select(run_views.c.by).join(runs, runs.c.id == run_views.c.run)
    return connection.scalar(query.where(runs.c.run_id.in_(run_ids), run_views.c.by == by).limit(1)) is not None


def note_view(connection: Connection, run: int, by: str) -> None:
    """Record that a person has opened a run's results; only the first time is kept."""
    values = {"run": run, "by": by, "at": now()}
    connection.execute(upsert(connection, run_views, is_replaced=False).values(**values))


def _of(review: int, table: Any) -> ColumnElement[bool]:
    return table.c.review_id == review


def _at(review: int, item: int, table: Any) -> ColumnElement[bool]:
    return and_(table.c.review_id == review, table.c.item == item)

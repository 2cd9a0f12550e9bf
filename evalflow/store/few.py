"""Where the scores are that only few have: by threshold or bounds, over all metrics of a run.

In input order no index leads to them: of a million scores each would be looked at, to find three. By metric and score
one does, so that all of them are found if they are few; where they are many, the next page of them is near.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, func, select

from evalflow.store.filters import Filter, Place, meets, within
from evalflow.store.tables import scores

FEW = 5000
"""More than these are many: the next page of 50 then is within the next ten thousand of a million, on average."""


def few(connection: Connection, run: int, wanted: Filter) -> list[Place] | None:
    """The places, in input order, of all scores that reach or miss their threshold and lie within the bounds.

    Args:
        connection: Where.
        run: The run's row.
        wanted: Of it only `low`, `high` and `passed`.

    Returns:
        None where they are not asked for, or of one metric or answer alone, which has an index, or are many.
    """
    bounds = (wanted.low, wanted.high, wanted.passed)
    if bounds == (None, None, None) or wanted.metric is not None or wanted.positions is not None:
        return None
    found: list[Place] = []
    for of_one in _by_metric(connection, run, wanted):
        query = select(scores.c.position, scores.c.n).where(scores.c.run == run, of_one, *within(wanted))
        found += [(position, n) for position, n in connection.execute(query.limit(FEW + 1 - len(found)))]
        if len(found) > FEW:
            return None
    return sorted(found)


def _by_metric(connection: Connection, run: int, wanted: Filter) -> Iterator[ColumnElement[bool]]:
    """A condition for each metric, such that an index leads to what fulfils it."""
    if wanted.passed is not None:
        yield from (meets(limit, wanted.passed) for limit in wanted.limits)
        return
    metric: str | None = ""
    while metric is not None:  # the next name of an index, rather than every row of it
        metric = connection.scalar(
            select(func.min(scores.c.metric)).where(scores.c.run == run, scores.c.metric > metric)
        )
        if metric is not None:
            yield scores.c.metric == metric

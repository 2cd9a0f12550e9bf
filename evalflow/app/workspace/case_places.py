"""Where cases stand among those that a filter finds: a page from anywhere, and what is next to a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalflow import datasets as readers
from evalflow.app.workspace.cases import MAX_PAGE, StoredCase, case_row, stored_case
from evalflow.app.workspace.datasets import own_row
from evalflow.app.workspace.space import Workspace


@dataclass(frozen=True, slots=True)
class CasePlace:
    """Where a case stands, or would stand if the filter found it.

    Attributes:
        before: How many that the filter finds stand before it.
        total: How many the filter finds.
        previous, next: Ids in the store of its neighbours; None at the ends.
    """

    before: int
    total: int
    previous: int | None
    next: int | None


def case_place(
    space: Workspace, dataset: str, case: int, *, tag: str | None = None, text: str | None = None
) -> CasePlace:
    """Where a case stands among those that a filter finds; see `cases.list_cases` for the filter.

    Raises:
        NotFoundError: There is no such case.
    """
    from evalflow.store import cases

    row = case_row(space, dataset, case)
    wanted = (readers.tag_name(tag) if tag else None, text)
    with space.database.reading() as connection:
        before, previous, following = cases.around(connection, row["dataset_id"], row["position"], *wanted)
        return CasePlace(before, cases.count(connection, row["dataset_id"], *wanted), previous, following)


def cases_at(
    space: Workspace, dataset: str, first: int, limit: int = 50, *, tag: str | None = None, text: str | None = None
) -> tuple[Sequence[StoredCase], int, int]:
    """Some of the cases that a filter finds, in their order; where they end before `first`, the last page of them.

    Args:
        space: Where.
        dataset: Which; defined here.
        first: How many to leave out.
        limit: How many at most, up to 500.
        tag: As of `cases.list_cases`.
        text: As of `cases.list_cases`.

    Returns:
        The cases, how many were left out, and how many the filter finds in all.

    Raises:
        NotFoundError: There is no such dataset.
    """
    from evalflow.store import cases

    row, limit = own_row(space, dataset), max(1, min(limit, MAX_PAGE))
    wanted = (readers.tag_name(tag) if tag else None, text)
    with space.database.reading() as connection:
        total = cases.count(connection, row["id"], *wanted)
        if first >= total:
            first = max(0, (total - 1) // limit * limit)
        found = cases.page_at(connection, row["id"], first, limit, *wanted)
    return [stored_case(one) for one in found], first, total

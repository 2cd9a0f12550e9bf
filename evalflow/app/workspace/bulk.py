"""Many cases of a dataset at once: found by a filter, tagged, put into a group, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evalflow import datasets as readers
from evalflow.app.workspace.case_rows import stored
from evalflow.app.workspace.datasets import own_row
from evalflow.app.workspace.space import Workspace

Body = dict[str, Any]


def case_ids(space: Workspace, dataset: str, *, tag: str | None = None, text: str | None = None) -> list[int]:
    """The ids in the store of the cases of a dataset, all or some, in their order; see `cases.list_cases`.

    Raises:
        NotFoundError: There is no such dataset.
    """
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        return cases.ids(connection, row["id"], readers.tag_name(tag) if tag else None, text)


def delete_cases(space: Workspace, dataset: str, cases: Sequence[int]) -> int:
    """Delete cases; gives how many there were."""
    from evalflow.store import cases as table

    row = own_row(space, dataset)
    with space.database.writing() as connection:
        return table.remove(connection, row["id"], cases)


def tag_cases(
    space: Workspace, dataset: str, cases: Sequence[int], *, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> int:
    """Give tags to cases and take others from them, those below them too; gives how many were changed.

    Raises:
        NotFoundError: There is no such dataset.
    """
    given = [name for tag in add if (name := readers.tag_name(tag))]
    gone = {readers.tag_name(tag) for tag in remove}

    def tagged(body: Body) -> Body:
        kept = [tag for tag in body.get("tags", []) if gone.isdisjoint(readers.tag_levels(tag))]
        tags = list(dict.fromkeys([*kept, *given]))
        return {**body, "tags": tags} if tags else _without(body, "tags")

    return _change(space, dataset, cases, tagged)


def group_cases(space: Workspace, dataset: str, cases: Sequence[int], group: str | None) -> int:
    """Put cases into a group, or out of theirs; gives how many were changed.

    Raises:
        NotFoundError: There is no such dataset.
    """

    def grouped(body: Body) -> Body:
        return {**body, "group": group} if group else _without(body, "group")

    return _change(space, dataset, cases, grouped)


def _change(space: Workspace, dataset: str, cases: Sequence[int], new: Callable[[Body], Body]) -> int:
    from evalflow.store import cases as table

    row = own_row(space, dataset)
    with space.database.writing() as connection:
        pairs = (
            (found["id"], found["body"], new(found["body"])) for found in table.by_ids(connection, row["id"], cases)
        )
        changed = {case: stored(body) for case, before, body in pairs if body != before}
        table.rewrite(connection, row["id"], changed)
    return len(changed)


def _without(body: Body, field: str) -> Body:
    return {key: value for key, value in body.items() if key != field}

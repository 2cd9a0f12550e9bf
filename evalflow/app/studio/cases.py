"""Test cases: paged, found, added, changed, and edited many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from evalflow import datasets as readers
from evalflow.app.studio.case_rows import read_row, read_rows, stored
from evalflow.app.studio.datasets import (
    DATASETS,
    Dataset,
    dataset_values,
    declared_dataset,
    declared_rows,
    get_dataset,
    own_row,
)
from evalflow.app.studio.space import StaleError, TakenError, Workspace, not_found, stale
from evalflow.errors import Problem, UserError
from evalflow.store import cases as table
from evalflow.store.tables import from_row

if TYPE_CHECKING:
    from sqlalchemy import Connection


MAX_PAGE = 500
Fields = Mapping[str, str | dict[str, str]]
"""Case field to column or JSONPath, or to several of them by the names that they get in the field."""


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A case where it is kept.

    Attributes:
        id: Of its place in the store; the case's own id stands in `body`.
        question: The last user message, for lists.
        body: The case under its fields' own names, as a line of JSON lines: id, messages, answer, reference, ...
        version: Counts its changes.
    """

    id: int
    question: str
    body: Mapping[str, Any]
    version: int


@dataclass(frozen=True, slots=True)
class CasePage:
    """Some cases in their order; `next` is the cursor of those that follow, None at the end."""

    items: Sequence[StoredCase]
    next: str | None


def list_cases(
    space: Workspace,
    dataset: str,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tag: str | None = None,
    text: str | None = None,
) -> CasePage:
    """Cases of a dataset that was defined here, in their order.

    Args:
        space: The workspace.
        dataset: Its name.
        cursor: `next` of the page before; None for the first.
        limit: How many at most, up to 500.
        tag: Only those with this tag, or one below it.
        text: Only those whose question or id has this in it.
    """
    limit = max(1, min(limit, MAX_PAGE))
    row = own_row(space, dataset)
    after = _number(cursor)
    with space.database.reading() as connection:
        found = table.CaseQuery(connection, row["id"], tag, text).page(after, limit + 1)
    more = str(found[limit - 1]["position"]) if len(found) > limit else None
    return CasePage([from_row(StoredCase, one) for one in found[:limit]], more)


def get_case(space: Workspace, dataset: str, case: int) -> StoredCase:
    """One case."""
    return from_row(StoredCase, case_row(space, dataset, case))


def case_tags(space: Workspace, dataset: str) -> list[tuple[str, int]]:
    """Every tag of a dataset with how many cases have it, or one below it."""
    row = own_row(space, dataset)
    with space.database.reading() as connection:
        return table.tags(connection, row["id"])


def add_cases(space: Workspace, dataset: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add cases, all or none.

    Args:
        space: The workspace.
        dataset: Its name.
        rows: Each a case under its fields' own names; `question` makes one user message. One without an id gets a hash
            of its content.

    Returns:
        How many.

    Raises:
        UserError: With what is wrong with each row (`rows:NUMBER`), or a case with that id is there.
    """
    own_row(space, dataset)
    cases = list(read_rows(dataset, rows))
    return append_rows(space, dataset, (readers.case_to_row(case) for case in cases))


def update_case(space: Workspace, dataset: str, case: int, expected: int, row: Mapping[str, Any]) -> StoredCase:
    """Change a case, whole.

    Raises:
        UserError: What is wrong with it.
    """
    there = case_row(space, dataset, case)
    changed = stored(readers.case_to_row(read_row(dataset, {"id": there["key"], **row})))
    with space.database.writing() as connection:
        owner = there["dataset_id"]
        if changed["key"] != there["key"] and table.known_keys(connection, owner, [changed["key"]]):
            raise duplicates([changed["key"]])
        if not table.replace(connection, owner, case, expected, changed):
            raise _stale(table.get(connection, owner, case) or there, expected, changed["body"])
    return get_case(space, dataset, case)


def case_rows(space: Workspace, dataset: str) -> Iterator[dict[str, Any]]:
    """All cases of a dataset that was defined here, as rows of JSON lines."""
    row = own_row(space, dataset)
    with space.database.reading() as connection:
        yield from table.bodies(connection, row["id"])


def add_case(space: Workspace, dataset: str, row: Mapping[str, Any]) -> StoredCase:
    """Add one case; see `add_cases`.

    Raises:
        UserError: With what is wrong with each field (its name is the key), or a case with that id is there.
    """
    owner = own_row(space, dataset)
    body = readers.case_to_row(read_row(dataset, row))
    append_rows(space, dataset, [body])
    with space.database.reading() as connection:
        found = table.by_key(connection, owner["id"], stored(body)["key"])
    if found is None:
        raise not_found("case", body["id"], [])
    return from_row(StoredCase, found)


def append_rows(space: Workspace, dataset: str, rows: Iterable[dict[str, Any]]) -> int:
    """Add cases as `case_to_row` gives them, all or none; gives how many.

    Raises:
        TakenError: A case with that id is there.
    """
    row = own_row(space, dataset)
    prepared = [stored(body) for body in rows]
    with space.database.writing() as connection:
        return append_stored(connection, row["id"], prepared)


def append_stored(connection: Connection, dataset: int, prepared: Sequence[dict[str, Any]]) -> int:
    """Add cases, as `stored` gives them, to the dataset of that row within a transaction; gives how many.

    Raises:
        TakenError: A case with that id is there, or among them twice.
    """
    twice = [key for key, n in Counter(one["key"] for one in prepared).items() if n > 1]
    if twice:
        raise duplicates(twice, "are in it more than once")
    taken = table.known_keys(connection, dataset, [one["key"] for one in prepared])
    if taken:
        raise duplicates(sorted(taken))
    return table.append(connection, dataset, prepared)


def duplicates(keys: Sequence[str], how: str = "are there already") -> TakenError:
    """That ids which are to be new are not."""
    shown = ", ".join(repr(key) for key in keys[:5]) + (", ..." if len(keys) > 5 else "")
    hint = "give other ids, or leave those out; a case without an id gets one of its content"
    return TakenError(Problem(f"cases with these ids {how}: {shown}", "id", hint, "id"))


def _stale(row: Mapping[str, Any], expected: int, wanted: Mapping[str, Any]) -> StaleError:
    there = row["body"]
    values = {field: wanted.get(field) for field in dict.fromkeys([*there, *wanted])}
    return stale(
        "case", row["key"], expected, {**there, **{key: row[key] for key in ("version", "updated_at")}}, values
    )


def copy_dataset(space: Workspace, source: str, name: str) -> Dataset:
    """A dataset like another one, such as one of conf/, with all its cases.

    Raises:
        UserError: Its files cannot be read.
    """
    origin = get_dataset(space, source)
    if origin.origin == "workspace":
        values = dataset_values(name, origin.description, origin.generates)
        rows = case_rows(space, source)
    else:
        config = declared_dataset(space, source)
        values = dataset_values(name, config.description or "", config.generates)
        rows = declared_rows(space, source)
    prepared = [stored(row) for row in rows]
    with space.database.writing() as connection:
        append_stored(connection, DATASETS.add(connection, values), prepared)
    return get_dataset(space, name)


def case_row(space: Workspace, dataset: str, case: int) -> dict[str, Any]:
    """The row of one case."""
    row = own_row(space, dataset)
    with space.database.reading() as connection:
        found = table.get(connection, row["id"], case)
    if found is None:
        raise not_found("case", str(case), [])
    return found


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isdigit() or len(cursor) > 18:
        raise UserError(Problem(f"{cursor!r} is no cursor", "cursor", "take `next` of the page before"))
    return int(cursor)


Body = dict[str, Any]


def case_ids(space: Workspace, dataset: str, *, tag: str | None = None, text: str | None = None) -> list[int]:
    """The ids in the store of the cases of a dataset, all or some, in their order; see `cases.list_cases`."""
    row = own_row(space, dataset)
    with space.database.reading() as connection:
        return table.CaseQuery(connection, row["id"], tag, text).ids()


def delete_cases(space: Workspace, dataset: str, cases: Sequence[int]) -> int:
    """Delete cases; gives how many there were."""
    row = own_row(space, dataset)
    with space.database.writing() as connection:
        return table.remove(connection, row["id"], cases)


def tag_cases(
    space: Workspace, dataset: str, cases: Sequence[int], *, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> int:
    """Give tags to cases and take others from them, those below them too; gives how many were changed."""
    given = [name for tag in add if (name := readers.tag_name(tag))]
    gone = {readers.tag_name(tag) for tag in remove}

    def tagged(body: Body) -> Body:
        kept = [tag for tag in body.get("tags", []) if gone.isdisjoint(readers.tag_levels(tag))]
        tags = list(dict.fromkeys([*kept, *given]))
        return {**body, "tags": tags} if tags else _without(body, "tags")

    return _change(space, dataset, cases, tagged)


def group_cases(space: Workspace, dataset: str, cases: Sequence[int], group: str | None) -> int:
    """Put cases into a group, or out of theirs; gives how many were changed."""

    def grouped(body: Body) -> Body:
        return {**body, "group": group} if group else _without(body, "group")

    return _change(space, dataset, cases, grouped)


def _change(space: Workspace, dataset: str, cases: Sequence[int], new: Callable[[Body], Body]) -> int:
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
    """Where a case stands among those that a filter finds; see `cases.list_cases` for the filter."""
    row = case_row(space, dataset, case)
    with space.database.reading() as connection:
        found = table.CaseQuery(connection, row["dataset_id"], tag, text)
        before, previous, following = found.around(row["position"])
        return CasePlace(before, found.count(), previous, following)


def cases_at(
    space: Workspace, dataset: str, first: int, limit: int = 50, *, tag: str | None = None, text: str | None = None
) -> tuple[Sequence[StoredCase], int, int]:
    """Some of the cases that a filter finds, in their order; where they end before `first`, the last page of them.

    Args:
        space: The workspace.
        dataset: The name of one that was defined here.
        first: How many to leave out.
        limit: How many at most, up to 500.
        tag: As of `cases.list_cases`.
        text: As of `cases.list_cases`.

    Returns:
        The cases, how many were left out, and how many the filter finds in all.
    """
    row, limit = own_row(space, dataset), max(1, min(limit, MAX_PAGE))
    with space.database.reading() as connection:
        query = table.CaseQuery(connection, row["id"], tag, text)
        total = query.count()
        if first >= total:
            first = max(0, (total - 1) // limit * limit)
        found = query.page_at(first, limit)
    return [from_row(StoredCase, one) for one in found], first, total


def example_rows(space: Workspace, dataset: str, count: int = 20) -> list[Mapping[str, Any]]:
    """The first cases of a dataset under their fields' own names, as lines of JSON lines.

    Raises:
        UserError: Its files cannot be read.
    """
    if get_dataset(space, dataset).origin == "workspace":
        return [case.body for case in list_cases(space, dataset, limit=count).items]
    return list(islice(declared_rows(space, dataset), count))

"""The cases of datasets that were defined here: paged, added, uploaded, changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow import datasets as readers
from evalflow.app.workspace.case_rows import read_row, read_rows, stored
from evalflow.app.workspace.datasets import Dataset, add_dataset, dataset_values, get_dataset, own_row
from evalflow.app.workspace.declared import declared_dataset, declared_rows
from evalflow.app.workspace.space import StaleError, TakenError, Workspace, not_found, stale
from evalflow.errors import Problem, UserError

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
        space: Where.
        dataset: Which.
        cursor: `next` of the page before; None for the first.
        limit: How many at most, up to 500.
        tag: Only those with this tag, or one below it.
        text: Only those whose question or id has this in it.

    Raises:
        NotFoundError: There is no such dataset.
        UserError: The cursor is none.
    """
    from evalflow.store import cases

    limit = max(1, min(limit, MAX_PAGE))
    row = own_row(space, dataset)
    after = _number(cursor)
    with space.database.reading() as connection:
        found = cases.page(connection, row["id"], after, limit + 1, readers.tag_name(tag) if tag else None, text)
    more = str(found[limit - 1]["position"]) if len(found) > limit else None
    return CasePage([stored_case(one) for one in found[:limit]], more)


def get_case(space: Workspace, dataset: str, case: int) -> StoredCase:
    """One case.

    Raises:
        NotFoundError: There is none.
    """
    return stored_case(case_row(space, dataset, case))


def case_tags(space: Workspace, dataset: str) -> list[tuple[str, int]]:
    """Every tag of a dataset with how many cases have it, or one below it."""
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        return cases.tags(connection, row["id"])


def add_cases(space: Workspace, dataset: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add cases, all or none.

    Args:
        space: Where.
        dataset: Which.
        rows: Each a case under its fields' own names; `question` makes one user message. One without an id gets a hash
            of its content.

    Returns:
        How many.

    Raises:
        NotFoundError: There is no such dataset.
        UserError: With what is wrong with each row (`rows:NUMBER`), or a case with that id is there.
    """
    own_row(space, dataset)
    cases = list(read_rows(dataset, rows))
    return append_rows(space, dataset, (readers.case_to_row(case) for case in cases))


def update_case(space: Workspace, dataset: str, case: int, expected: int, row: Mapping[str, Any]) -> StoredCase:
    """Change a case, whole.

    Raises:
        NotFoundError: There is none.
        StaleError: It was changed meanwhile.
        UserError: What is wrong with it.
    """
    from evalflow.store import cases

    there = case_row(space, dataset, case)
    changed = stored(readers.case_to_row(read_row(dataset, {"id": there["key"], **row})))
    with space.database.writing() as connection:
        owner = there["dataset_id"]
        if changed["key"] != there["key"] and cases.known_keys(connection, owner, [changed["key"]]):
            raise duplicates([changed["key"]])
        if not cases.replace(connection, owner, case, expected, changed):
            raise _stale(cases.get(connection, owner, case) or there, expected, changed["body"])
    return get_case(space, dataset, case)


def case_rows(space: Workspace, dataset: str) -> Iterator[dict[str, Any]]:
    """All cases of a dataset that was defined here, as rows of JSON lines.

    Raises:
        NotFoundError: There is no such dataset.
    """
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        yield from cases.bodies(connection, row["id"])


def add_case(space: Workspace, dataset: str, row: Mapping[str, Any]) -> StoredCase:
    """Add one case; see `add_cases`.

    Raises:
        NotFoundError: There is no such dataset.
        UserError: With what is wrong with each field (its name is the key), or a case with that id is there.
    """
    from evalflow.store import cases

    owner = own_row(space, dataset)
    body = readers.case_to_row(read_row(dataset, row))
    append_rows(space, dataset, [body])
    with space.database.reading() as connection:
        found = cases.by_key(connection, owner["id"], stored(body)["key"])
    if found is None:
        raise not_found("case", body["id"], [])
    return stored_case(found)


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
    from evalflow.store import cases

    twice = [key for key, n in Counter(one["key"] for one in prepared).items() if n > 1]
    if twice:
        raise duplicates(twice, "are in it more than once")
    taken = cases.known_keys(connection, dataset, [one["key"] for one in prepared])
    if taken:
        raise duplicates(sorted(taken))
    return cases.append(connection, dataset, prepared)


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
        NotFoundError: There is none of the name `source`.
        TakenError: The name is in use.
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
        append_stored(connection, add_dataset(connection, values), prepared)
    return get_dataset(space, name)


def case_row(space: Workspace, dataset: str, case: int) -> dict[str, Any]:
    """The row of one case.

    Raises:
        NotFoundError: There is none.
    """
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        found = cases.get(connection, row["id"], case)
    if found is None:
        raise not_found("case", str(case), [])
    return found


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isdigit() or len(cursor) > 18:
        raise UserError(Problem(f"{cursor!r} is no cursor", "cursor", "take `next` of the page before"))
    return int(cursor)


def stored_case(row: Mapping[str, Any]) -> StoredCase:
    """A case of its row."""
    return StoredCase(row["id"], row["question"], row["body"], row["version"])

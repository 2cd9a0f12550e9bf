"""The cases of datasets that were defined here: paged, added, uploaded, changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow import datasets as readers
from evalflow.app.workspace import library
from evalflow.app.workspace.case_rows import read_rows, stored
from evalflow.app.workspace.datasets import Dataset, create_dataset, get_dataset, own_row
from evalflow.app.workspace.space import TakenError, Workspace, not_found, stale
from evalflow.config.schema import DatasetConfig
from evalflow.errors import Problem, UserError

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
    return CasePage([_case(one) for one in found[:limit]], more)


def count_cases(space: Workspace, dataset: str, *, tag: str | None = None, text: str | None = None) -> int:
    """How many cases a dataset has, all or some; see `list_cases`."""
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        return cases.count(connection, row["id"], readers.tag_name(tag) if tag else None, text)


def get_case(space: Workspace, dataset: str, case: int) -> StoredCase:
    """One case.

    Raises:
        NotFoundError: There is none.
    """
    return _case(_case_row(space, dataset, case))


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

    there = _case_row(space, dataset, case)
    changed = stored(readers.case_to_row(next(read_rows(dataset, [{"id": there["key"], **row}]))))
    with space.database.writing() as connection:
        owner = there["dataset_id"]
        if changed["key"] != there["key"] and cases.known_keys(connection, owner, [changed["key"]]):
            raise _duplicates([changed["key"]])
        if not cases.replace(connection, owner, case, expected, changed):
            now = cases.get(connection, owner, case) or there
            raise stale("case", there["key"], expected, now, {"body": changed["body"]})
    return get_case(space, dataset, case)


def delete_cases(space: Workspace, dataset: str, cases: Sequence[int]) -> int:
    """Delete cases; gives how many there were."""
    from evalflow.store import cases as table

    row = own_row(space, dataset)
    with space.database.writing() as connection:
        return table.remove(connection, row["id"], cases)


def tag_cases(
    space: Workspace, dataset: str, cases: Sequence[int], *, add: Sequence[str], remove: Sequence[str]
) -> int:
    """Give tags to cases and take others from them; gives how many were changed.

    Raises:
        NotFoundError: There is no such dataset.
        StaleError: One was changed meanwhile; then none is.
    """
    from evalflow.store import cases as table

    row = own_row(space, dataset)
    gone = {readers.tag_name(tag) for tag in remove}
    changed = 0
    with space.database.writing() as connection:
        for case in cases:
            found = table.get(connection, row["id"], case)
            if found is None:
                continue
            body = dict(found["body"])
            tags = [tag for tag in body.get("tags", []) if readers.tag_name(tag) not in gone]
            tags += [name for tag in add if (name := readers.tag_name(tag)) and name not in tags]
            if tags == body.get("tags", []):
                continue
            body["tags"] = tags
            changed_row = stored({key: value for key, value in body.items() if key != "tags" or tags})
            table.replace(connection, row["id"], case, found["version"], changed_row)
            changed += 1
    return changed


def case_rows(space: Workspace, dataset: str) -> Iterator[dict[str, Any]]:
    """All cases of a dataset that was defined here, as rows of JSON lines.

    Raises:
        NotFoundError: There is no such dataset.
    """
    from evalflow.store import cases

    row = own_row(space, dataset)
    with space.database.reading() as connection:
        yield from cases.bodies(connection, row["id"])


def append_rows(space: Workspace, dataset: str, rows: Iterable[dict[str, Any]]) -> int:
    """Add cases as `case_to_row` gives them, all or none; gives how many.

    Raises:
        TakenError: A case with that id is there.
    """
    from evalflow.store import cases

    row = own_row(space, dataset)
    prepared = [stored(body) for body in rows]
    with space.database.writing() as connection:
        taken = cases.known_keys(connection, row["id"], [one["key"] for one in prepared])
        if taken:
            raise _duplicates(sorted(taken))
        return cases.append(connection, row["id"], prepared)


def _duplicates(keys: Sequence[str]) -> TakenError:
    shown = ", ".join(repr(key) for key in keys[:5]) + (", ..." if len(keys) > 5 else "")
    what = f"{len(keys)} case{'s' if len(keys) > 1 else ''} with the same id {'are' if len(keys) > 1 else 'is'} there"
    return TakenError(Problem(f"{what}: {shown}", "dataset", "give other ids, or delete those first"))


def copy_dataset(space: Workspace, source: str, name: str) -> Dataset:
    """A dataset like another one, such as one of conf/, with all its cases.

    Raises:
        NotFoundError: There is none of the name `source`.
        TakenError: The name is in use.
        UserError: Its files cannot be read.
    """
    origin = get_dataset(space, source)
    if origin.origin == "workspace":
        create_dataset(space, name, origin.description, origin.generates)
        rows = case_rows(space, source)
        append_rows(space, name, rows)
        return get_dataset(space, name)
    config = DatasetConfig.model_validate(library.content("dataset", source))
    cases = list(readers.read(source, config))
    create_dataset(space, name, config.description or "", config.generates)
    append_rows(space, name, (readers.case_to_row(case) for case in cases))
    return get_dataset(space, name)


def _case_row(space: Workspace, dataset: str, case: int) -> dict[str, Any]:
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


def _case(row: Mapping[str, Any]) -> StoredCase:
    return StoredCase(row["id"], row["question"], row["body"], row["version"])

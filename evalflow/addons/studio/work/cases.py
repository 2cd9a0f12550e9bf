"""Test cases: list, find, add, change, and bulk edit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from evalflow import datasets as readers
from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.store.cases import StoredCase
from evalflow.addons.studio.store.rows import Row, storable
from evalflow.addons.studio.store.schema import BIG_INTEGER_END, INTEGER_END
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.datasets import (
    DATASETS,
    Dataset,
    FoundCases,
    dataset_id,
    dataset_values,
    declared_dataset,
    declared_page,
    declared_rows,
    get_dataset,
    question_of,
)
from evalflow.addons.studio.work.space import (
    Page,
    StaleError,
    TakenError,
    Workspace,
    changed_keys,
    differing,
    every_item,
    not_found,
    row_number,
    stale,
)
from evalflow.addons.studio.work.trash import keep_cases
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.addons.studio.work.validate import NO_PROGRAMS
from evalflow.config.schema import DatasetConfig, FieldValue
from evalflow.errors import Problem, UserError
from evalflow.metrics.case_checks import starts_program
from evalflow.records import Case
from evalflow.values.jsonvalues import DEEPEST, is_too_deep

if TYPE_CHECKING:
    from sqlalchemy import Connection


MAX_PAGE = 500
Fields = Mapping[str, FieldValue]
"""Case field to column or JSONPath, as `fields` of a dataset's configuration."""


class CaseFilter(TypedDict, total=False):
    """A filter of a dataset's cases; see `CaseQuery`."""

    tag: str | None
    text: str | None
    draft: bool | None


@requires("read")
def list_cases(
    space: Workspace, dataset: str, cursor: str | None = None, limit: int = 50, **matching: Unpack[CaseFilter]
) -> Page[StoredCase]:
    """Cases of a dataset in the database."""
    owner, limit = dataset_id(space, dataset), max(1, min(limit, MAX_PAGE))
    after = row_number(cursor, BIG_INTEGER_END)
    with space.database.reading() as connection:
        cases = table.CaseQuery(connection, owner, **matching).page(after, limit + 1)
    return Page.of(cases, limit, "position")


@requires("read")
def get_case(space: Workspace, dataset: str, case: int) -> StoredCase:
    """One case."""
    stored_case = space.read(table.get, dataset_id(space, dataset), case) if 0 < case < INTEGER_END else None
    if stored_case is None:
        raise not_found("case", str(case), [])
    return stored_case


@requires("read")
def dataset_tags(space: Workspace, dataset: str) -> list[tuple[str, int]]:
    """Every tag of a dataset with the number of cases that have it or a sub-tag; for conf/, in the first cases only."""
    if get_dataset(space, dataset).origin == "conf":
        return list(declared_page(space, dataset, 0, 1).tags)
    owner = dataset_id(space, dataset)
    return space.read(table.tag_counts, owner)


@requires("edit")
@takes_turn
def add_cases(
    space: Workspace, dataset: str, rows: Iterable[Mapping[str, object]], *, allow_irregular: bool = False
) -> int:
    """Add cases, all or none; returns their number.

    `rows`: cases by field names; `question` becomes one user message. A case without an id gets a hash of its content.
    A UserError lists the problems of each row (`rows:NUMBER`), including existing ids and (unless `allow_irregular`)
    irregular message orders.
    """
    dataset_id(space, dataset)
    cases = list(read_rows(dataset, rows, allow_irregular=allow_irregular))
    return append_rows(space, dataset, (readers.case_to_row(case) for case in cases))


@requires("edit")
def update_case(
    space: Workspace, dataset: str, case: int, expected: int, row: Mapping[str, object], *, draft: bool | None = None
) -> StoredCase:
    """Replace a case. `draft`: None leaves it unchanged. Irregular turns are refused unless they are unchanged."""
    there = get_case(space, dataset, case)
    is_same = row.get("messages") == there.body.get("messages")
    changed = case_columns(readers.case_to_row(read_row(dataset, {"id": there.key, **row}, allow_irregular=is_same)))
    if draft is not None:
        changed["is_draft"] = draft
    fields = [f"{field} of case {there.key}" for field in changed_keys("", there.body, changed["body"])]
    with space.changing("update", "dataset", dataset, fields) as connection:
        owner = there.dataset_id
        if changed["key"] != there.key and table.known_keys(connection, owner, [changed["key"]]):
            raise duplicates([changed["key"]])
        if not table.replace(connection, case, expected, changed):
            raise _stale(table.get(connection, owner, case) or there, expected, changed["body"])
    return get_case(space, dataset, case)


@requires("read")
def case_rows(space: Workspace, dataset: str, *, draft: bool = False) -> Iterator[Body]:
    """The active cases, or the drafts, of a dataset in the database, as rows of JSON lines."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        yield from table.bodies(connection, owner, draft=draft)


@requires("read")
def case_texts(space: Workspace, dataset: str) -> Iterator[str]:
    """The active cases of a dataset in the database, as lines of JSON."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        yield from table.texts(connection, owner)


@requires("read")
def downloaded_rows(space: Workspace, dataset: str) -> Iterator[Mapping[str, Any]]:
    """The active cases as `case_rows`, in pages: slow readers keep no connection of the database."""
    pages = every_item(lambda cursor: list_cases(space, dataset, cursor, MAX_PAGE, draft=False))
    return (case.body for case in pages)


@requires("edit")
def add_case(space: Workspace, dataset: str, row: Mapping[str, object], *, draft: bool = False) -> StoredCase:
    """Add one case; runs leave drafts out. A problem's key is the name of the field."""
    owner = dataset_id(space, dataset)
    new = case_columns(readers.case_to_row(read_row(dataset, row, allow_irregular=False)))
    with space.changing("add cases", "dataset", dataset, ["1 cases"]) as connection:
        append_stored(connection, owner, [{**new, "is_draft": draft}])
        return table.by_key(connection, owner, new["key"])


@requires("edit")
def append_rows(space: Workspace, dataset: str, rows: Iterable[Body]) -> int:
    """Add cases in the form of `case_to_row`, all or none; returns their number."""
    owner = dataset_id(space, dataset)
    prepared = [{**case_columns(body), "is_draft": False} for body in rows]
    with space.changing("add cases", "dataset", dataset, [f"{len(prepared)} cases"]) as connection:
        return append_stored(connection, owner, prepared)


def append_stored(connection: Connection, dataset: int, prepared: Sequence[Row]) -> int:
    """Add cases in the form of `case_columns` to the dataset of this row id, within a transaction."""
    twice = [key for key, n in Counter(one["key"] for one in prepared).items() if n > 1]
    if twice:
        raise duplicates(twice, "are in it more than once")
    taken = table.known_keys(connection, dataset, [one["key"] for one in prepared])
    if taken:
        raise duplicates(sorted(taken))
    return table.append(connection, dataset, prepared)


def duplicates(keys: Sequence[str], how: str = "are there already") -> TakenError:
    """The error for new ids that are in use."""
    shown = ", ".join(repr(key) for key in keys[:5]) + (", ..." if len(keys) > 5 else "")
    hint = "give other ids, or leave those out; a case without an id gets one of its content"
    return TakenError(Problem(f"cases with these ids {how}: {shown}", "id", hint, "id"))


def _stale(now: StoredCase, expected: int, wanted: Mapping[str, object]) -> StaleError:
    changed = differing(now.body, {**dict.fromkeys(now.body), **wanted})
    return stale("case", now.key, expected, now.version, now.updated_at, changed)


@requires("edit")
@takes_turn
def copy_dataset(space: Workspace, source: str, name: str, title: str | None = None) -> Dataset:
    """Copy a dataset, of the database or of conf/, with all its cases."""
    origin = get_dataset(space, source)
    if origin.origin == "workspace":
        values = dataset_values(name, origin.description, origin.generates, title)
        rows, drafts = case_rows(space, source), case_rows(space, source, draft=True)
    else:
        config = declared_dataset(space, source)
        values = dataset_values(name, config.description or "", config.generates, title)
        rows, drafts = declared_rows(space, source), iter(())
    prepared = [case_columns(row) for row in rows] + [{**case_columns(row), "is_draft": True} for row in drafts]
    with space.changing("create", "dataset", name) as connection:
        append_stored(connection, DATASETS.add(connection, space.project_id, values), prepared)
    return get_dataset(space, name)


def read_rows(dataset: str, rows: Iterable[Mapping[str, object]], *, allow_irregular: bool = True) -> Iterator[Case]:
    """Parse rows with the file reader, so that exactly the cases that a file could hold are accepted."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(rows, 1):
                if is_too_deep(row):
                    what = f"the row has more than {DEEPEST} maps and lists within each other"
                    raise UserError(Problem(what, f"rows:{number}"))
                try:
                    file.write(json.dumps(row, allow_nan=False) + "\n")
                except (TypeError, ValueError) as error:
                    raise UserError(Problem(f"the row is not JSON: {error}", f"rows:{number}")) from None
        config = DatasetConfig(path=str(path), format="jsonl", allow_irregular=allow_irregular)
        try:
            yield from list(readers.read(dataset, config))
        except UserError as error:
            key = f"dataset.{dataset}.allow_irregular=true"  # this key of a configuration does not exist here
            raise UserError(
                [
                    Problem(p.what, p.where.replace(str(path), "rows"), p.hint.replace(key, "`allow_irregular`"))
                    for p in error.problems
                ]
            ) from None


def read_row(dataset: str, row: Mapping[str, object], *, allow_irregular: bool = True) -> Case:
    """Parse one row as a case. A problem's key is the name of the field."""
    try:
        return next(read_rows(dataset, [row], allow_irregular=allow_irregular))
    except UserError as error:
        raise UserError([_at_field(problem) for problem in error.problems]) from None


def _at_field(problem: Problem) -> Problem:
    field, colon, what = problem.what.partition(": ")
    if not colon or field not in readers.FIELDS:
        return problem
    return Problem(what, field, problem.hint, field)


def irregular_turns(messages: Sequence[Mapping[str, object]], *, goes_on: bool) -> list[tuple[int, str]]:
    """Problems with the order of messages, each with the message's index. `goes_on`: a simulated user continues."""
    return list(readers.irregular(readers.read_messages(list(messages)), continues=goes_on))


def beside_words(message: Mapping[str, object]) -> list[str]:
    """Lines for the parts of a message that are not text: its tool calls, `[image]` and the like."""
    (turn,) = readers.read_messages([dict(message)])
    others = [part for part in turn.parts if part["type"] != "text"]
    return replace(turn, content="", api={**(turn.api or {}), "parts": others}).text.splitlines()


def case_columns(body: Body) -> Row:
    """The columns of a case in the form of `case_to_row`: id, question, body, and tags with all their levels.

    Raises UserError if one of its checks would start a program.
    """
    if any(starts_program(check["identifier"], check.get("params")) for check in body.get("checks") or ()):
        raise UserError(
            Problem(f"case {body['id']!r}: {NO_PROGRAMS}", "checks", "remove the check `command`", "checks")
        )
    levels = [level for tag in body.get("tags", []) for level in readers.tag_levels(tag)]
    return {
        "key": storable(body["id"]),
        "question": storable(question_of(body)),
        "body": body,
        "tags": [storable(level) for level in dict.fromkeys(levels)],
    }


Body = dict[str, Any]


@requires("read")
def case_ids(space: Workspace, dataset: str, **matching: Unpack[CaseFilter]) -> list[int]:
    """The row ids of the matching cases, in order."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        return table.CaseQuery(connection, owner, **matching).ids()


@requires("read")
def ids_of_rows(space: Workspace, dataset: str, cases: Sequence[int]) -> list[str]:
    """The cases' own ids, by row id; deleted cases are left out."""
    owner = dataset_id(space, dataset)
    return space.read(table.keys_of, owner, cases)


@requires("read")
def known_ids(space: Workspace, dataset: str, ids: Sequence[str]) -> list[str]:
    """The case ids among `ids` that a dataset has. Reads the whole dataset if it is of conf/."""
    if get_dataset(space, dataset).origin == "workspace":
        owner = dataset_id(space, dataset)
        known = space.read(table.known_keys, owner, ids)
    else:
        known = {body["id"] for body in declared_rows(space, dataset)}
    return [one for one in ids if one in known]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The number of cases deleted or changed, and the id in the trash of what was removed."""

    count: int
    trash: int


@requires("edit")
def delete_cases(space: Workspace, dataset: str, cases: Sequence[int]) -> Deleted:
    """Delete cases."""
    owner = dataset_id(space, dataset)
    with space.changing("delete cases", "dataset", dataset, [f"{len(cases)} cases"]) as connection:
        kept = keep_cases(space, connection, dataset, owner, cases)
        return Deleted(table.remove(connection, owner, cases), kept)


@requires("edit")
def tag_cases(
    space: Workspace, dataset: str, cases: Sequence[int], *, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> int:
    """Add and remove tags of cases; removing a tag removes its sub-tags. Returns the number of changed cases."""
    given = [name for tag in add if (name := readers.tag_name(tag))]
    gone = {readers.tag_name(tag) for tag in remove}

    def tagged(body: Body) -> Body:
        kept = [tag for tag in body.get("tags", []) if gone.isdisjoint(readers.tag_levels(tag))]
        tags = list(dict.fromkeys([*kept, *given]))
        return {**body, "tags": tags} if tags else _without(body, "tags")

    return change_cases(space, dataset, cases, "tags", tagged)


@requires("edit")
def activate_cases(space: Workspace, dataset: str, cases: Sequence[int], *, draft: bool = False) -> int:
    """Make drafts active, so that runs take them, or make cases drafts; returns the number of changed cases."""
    owner = dataset_id(space, dataset)
    with space.changing("update", "dataset", dataset, [f"is_draft of {len(cases)} cases"]) as connection:
        return table.set_draft(connection, owner, cases, draft=draft)


@requires("edit")
def group_cases(space: Workspace, dataset: str, cases: Sequence[int], group: str | None) -> int:
    """Set or remove the group of cases; returns the number of changed cases."""

    def grouped(body: Body) -> Body:
        return {**body, "group": group} if group else _without(body, "group")

    return change_cases(space, dataset, cases, "group", grouped)


@requires("edit")
def change_cases(space: Workspace, dataset: str, cases: Sequence[int], field: str, new: Callable[[Body], Body]) -> int:
    """Change the bodies of cases in one transaction; `field` is for the audit. Returns the number of changed cases."""
    owner = dataset_id(space, dataset)
    with space.changing("update", "dataset", dataset, [f"{field} of {len(cases)} cases"]) as connection:
        there = table.by_ids(connection, owner, cases)
        changed = {one.id: case_columns(body) for one in there if (body := new(one.body)) != one.body}
        table.rewrite(connection, changed)
    return len(changed)


@requires("edit")
def write_reference(space: Workspace, dataset: str, key: str, reference: str) -> None:
    """Set the expected answer of a case (by its own id) that has none."""
    if not reference.strip():
        raise UserError(Problem("this field is required", "reference", key="reference"))
    owner = dataset_id(space, dataset)
    with space.changing("update", "dataset", dataset, [f"reference of case {key}"]) as connection:
        if not table.known_keys(connection, owner, [key]):
            raise not_found("case", key, [])
        there = table.by_key(connection, owner, key)
        if there.body.get("reference") is not None:
            raise TakenError(Problem("somebody wrote an expected answer meanwhile", "reference", "open the case"))
        table.rewrite(connection, {there.id: case_columns({**there.body, "reference": reference.strip()})})


def _without(body: Body, field: str) -> Body:
    return {key: value for key, value in body.items() if key != field}


@dataclass(frozen=True, slots=True)
class CasePlace:
    """The place that a case has, or would have, in a filtered list.

    Attributes:
        before: The number of matching cases before it.
        previous, next: Row ids of its neighbours; None at the ends.
    """

    before: int
    total: int
    previous: int | None
    next: int | None


@requires("read")
def case_place(space: Workspace, dataset: str, case: int, **matching: Unpack[CaseFilter]) -> CasePlace:
    """The place of a case among those that match a filter."""
    there = get_case(space, dataset, case)
    with space.database.reading() as connection:
        query = table.CaseQuery(connection, there.dataset_id, **matching)
        before, previous, following = query.around(there.position)
        return CasePlace(before, query.count(), previous, following)


@requires("read")
def cases_at(
    space: Workspace, dataset: str, first: int, limit: int = 50, **matching: Unpack[CaseFilter]
) -> FoundCases[StoredCase]:
    """A page of the matching cases, in order; the last page if `first` is beyond the end."""
    owner, limit = dataset_id(space, dataset), max(1, min(limit, MAX_PAGE))
    with space.database.reading() as connection:
        query = table.CaseQuery(connection, owner, **matching)
        total = query.count()
        if first >= total:
            first = max(0, (total - 1) // limit * limit)
        cases = query.page_at(first, limit)
    return FoundCases(cases, first, total)


@requires("read")
def example_rows(space: Workspace, dataset: str, count: int = 20) -> list[Mapping[str, object]]:
    """The first cases of a dataset, as rows of JSON lines."""
    if get_dataset(space, dataset).origin == "workspace":
        return [case.body for case in list_cases(space, dataset, limit=count).items]
    return list(islice(declared_rows(space, dataset), count))

"""Upload of cases, with a mapping of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from evalflow import datasets as readers
from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.store.rows import storable
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.cases import Fields, append_rows
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.config.schema import DatasetConfig
from evalflow.datasets.fields import named_columns
from evalflow.datasets.nested import propose_mapping, with_paths
from evalflow.errors import Problem, UserError, did_you_mean

SHOWN = 100
"""Maximum number of problems listed."""
_AT_ONCE = 500
_PLACE = re.compile(r":(?P<line>\d+)$|\[(?P<record>\d+)\]$|, row (?P<row>\d+)$")
_PACKED = (".xlsx", ".parquet")
"""Suffixes of files that may unpack to much, each read by a process with much memory."""
LONGEST_WAIT_S = 60.0
"""Seconds to wait until another large file has been read."""


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of cases (.jsonl, .json, .csv, .parquet or .xlsx); `sheet` as in a dataset's configuration."""

    path: Path
    sheet: str | None = None

    def config(self, fields: Fields | None = None) -> DatasetConfig:
        """The file as a dataset."""
        return DatasetConfig(path=str(self.path), sheet=self.sheet, fields=dict(fields or {}) or None)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file, or a path into one that holds objects.

    Attributes:
        field: The case field that it probably holds; None for an additional input.
        example: Its first value, as text.
    """

    name: str
    field: str | None
    example: str


@dataclass(frozen=True, slots=True)
class Examined:
    """The preview of an import.

    Attributes:
        good: The number of rows that can be imported.
        faulty: Positions of the other rows in the file, from 0.
        problems: The problems of those rows, at most `SHOWN`; `where` is `line 7`, `record 7` of a JSON list, or
            `row 7` of Excel.
        first: The first cases, as rows of JSON lines.
        notes: What reading left out or changed, such as empty rows.
    """

    good: int
    faulty: Sequence[int]
    problems: Sequence[Problem]
    first: Sequence[Mapping[str, object]]
    notes: Sequence[str] = ()


@requires("edit")
@takes_turn
def upload_cases(
    space: Workspace, dataset: str, source: CaseFile, fields: Fields | None = None, *, skip_faulty: bool = False
) -> int:
    """Add the cases of a file; returns their number.

    `fields`: case field to column or JSONPath; a column named like a field needs no entry. Without `skip_faulty`, one
    invalid row rejects the file.
    """
    dataset_id(space, dataset)
    with _reading(space, source.path):
        if skip_faulty:
            rows = _checked_rows(space, dataset, source, fields, readers.ReadingNotes())
            accepted = [row.case for row in rows if row.case]
        else:
            accepted = list(readers.read(dataset, source.config(fields)))
    if not accepted and skip_faulty:
        raise UserError(Problem("no row of it can be taken", source.path.name))
    return append_rows(space, dataset, (readers.case_to_row(case) for case in accepted))


@requires("edit")
@takes_turn
def examine_upload(
    space: Workspace, dataset: str, source: CaseFile, fields: Fields | None = None, limit: int = 5
) -> Examined:
    """Read a whole file and report what an import would give, with the first `limit` cases; nothing is saved."""
    with _reading(space, source.path):
        return _examined(space, dataset, source, fields, limit)


def _examined(space: Workspace, dataset: str, source: CaseFile, fields: Fields | None, limit: int) -> Examined:
    _expect_columns(source, fields or {})
    good, faulty, problems = 0, list[int](), list[Problem]()
    first: list[Mapping[str, object]] = []
    notes = readers.ReadingNotes()
    for row in _checked_rows(space, dataset, source, fields, notes):
        if row.case is None:
            faulty.append(row.position)
            problems += [at_place_in_file(problem) for problem in row.problems if len(problems) < SHOWN]
            continue
        good += 1
        if len(first) < limit:
            first.append(readers.case_to_row(row.case))
    return Examined(good, faulty, problems[:SHOWN], first, list(notes.lines()))


@requires("edit")
def faulty_rows(space: Workspace, source: CaseFile, faulty: Sequence[int]) -> list[str]:
    """The rows at these positions, copied from the file with its header, if any, so that users can correct them."""
    with _reading(space, source.path):
        return list(readers.excerpt(source.config(), set(faulty)))


@requires("edit")
def sheets_of(space: Workspace, path: Path) -> list[str]:
    """The visible sheets of an Excel workbook that have rows; UserError if there is none, or it cannot be read."""
    with _reading(space, path):
        return readers.sheets(path)


@requires("edit")
def columns_of(space: Workspace, source: CaseFile) -> list[Column]:
    """The columns of a file, or paths into their objects, each with the case field that it probably holds."""
    with _reading(space, source.path):
        values, rows = readers.examples(source.config()), readers.first_rows(source.config())
    mapping = propose_mapping(values, rows)
    examples = with_paths(values, mapping)
    proposed = {column: field for field, column in mapping.items()}
    fields = {name: proposed.get(name, name if name in readers.FIELDS else None) for name in examples}
    texts = {
        name: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for name, one in examples.items()
    }
    return [Column(name, fields[name], "" if one is None else texts[name]) for name, one in examples.items()]


@contextmanager
def _reading(space: Workspace, path: Path) -> Generator[None]:
    """Read a file; of packed ones only so many at once, and others wait."""
    if path.suffix not in _PACKED:
        yield
        return
    if not space.packed.acquire(timeout=LONGEST_WAIT_S):
        what = "other people's Excel and Parquet files are being read, and none was done within a minute"
        raise UserError(Problem(what, path.name, "try again in a moment, or save the table as CSV"))
    try:
        yield
    finally:
        space.packed.release()


def _checked_rows(
    space: Workspace, dataset: str, source: CaseFile, fields: Fields | None, notes: readers.ReadingNotes
) -> Iterator[readers.ReadRow]:
    """The rows of a file. A case id that the dataset already has is a problem of its row."""
    owner = dataset_id(space, dataset)
    named = "id" in (fields or {}) or "id" in readers.examples(source.config(fields))
    rows = readers.read_rows(dataset, source.config(fields), notes)
    seen: dict[str, str] = {}
    while chunk := list(islice(rows, _AT_ONCE)):
        keys = {row.position: storable(row.case.id) for row in chunk if row.case}
        known = space.read(table.known_keys, owner, list(keys.values()))
        for row in chunk:
            key = keys.get(row.position)
            if key is not None and (key in known or key in seen):
                place = "in the dataset" if key in known else f"in this file, at {_short(seen[key])}"
                row = replace(row, case=None, problems=[_repeated(key, place, row.where, named=named)])
            elif key is not None:
                seen[key] = row.where
            yield row


def _expect_columns(source: CaseFile, fields: Fields) -> None:
    """Refuse a mapping from columns that a table lacks, which would leave their fields empty in every row."""
    if source.path.suffix in (".json", ".jsonl"):
        return  # rows of JSON may have different keys
    there = list(readers.examples(source.config()))
    problems = [
        Problem(f"there is no column {column!r}", "", did_you_mean(column, there), key=field)
        for field, given in (source.config(fields).fields or {}).items()
        for column in named_columns(field, given)
        if column not in there
    ]
    if problems:
        raise UserError(problems)


def _repeated(key: str, place: str, where: str, *, named: bool) -> Problem:
    if named:
        hint = "give it another id, or leave it out; a row without an id gets one of its content"
        return Problem(f"the id {key!r} is {place} already", where, hint)
    return Problem(f"the same case is {place} already", where, "leave it out, or give each an id of its own")


def at_place_in_file(problem: Problem) -> Problem:
    """The problem with `where` reduced to the place within the file."""
    return replace(problem, where=_short(problem.where))


def _short(where: str) -> str:
    place = _PLACE.search(where)
    named = place.groupdict() if place else {}
    return next((f"{kind} {number}" for kind, number in named.items() if number), "")

"""The rows of a table that cases are made of: with trimmed names, without empty rows; and notes on the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from evalflow.datasets.case_rows import content_id
from evalflow.datasets.sources import SourceRow, Table, trimmed
from evalflow.errors import Problem

_SECOND_PART = 8  # hexadecimal digits


@dataclass(slots=True)
class ReadingNotes:
    """What was left out or changed in reading a dataset.

    Attributes:
        empty: Rows without a value.
        equal: Rows without an id that ask the same as an earlier row.
        halves: Half characters that became the replacement character.
    """

    empty: int = 0
    equal: int = 0
    halves: int = 0

    def lines(self, dataset: str = "") -> Iterator[str]:
        """The notes, as sentences that begin with the dataset, if one is named."""
        yield from (f"{dataset}: {line}" if dataset else line for line in self._lines())

    def _lines(self) -> Iterator[str]:
        if self.empty:
            rows = "1 empty row is" if self.empty == 1 else f"{self.empty:,} empty rows are"
            yield f"{rows} left out"
        if self.equal:
            rows = "1 row without an id asks the same as an earlier one"
            rows = rows if self.equal == 1 else f"{self.equal:,} rows without an id ask the same as earlier ones"
            yield f"{rows}; each is a separate case, whose id has a second part"
        if self.halves:
            them = "1 half character" if self.halves == 1 else f"{self.halves:,} half characters"
            yield f"{them} in texts that were cut, read as \ufffd"


class MadeIds:
    """Ids made from what rows ask. If a row asks the same as an earlier one, its id has a second part of other fields.

    So the ids stay if a row is added or removed, but for the first of those that ask the same. Rows whose other fields
    are equal too, such as several answers to one question, are numbered in their order.
    """

    def __init__(self, notes: ReadingNotes) -> None:
        self._notes = notes
        self._seen: set[int] = set()
        self._times: dict[str, int] = {}

    def distinct(self, made: str, rest: Callable[[], object]) -> str:
        """The id, given in hexadecimal; if it was given before, with a part of `rest`, the row's other fields."""
        key = int(made, 16)
        if key not in self._seen:
            self._seen.add(key)
            return made
        self._notes.equal += 1
        others = rest()
        longer = f"{made}-{content_id(others)[:_SECOND_PART]}" if others else made
        self._times[longer] = number = self._times.get(longer, 0 if others else 1) + 1
        return longer if number == 1 else f"{longer}-{number}"


def filled_rows(table: Table, notes: ReadingNotes | None = None) -> Iterator[tuple[int, SourceRow | Problem]]:
    """The rows that are not empty, with trimmed column names, each with its number from 0 among all rows."""
    trimmed_names: set[str] = set()
    for position, row in enumerate(table.rows):
        if isinstance(row, Problem):
            yield position, row
        elif is_empty(row.data):
            if notes is not None:
                notes.empty += 1
        else:
            if not trimmed_names.issuperset(row.data):
                row = _trimmed_row(row)
                trimmed_names.update(row.data if isinstance(row, SourceRow) else ())
            yield position, row
    if notes is not None:
        notes.halves += table.halves.count


def is_empty(row: Mapping[str, object]) -> bool:
    """Whether a row has only nulls and blank texts."""
    for value in row.values():  # the first value mostly decides
        if value is not None and not (isinstance(value, str) and (not value or value.isspace())):
            return False
    return True


def _trimmed_row(row: SourceRow) -> SourceRow | Problem:
    if all(name == trimmed(name) for name in row.data):
        return row
    data: dict[str, object] = {}
    for name, value in row.data.items():
        if (bare := trimmed(name)) in data:
            return Problem(f"two columns are called {bare!r}, with and without space around it", row.where)
        data[bare] = value
    exact = row.exact
    return replace(row, data=data, exact=exact and (lambda: {trimmed(name): value for name, value in exact().items()}))

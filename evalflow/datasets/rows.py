"""Rows of a table and cases: trimmed names, no empty rows, notes on the reading; cases as rows, and ids of contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import cast

from evalflow.datasets.fields import FIELDS, is_plain
from evalflow.datasets.sources import SourceRow, Table, Unreadable, trimmed
from evalflow.errors import Problem
from evalflow.records import Case, Context, Message
from evalflow.values.jsonvalues import as_list, as_map, is_object

_CONTEXT = ("text", "title", "path")
_KEPT = tuple(name for name in FIELDS if name not in ("question", "history"))
_kept_values = attrgetter(*_KEPT)


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row of a file, by its number from 0, with its case or all its problems."""

    position: int
    where: str
    case: Case | None
    problems: Sequence[Problem] = ()


def content_id(content: object) -> str:
    """An id shared by equal JSON contents: 16 hexadecimal digits of a SHA-256 over their canonical text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_ASKS = ("messages", "scenario")
_ASKED = (*_ASKS, "persona", "goal", "facts", "reference", "expected")


def case_id(values: Mapping[str, object]) -> str:
    """The id of a case whose row has none, made from what is asked and expected. The bot's answer does not change it.

    So the recorded answers of two versions of a bot are compared case by case. If nothing is asked, as with texts to
    classify, the variables count too.
    """
    names = _ASKED if any(values.get(name) for name in _ASKS) else (*_ASKED, "vars")
    known = {name: json_value(value) for name in names if (value := values.get(name)) is not None}
    for message in filter(is_object, as_list(known.get("messages"))):
        message.pop("metadata", None)  # such as how long an earlier answer took
    return content_id(known)


_REST = ("contexts", "checks", "tags", "group", "vars")


def rest_of(values: Mapping[str, object]) -> dict[str, object]:
    """The fields that distinguish cases that ask the same, such as a text to summarise; no answers or measurements."""
    kept = {name: json_value(value) for name in _REST if (value := values.get(name)) is not None}
    texts = {
        name: value for name, value in as_map(kept.pop("vars", None)).items() if not isinstance(value, int | float)
    }
    return {**kept, **texts}


def case_to_row(case: Case) -> dict[str, object]:
    """The case as a row that `read` turns into an equal case without `fields`; absent fields and place are left out."""
    return {
        name: value if isinstance(value, str) else json_value(value)
        for name, value in zip(_KEPT, _kept_values(case), strict=True)
        if value is not None and (value or name not in ("messages", "tags", "vars"))
    } | ({"reference": None} if case.reference is None and is_plain(case.expected) else {})


def short_row(case: Case) -> dict[str, object]:
    """The row of `case_to_row` without what `read` adds by itself; it reads as an equal case, too.

    A single question is no list of messages, a context that has only a text is this text, and a reference that is the
    text under `expected` is left out.
    """
    row = case_to_row(case)
    if [*map(_plain_user, case.messages)] == [True]:
        question = {"question": case.messages[0].content}
        row = {"id": row["id"], **question, **{name: row[name] for name in row if name != "messages"}}
    if case.contexts is not None:
        row["contexts"] = [one.text if one == Context(one.text) else json_value(one) for one in case.contexts]
    if isinstance(case.reference, str) and case.reference == case.expected and is_plain(case.expected):
        del row["reference"]
    return row


def _plain_user(message: Message) -> bool:
    return message.role == "user" and message.metadata is None and message.api is None


def json_value(value: object) -> object:
    """A field of a case as a row holds it."""
    if isinstance(value, tuple):
        return [json_value(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Message):
        row = {"role": value.role, "content": value.content, **(value.api or {}), "metadata": value.metadata}
        return {name: part for name, part in row.items() if part is not None}
    if isinstance(value, Context):
        return {name: part for name in _CONTEXT if (part := getattr(value, name)) is not None}
    return value


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
            yield f"{them} in texts that were cut became \ufffd"


class MadeIds:
    """Ids made from what rows ask. If a row asks the same as an earlier one, its id has a second part of other fields.

    So adding or removing a row changes no other id, except if the row is the first of those that ask the same. Rows
    whose other fields are equal too, such as several answers to one question, are numbered in their order.
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


MOST_EMPTY = 2**20
"""Maximum number of empty rows: that of all rows of an Excel sheet. In JSON one takes three bytes, so a small file of
them would be read for minutes."""


def filled_rows(table: Table, notes: ReadingNotes | None = None) -> Iterator[tuple[int, SourceRow | Problem]]:
    """The rows that are not empty, with trimmed column names, each with its number from 0 among all rows.

    The row after `MOST_EMPTY` empty ones is a Problem, and the last.
    """
    trimmed_names: set[str] = set()
    empty = 0
    for position, row in enumerate(table.rows):
        if isinstance(row, Problem):
            yield position, row
        elif is_empty(row.data):
            empty += 1
            if notes is not None:
                notes.empty += 1
            if empty > MOST_EMPTY:
                what = f"more than {MOST_EMPTY:,} rows are empty"
                yield position, Unreadable(what, row.where, "remove the empty rows")
                return
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

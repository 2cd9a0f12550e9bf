"""Counts of an import: what the files have, what was taken, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from evalflow.datasets.rows import ReadingNotes
from evalflow.errors import Problem, UserError

COMMAND = "write it as a program, and declare it as a `command` check: docs/checks.md"
"""The hint for a program that scores."""
COLUMNS = "columns"
"""The part under which the source's keys are counted, each once for any number of rows."""
_MANY = 1000  # maximum names of columns counted separately
_LINES = 5  # places kept of equal entries, so that a large file with one fault in every line stays small


class Untranslatable(Exception):
    """Raised for something without an equivalent; `reason` says why, `hint` what to do instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(slots=True)
class Untranslated:
    """Something that was not translated. Equal entries are counted together.

    Attributes:
        part: The part it is counted in, such as asserts.
        what: Its name in the file.
        reason, hint: Why it was left out, and what to do instead.
        count: How many.
        places: `file:line` of the first entries.
    """

    part: str
    what: str
    reason: str
    hint: str = ""
    count: int = 0
    places: list[str] = field(default_factory=list[str])

    def add(self, where: str, count: int = 1) -> None:
        self.count += count
        if len(self.places) < _LINES and where and where not in self.places:
            self.places.append(where)

    @property
    def where(self) -> str:
        more = self.count - len(self.places)
        return ", ".join(self.places) + (f" and {more:,} more" if more > 0 else "")


class Ledger:
    """Counts by part: `found` in the files, `took` over, and `left` out. The first is the sum of the other two.

    Columns are counted by name (in `importers.columns`): one that was taken from any row counts as taken; values left
    out of it are listed anyway.
    """

    def __init__(self, parts: Sequence[str] = ()) -> None:
        self._found: Counter[str] = Counter(dict.fromkeys(parts, 0))
        self._taken: Counter[str] = Counter()
        self._left: dict[tuple[str, str, str, str], Untranslated] = {}
        self._columns: dict[str, bool] = {}
        self._halves: Counter[str] = Counter()

    def found(self, part: str, count: int = 1) -> None:
        self._found[part] += count

    def took(self, part: str, count: int = 1) -> None:
        self._taken[part] += count

    def left(self, part: str, what: str, where: str, reason: str, hint: str = "", count: int = 1) -> None:
        entry = self._left.setdefault((part, what, reason, hint), Untranslated(part, what, reason, hint))
        entry.add(where, count)

    def take(self, part: str, count: int = 1) -> None:
        """Count as found and taken."""
        self.found(part, count)
        self.took(part, count)

    def leave(self, part: str, what: str, where: str, reason: str, hint: str = "", count: int = 1) -> None:
        """Count something as found and left out."""
        self.found(part, count)
        self.left(part, what, where, reason, hint, count)

    def leave_reading(self, notes: ReadingNotes, where: str, part: str = "cases") -> None:
        """List what the reading of a file left out or changed: empty rows, and half characters."""
        if notes.empty:
            self.leave(part, "row", where, "the row is empty", count=notes.empty)
        if notes.halves:
            reason = "its text was cut: data/ has \ufffd instead"
            self.leave("values", "half a character", where, reason, count=notes.halves)

    def leave_halves(self, count: int, file: str) -> None:
        """List the half characters of a file, once for any number of passes over it."""
        more = count - self._halves[file]
        if more > 0:
            self._halves[file] = count
            self.leave_reading(ReadingNotes(halves=more), file)

    def leave_broken(self, problem: Problem, part: str = "cases", what: str = "row") -> None:
        """List a row that is broken."""
        self.leave(part, what, problem.where, problem.what, problem.hint)

    def take_column(self, name: str) -> None:
        """Count a key of the source as taken: mapped to a field, or kept in variables or metadata."""
        if name in self._columns or len(self._columns) < _MANY:
            self._columns[name] = True

    def leave_column(self, name: str, where: str, reason: str, hint: str = "") -> None:
        """List a value that was not taken, of a key of the source."""
        column = name if name in self._columns or len(self._columns) < _MANY else "others"
        self._columns.setdefault(column, False)
        self.left(COLUMNS, f"column {column}", where, reason, hint)

    @contextmanager
    def taking(self, part: str, what: str, where: str) -> Generator[None]:
        """Count something as found, and as taken unless the block raises Untranslatable, which is listed."""
        self.found(part)
        try:
            yield
        except Untranslatable as failure:
            self.left(part, what, where, failure.reason, failure.hint)
        else:
            self.took(part)

    def nothing_taken(self, otherwise: Problem, part: str | None = None) -> UserError:
        """The error for an import with nothing to write: lists what was left out (of a part), else `otherwise`."""
        left = [item for item in self.left_out if part in (None, item.part)]
        return UserError(
            [Problem(f"{item.what}: {item.reason}", item.where, item.hint) for item in left] or [otherwise]
        )

    @property
    def left_out(self) -> Sequence[Untranslated]:
        return list(self._left.values())

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """By part: found, taken, left out."""
        left: Counter[str] = Counter()
        for entry in self._left.values():
            left[entry.part] += entry.count
        parts = dict.fromkeys(chain(self._found, self._taken, left))
        counts = {part: (self._found[part], self._taken[part], left[part]) for part in parts if part != COLUMNS}
        if self._columns:
            taken = sum(self._columns.values())
            counts[COLUMNS] = (len(self._columns), taken, len(self._columns) - taken)
        return counts

    def expect_balanced(self) -> None:
        """Raise RuntimeError (a bug in evalflow) if anything found was neither taken nor listed."""
        wrong = [
            f"of {item} {part} {taken} were taken and {left} listed"
            for part, (item, taken, left) in self.counts().items()
            if item != taken + left
        ]
        if wrong:
            raise RuntimeError(f"the import lost count: {'; '.join(wrong)}")

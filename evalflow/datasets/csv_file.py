"""CSV: a header, then one record per row; its cells are text."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from evalflow.datasets.halves import Halves
from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable, named, too_long, without_nameless
from evalflow.errors import Problem
from evalflow.paths import shown

_DELIMITERS = (",", ";", "\t", "|")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_DECLARED = re.compile(r'"?sep=(?P<delimiter>[^"\r\n])"?\r?\n')
"""A first line that tells Excel the delimiter; it is not the header."""
_ENCODING = "save it as UTF-8; in Excel, as “CSV UTF-8”"


def open_csv(path: Path) -> Table:
    """Open the file as a table of text cells, empty ones absent; separated by commas, semicolons, tabs or pipes.

    A first line `sep=;`, as for Excel, declares another delimiter.
    """
    halves = Halves()
    return Table(_rows(path, halves), cells=True, halves=halves)


def raw_records(path: Path) -> Iterator[str]:
    """The raw text of the header and of every record, from a file known to be readable."""
    text: list[str] = []
    with path.open(encoding="utf-8-sig", errors="surrogatepass", newline="") as file:
        for cells in _reader(_Lines(file, text), path):
            if cells:
                yield "".join(text).rstrip("\r\n") + "\n"
            text.clear()


class _TooLong(Exception):
    """A record is longer than MAX_RECORD."""


@dataclass(slots=True)
class _Lines:
    """The lines of a file, up to a record that is too long: an unclosed quote would read the rest of the file as one.

    `text` has the lines of the current record; the caller clears it after each record.
    """

    file: TextIO
    text: list[str]
    halves: Halves = field(default_factory=Halves)
    length: int = 0

    def __iter__(self) -> Iterator[str]:
        while line := self.file.readline(MAX_RECORD + 1):
            self.length = self.length + len(line) if self.text else len(line)
            if self.length > MAX_RECORD:
                raise _TooLong
            line = self.halves.text(line)
            self.text.append(line)
            yield line


def _reader(lines: _Lines, path: Path) -> Iterator[list[str]]:
    """The cells of each record, the header's first."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(MAX_RECORD)
    declared = _DECLARED.fullmatch(header)
    delimiter = declared["delimiter"] if declared else max(_DELIMITERS, key=_QUOTED.sub("", header).count)
    csv.field_size_limit(MAX_RECORD)  # the default of 128 KiB is less than a document
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    if declared:
        next(reader)
    return reader


def _rows(path: Path, halves: Halves) -> Iterator[SourceRow | Problem]:
    name = shown(path)
    line = 1
    text: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", errors="surrogatepass", newline="") as file:
            reader = _reader(_Lines(file, text, halves), path)
            header = named(next(reader, None) or [])
            if twice := [column for column, n in Counter(header).items() if n > 1 and column]:
                yield Unreadable(f"the header names {twice[0]!r} more than once", f"{name}:1")
                return
            line += len(text)
            text.clear()
            for cells in reader:
                if cells:
                    yield _row(header, cells, f"{name}:{line}")
                line += len(text)
                text.clear()
    except _TooLong:
        yield too_long(f"{name}:{line}", "is a quote left open? One inside a cell is written twice")
    except csv.Error as error:
        yield Unreadable(f"broken CSV: {error}", f"{name}:{line}", "a quote inside a cell is written twice")
    except UnicodeDecodeError:
        yield _not_utf8(path)


def _row(header: list[str], cells: list[str], where: str) -> SourceRow | Problem:
    beside = next((at for at, name in enumerate(header) if not name and "".join(cells[at : at + 1]).strip()), None)
    if beside is not None:
        what = f"the cell {beside + 1} has a value, but its column has no name"
        return Problem(what, where, "name the column in the header")
    if any(cell.strip() for cell in cells[len(header) :]):
        hint = "put quotes around a cell that contains a comma"
        return Problem(f"the record has {len(cells)} cells, more than the header's {len(header)}", where, hint)
    return SourceRow(where, without_nameless(zip(header, cells, strict=False)))


def _not_utf8(path: Path) -> Problem:
    """Return the problem with its line. Blocks end in mid-line, so the file is read again line by line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(errors="surrogatepass")
            except UnicodeDecodeError as error:
                where, what = f"{shown(path)}:{number}", f"the file is not UTF-8: {error.reason}"
                utf16 = number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff"))
                return Unreadable(what, where, "the file is UTF-16; save it as UTF-8" if utf16 else _ENCODING)
    return Unreadable("the file changed while it was read", shown(path))

"""Excel workbooks (.xlsx): a sheet with a header, read as the CSV that Excel would save of it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from evalflow.datasets.halves import Halves
from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable, named, without_nameless
from evalflow.errors import Problem, UserError
from evalflow.limited import LimitExceeded, Work
from evalflow.paths import shown
from evalflow.values.jsonvalues import is_object, text_at

UNPACKED = 512 * 1024**2
"""Maximum size of a workbook's parts together, unpacked, in bytes."""
MEMORY = 2 * 1024**3
"""Memory of the process that reads a workbook, in bytes."""
SECONDS = 120
"""Its CPU time."""
_READING = Work("evalflow.limited.workbooks:lines", imports=("python_calamine",), memory=MEMORY, output=2**28, files=16)
_LESS = "delete what lies far away from the table, or save the sheet as CSV"


def open_workbook(path: Path, sheet: str | None = None) -> Table:
    """Open a sheet as a table of text cells, empty ones absent; by default the only visible sheet that has rows.

    The first row that is not empty names the columns. Dates become ISO 8601 text; a formula is its saved result, and an
    error in a cell a problem of its row.
    """
    halves = Halves()
    return Table(_rows(path, sheet or "", halves), cells=True, halves=halves)


def sheets(path: Path) -> list[str]:
    """The visible sheets that have rows; UserError if it has none, or cannot be read."""
    with closing(_lines(path, None)) as lines:
        names = next(lines)
    if isinstance(names, Problem):
        raise UserError(names)
    return names


def sheet_records(path: Path, sheet: str | None = None) -> Iterator[str]:
    """The header and every row of a sheet as CSV that Excel opens; from a workbook known to be readable."""
    mark = "\ufeff"  # Excel takes a file without it for its own code page
    with closing(_lines(path, sheet or "")) as lines:
        for _, _, cells, _ in lines:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(cells)
            yield mark + text.getvalue()
            mark = ""


def _rows(path: Path, sheet: str, halves: Halves) -> Iterator[SourceRow | Problem]:
    name = shown(path)
    header: list[str] = []
    with closing(_lines(path, sheet)) as lines:
        for line in lines:
            if isinstance(line, Problem):
                yield line
                return
            number, left, cells, faults = line
            where = f"{name}, row {number}"
            if not header:
                header = named([halves.text(cell) for cell in cells])
                twice = [column for column, times in Counter(filter(None, header)).items() if times > 1]
                if twice or faults:
                    what = faults[0] if faults else f"the row with the columns' names has {twice[0]!r} more than once"
                    yield Unreadable(what, where)
                    return
            elif faults:
                yield Problem("; ".join(faults), where, "write the value itself, or calculate and save it in Excel")
            else:
                yield _row(header, [number, left, [halves.text(cell) for cell in cells], faults], where)


def _row(header: list[str], line: list[Any], where: str) -> SourceRow | Problem:
    number, left, cells, _ = line
    beside = next((at for at, cell in enumerate(cells) if cell.strip() and not header[at]), None)
    if beside is not None:
        what = f"{_letters(left + beside)}{number} has a value, but its column has no name"
        return Problem(what, where, "name each column in the first row that is not empty")
    return SourceRow(where, without_nameless(zip(header, cells, strict=True)))


def _letters(index: int) -> str:
    """The letters of a column: 0 is A, 26 is AA."""
    before, last = divmod(index, 26)
    return (_letters(before - 1) if before else "") + chr(ord("A") + last)


def _lines(path: Path, sheet: str | None) -> Generator[Any]:
    """What `limited.workbooks` gives; an error is an Unreadable."""
    task = {"path": str(path.absolute()), "sheet": sheet, "unpacked": UNPACKED, "longest": MAX_RECORD}
    name = shown(path)
    try:
        for line in _READING.stream(task, SECONDS, "the workbook"):
            yield Unreadable(text_at(line, "what"), name, text_at(line, "hint")) if is_object(line) else line
    except LimitExceeded as error:
        if error.limit == "crash":
            yield Unreadable("the workbook is damaged", name, "open it in Excel, and save it again")
        else:
            yield Unreadable(str(error), name, _LESS)

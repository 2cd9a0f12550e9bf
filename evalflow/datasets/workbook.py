"""Excel workbooks (.xlsx): a sheet with a header, read as the CSV that Excel would save of it."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from evalflow.datasets.halves import Halves
from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable, named, without_nameless
from evalflow.errors import Problem, UserError
from evalflow.paths import shown

UNPACKED = 512 * 1024**2
"""Maximum size of a workbook's parts together, unpacked, in bytes."""
MEMORY = 2 * 1024**3
"""Memory of the process that reads a workbook, in bytes."""
SECONDS = 120
"""Its CPU time."""
_LESS = "delete what lies far away from the table, or save the sheet as CSV"


def open_workbook(path: Path, sheet: str | None = None) -> Table:
    """Open a sheet as a table of text cells, empty ones absent; by default the only visible sheet that has rows.

    The first row that is not empty names the columns. Dates become ISO 8601 text; a formula is its saved result, and an
    error in a cell a problem of its row.
    """
    halves = Halves()
    return Table(_rows(path, sheet or "", halves), cells=True, halves=halves)


def sheets(path: Path) -> list[str]:
    """The visible sheets that have rows; UserError if there is none, or the workbook cannot be read."""
    with closing(_lines(path, None)) as lines:
        found = next(lines)
    if isinstance(found, Problem):
        raise UserError(found)
    return found


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
    """What `workbook_process` prints; an error is an Unreadable."""
    from evalflow.datasets import workbook_process

    limits = map(str, (UNPACKED, MEMORY, SECONDS, MAX_RECORD))
    command = [sys.executable, "-P", workbook_process.__file__, str(path), json.dumps(sheet), *limits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - no shell
        assert process.stdout is not None
        try:
            for text in process.stdout:
                if not text.endswith(b"\n"):  # the process was ended within a row
                    break
                line = cast("dict[str, str] | list[Any]", json.loads(text))
                yield Unreadable(line["what"], shown(path), line["hint"]) if isinstance(line, dict) else line
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        yield _ended(process.returncode, shown(path))


def _ended(code: int, name: str) -> Problem:
    from evalflow.datasets import workbook_process

    if code in (workbook_process.OUT_OF_MEMORY, -signal.SIGABRT):
        return Unreadable(f"the workbook needs more than {MEMORY >> 20:,} MB of memory", name, _LESS)
    if sys.platform != "win32" and code == -signal.SIGXCPU:
        return Unreadable(f"the workbook takes more than {SECONDS} s to read", name, _LESS)
    return Unreadable("the workbook is damaged", name, "open it in Excel, and save it again")

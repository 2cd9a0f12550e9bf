"""CSV: a header, then one record a row, all of it text until a column's meaning is known."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from evalflow.datasets.rows import Broken, Row, Table, refuse_too_large, shown
from evalflow.errors import Problem

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_BOOLEAN = {"true": True, "false": False}
# Longer than any cell; the module's own limit of 128 KiB is less than a document.
_CELL_LIMIT = 2**31 - 1
_DELIMITERS = (",", ";", "\t")
_ENCODING = "save it as UTF-8; in Excel, as “CSV UTF-8”"


def open_csv(path: Path) -> Table:
    """The file as a table of text cells; an empty cell is an absent value.

    Between the cells may stand semicolons or tabs, as spreadsheets write them where a comma is the decimal sign.
    """
    return Table(_rows(path), cells=True)


def raw_records(path: Path) -> Iterator[str]:
    """The text of the header, then of every record, as it stands in a file that can be read to its end."""
    csv.field_size_limit(_CELL_LIMIT)
    text: list[str] = []

    def lines(file: Iterable[str]) -> Iterator[str]:
        for line in file:
            text.append(line)
            yield line

    with path.open(encoding="utf-8-sig", newline="") as file:
        for cells in csv.reader(lines(file), delimiter=_delimiter(path), strict=True):
            if cells:
                yield "".join(text).rstrip("\r\n") + "\n"
            text.clear()


def _delimiter(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    return max(_DELIMITERS, key=header.count)


def _rows(path: Path) -> Iterator[Row | Problem]:
    name = shown(path)
    csv.field_size_limit(_CELL_LIMIT)
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_delimiter(path), strict=True)
            header = next(reader, None) or []
            twice = [column for column, n in Counter(header).items() if n > 1]
            if twice:
                yield Broken(f"the header names {twice[0]!r} more than once", f"{name}:1")
                return
            line = reader.line_num + 1
            for cells in reader:
                if cells:
                    yield _row(header, cells, f"{name}:{line}")
                line = reader.line_num + 1
    except csv.Error as error:
        yield Broken(f"broken CSV: {error}", f"{name}:{line}", "a quote inside a cell is written twice")
    except UnicodeDecodeError:
        yield _not_utf8(path)


def _row(header: list[str], cells: list[str], where: str) -> Row | Problem:
    if len(cells) > len(header):
        hint = "put quotes round a cell that holds a comma"
        return Problem(f"the record has {len(cells)} cells, more than the header's {len(header)}", where, hint)
    return Row(where, dict(zip(header, cells, strict=False)))


def _not_utf8(path: Path) -> Problem:
    """The problem, with the first line that is no UTF-8; the file was read in blocks, which end in mid-line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                where, what = f"{shown(path)}:{number}", f"the file is not UTF-8: {error.reason}"
                utf16 = number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff"))
                return Broken(what, where, "the file is UTF-16; save it as UTF-8" if utf16 else _ENCODING)
    return Broken("the file changed while it was read", shown(path))


def structure(cell: str) -> Any:
    """The list or object that a cell spells out in JSON, else the cell's text.

    Raises:
        ValueError: A number in it is too large.
    """
    if not cell.startswith(("[", "{")):
        return cell
    return _json_or_text(cell)


def value(cell: str) -> Any:
    """What a cell spells out in JSON (list, object, number, boolean in any case), else its text.

    Raises:
        ValueError: A number is too large.
    """
    if cell.lower() in _BOOLEAN:
        return _BOOLEAN[cell.lower()]
    return _json_or_text(cell) if _NUMBER.match(cell) else structure(cell)


def _json_or_text(cell: str) -> Any:
    try:
        found = from_json(cell, allow_inf_nan=False)
    except ValueError:
        return cell
    refuse_too_large(found, cell)
    return found

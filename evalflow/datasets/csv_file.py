"""CSV: a header, then one record a row, all of it text until a column's meaning is known."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from evalflow.datasets.rows import Row, Table, shown
from evalflow.errors import Problem

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_BOOLEAN = {"true": True, "false": False}
# Longer than any cell; the module's own limit of 128 KiB is less than a document.
_CELL_LIMIT = 2**31 - 1


def open_csv(path: Path) -> Table:
    """The file as a table of text cells; an empty cell is an absent value."""
    return Table(_rows(path), cells=True)


def _rows(path: Path) -> Iterator[Row | Problem]:
    name = shown(path)
    csv.field_size_limit(_CELL_LIMIT)
    index = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            twice = [column for column, n in Counter(reader.fieldnames or ()).items() if n > 1]
            if twice:
                yield Problem(f"the header names {twice[0]!r} more than once", f"{name}:1")
                return
            for cells in reader:
                yield _row(cells, f"{name}[{index}]", reader.line_num)
                index += 1
    except csv.Error as error:
        yield Problem(f"broken CSV: {error}", f"{name}[{index}]", "a quote inside a cell is written twice")
    except UnicodeDecodeError as error:
        yield Problem(f"the file is not UTF-8: {error.reason}", name, "save it as UTF-8")


def _row(cells: dict[str | Any, str | Any], where: str, line: int) -> Row | Problem:
    if None in cells:
        hint = "put quotes round a cell that holds a comma"
        return Problem(f"the record that ends in line {line} has more cells than the header", where, hint)
    return Row(where, cells)


def structure(cell: str) -> Any:
    """The list or object that a cell spells out in JSON, else the cell's text."""
    if cell[:1] in "[{" and cell:
        try:
            return from_json(cell, allow_inf_nan=False)
        except ValueError:
            return cell
    return cell


def value(cell: str) -> Any:
    """What a cell spells out in JSON (list, object, number, boolean in any case), else its text."""
    if cell.lower() in _BOOLEAN:
        return _BOOLEAN[cell.lower()]
    return from_json(cell) if _NUMBER.match(cell) else structure(cell)

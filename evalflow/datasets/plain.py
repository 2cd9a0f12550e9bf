"""Rows of a file as they stand in it, for what is no dataset: JSON lines, or CSV as any spreadsheet writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evalflow.datasets.csv_file import open_csv
from evalflow.datasets.jsonl import open_jsonl
from evalflow.datasets.rows import Row, shown
from evalflow.datasets.sources import unreadable
from evalflow.errors import Problem, UserError

_DELIMITERS = (",", ";", "\t")


def plain_rows(path: Path) -> Iterator[Row | Problem]:
    """The rows of a .jsonl or .csv file; a record that cannot be read is a Problem in its place.

    Between the cells of a CSV file may stand semicolons or tabs, as spreadsheets write them where a comma is the
    decimal sign.

    Raises:
        UserError: There is no such file, it cannot be read, or its ending is another.
    """
    if not path.is_file():
        raise UserError(Problem("no such file", shown(path)))
    try:
        match path.suffix.lower():
            case ".jsonl":
                yield from open_jsonl(path).rows
            case ".csv":
                yield from open_csv(path, _delimiter(path)).rows
            case _:
                hint = "save it as CSV, or as JSON lines"
                raise UserError(Problem("expected a .csv or .jsonl file", shown(path), hint))
    except OSError as error:
        raise UserError(unreadable(path, error)) from None


def _delimiter(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    return max(_DELIMITERS, key=header.count)

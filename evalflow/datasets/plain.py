"""Rows of a file as they stand in it, for what is no dataset: JSON lines, or CSV as any spreadsheet writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evalflow.datasets.csv_file import open_csv
from evalflow.datasets.jsonl import open_jsonl
from evalflow.datasets.rows import Row, shown
from evalflow.datasets.sources import unreadable
from evalflow.errors import Problem, UserError


def plain_rows(path: Path) -> Iterator[Row | Problem]:
    """The rows of a .jsonl or .csv file; a record that cannot be read is a Problem in its place.

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
                yield from open_csv(path).rows
            case _:
                hint = "save it as CSV, or as JSON lines"
                raise UserError(Problem("expected a .csv or .jsonl file", shown(path), hint))
    except OSError as error:
        raise UserError(unreadable(path, error)) from None

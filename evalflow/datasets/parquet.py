"""Parquet, read in a limited process in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable
from evalflow.errors import Problem
from evalflow.limited import LimitExceeded, Work
from evalflow.paths import shown
from evalflow.values.cells import Base64
from evalflow.values.jsonvalues import is_object, text_at

UNPACKED = 512 * 1024**2
"""Maximum size of all rows in bytes, unpacked, of a file that is smaller than a `_RATIO`th of it."""
_RATIO = 8
MEMORY = 3 * 1024**3
"""Address space of the process that reads a file, in bytes, besides the file, which is mapped.

The library reserves about 1 GB of it.
"""
SECONDS, SECONDS_PER_MB = 120, 2
"""Its CPU time, whatever the size of the file, and more for a large one."""
_READING = Work("evalflow.limited.parquet:lines", imports=("polars",), output=2**28, files=64, threads=True)


def open_parquet(path: Path) -> Table:
    """Open the file as a table. Dates become ISO 8601 text, decimals floats, bytes base64; NaN is a missing value.

    So is a field of an object that is null: objects of a column all have the same fields, whatever was written.
    """
    return Table(_rows(path))


def _rows(path: Path) -> Iterator[SourceRow | Problem]:
    name = shown(path)
    size = path.stat().st_size
    task = {"path": str(path.absolute()), "longest": MAX_RECORD, "unpacked": max(UNPACKED, _RATIO * size)}
    reading = replace(_READING, memory=MEMORY + size)
    try:
        with closing(reading.stream(task, SECONDS + SECONDS_PER_MB * (size >> 20), "the file")) as lines:
            for index, line in enumerate(lines):
                if not is_object(line):
                    yield _row(f"{name}[{index}]", *line)
                elif "ends" in line:
                    yield Unreadable(text_at(line, "what"), f"{name}[{index}]" if index else name)
                else:
                    yield Problem(text_at(line, "what"), f"{name}[{index}]")
    except LimitExceeded as error:
        what = "broken Parquet" if error.limit == "crash" else str(error)
        yield Unreadable(what, name, "write it again with smaller row groups, or as JSON Lines")


_Special = Sequence[tuple[Sequence[str | int], str | None]]
"""The paths of decimals in a row with their digits, and those of Base64."""


def _row(where: str, data: Mapping[str, object], special: _Special) -> SourceRow:
    for at, digits in special:
        if digits is None:
            _put(data, at)
    return SourceRow(where, data, partial(_exact, data, special))


def _exact(data: Mapping[str, object], special: _Special) -> Mapping[str, object]:
    exact = deepcopy(data)
    for at, digits in special:
        if digits is not None:
            _put(exact, at, Decimal(digits))
    return exact


def _put(data: Any, at: Sequence[str | int], value: object = None) -> None:
    """Put a value at a path; without one, mark the text that is there as Base64."""
    *way, last = at
    for step in way:
        data = data[step]
    data[last] = Base64(data[last]) if value is None else value

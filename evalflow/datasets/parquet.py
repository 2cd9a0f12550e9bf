"""Parquet, a batch of rows at a time."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from evalflow.datasets.rows import Broken, Row, Table, shown
from evalflow.errors import Problem

# Rows that are decoded together, in columns, and of these the rows that are Python values at a time.
BATCH = 8192
ROWS = 512


def open_parquet(path: Path) -> Table:
    """The file as a table. Dates become ISO 8601 text, decimals floats, bytes base64; NaN is refused."""
    return Table(_rows(path))


def _rows(path: Path) -> Iterator[Row | Problem]:
    import polars as pl

    name = shown(path)
    index = 0
    try:
        scan = pl.scan_parquet(path, glob=False)
        while not (batch := scan.slice(index, BATCH).collect()).is_empty():
            for data in batch.iter_rows(named=True, buffer_size=ROWS):
                yield _row(data, f"{name}[{index}]")
                index += 1
    except pl.exceptions.PolarsError as error:
        yield Broken(f"broken Parquet: {str(error).splitlines()[0]}", name)


def _row(data: dict[str, Any], where: str) -> Row | Problem:
    try:
        return Row(where, _json(data))
    except ValueError as error:
        return Problem(str(error), where)


def _json(value: Any) -> Any:
    """The value as JSON knows it."""
    match value:
        case str() | bool() | int() | None:
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no JSON number; write null where there is none")
            return value
        case dict():
            return {key: _json(item) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_json(item) for item in cast("list[Any]", value)]
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise ValueError(f"a column of {type(value).__name__} values cannot be read")

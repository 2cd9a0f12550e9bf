"""Parquet, read in batches of rows."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable, too_long
from evalflow.errors import Problem
from evalflow.paths import shown
from evalflow.values.cells import Base64
from evalflow.values.jsonvalues import is_list, is_object

if TYPE_CHECKING:
    import polars as pl

# Rows decoded at a time as columns, and rows held at a time as Python values.
BATCH = 8192
ROWS = 512
_EXACT = 2.0**53
"""Whole numbers below are themselves as floats."""


def open_parquet(path: Path) -> Table:
    """Open the file as a table. Dates become ISO 8601 text, decimals floats, bytes base64; NaN is a missing value.

    So is a field of an object that is null: objects of a column all have the same fields, whatever was written.
    """
    return Table(_rows(path))


def _rows(path: Path) -> Iterator[SourceRow | Problem]:
    import polars as pl

    name = shown(path)
    index = 0
    try:
        scan = pl.scan_parquet(path, glob=False)
        whole = _whole_numbers(path, scan)
        while not (batch := scan.slice(index, BATCH).collect()).is_empty():
            sizes = batch.select(size=_bytes_of(pl.struct(pl.all()), pl.Struct(batch.schema)))["size"]
            long = (sizes > MAX_RECORD).arg_max()
            if long is not None and sizes[long] > MAX_RECORD:
                yield too_long(f"{name}[{index + long}]")
                return
            together = max(1, min(ROWS, MAX_RECORD // max(1, int(cast("int", sizes.max())))))
            batch = batch.with_columns(pl.col(whole).fill_nan(None).cast(pl.Int64))
            for data in batch.iter_rows(named=True, buffer_size=together):
                yield _row(data, f"{name}[{index}]")
                index += 1
    except pl.exceptions.PolarsError as error:
        yield Unreadable(f"broken Parquet: {str(error).splitlines()[0]}", name)


def _whole_numbers(path: Path, scan: pl.LazyFrame) -> list[str]:
    """The columns of whole numbers that pandas has written as 1.0, since some were missing."""
    import polars as pl

    if "pandas" not in pl.read_parquet_metadata(path):
        return []
    columns = {name: pl.col(name).fill_nan(None) for name, dtype in scan.collect_schema().items() if dtype.is_float()}
    facts = [
        ((floats.null_count() > 0) & (floats.drop_nulls() % 1 == 0).all() & (floats.abs().max() < _EXACT)).alias(name)
        for name, floats in columns.items()
    ]
    return [name for name, holds in scan.select(facts).collect().row(0, named=True).items() if holds] if facts else []


def _bytes_of(value: pl.Expr, dtype: object) -> pl.Expr:
    """Uncompressed text size in bytes per row: a small compressed file may hold far more."""
    import polars as pl

    if isinstance(dtype, pl.Struct):
        parts = [_bytes_of(value.struct.field(field.name), field.dtype) for field in dtype.fields]
        return pl.sum_horizontal(pl.lit(0, pl.UInt64), *parts)
    if isinstance(dtype, pl.Array):
        value, dtype = value.arr.to_list(), pl.List(dtype.inner)
    if isinstance(dtype, pl.List):
        return value.list.eval(_bytes_of(pl.element(), dtype.inner)).list.sum().fill_null(0).cast(pl.UInt64)
    if dtype == pl.String:
        return value.str.len_bytes().fill_null(0).cast(pl.UInt64)
    if dtype == pl.Binary:
        return value.bin.size().fill_null(0).cast(pl.UInt64)
    return pl.lit(0, pl.UInt64)


def _row(data: dict[str, object], where: str) -> SourceRow | Problem:
    try:
        return SourceRow(where, {key: _json(item) for key, item in data.items() if item is not None}, lambda: data)
    except ValueError as error:
        return Problem(str(error), where)


def _json(value: object) -> object:
    if is_object(value):
        return {key: _json(item) for key, item in value.items() if item is not None}
    if is_list(value):
        return [_json(item) for item in value]
    match value:
        case str() | bool() | int() | None:
            return value
        case float():
            if math.isinf(value):
                raise ValueError(f"{value} is not a JSON number; write null for a missing value")
            return None if math.isnan(value) else value
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value)
        case bytes():
            return Base64(base64.b64encode(value).decode())
        case _:
            raise ValueError(f"a column of {type(value).__name__} values cannot be read")

"""Reads Parquet files. A few kilobytes can hold any number of equal values, for which Polars allocates memory."""

from __future__ import annotations

import base64
import datetime as dt
import errno
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import polars as pl

BATCH = 8192
"""Maximum number of rows decoded at a time."""
_FIRST = 64
_TOGETHER = 32 * 1024**2
"""How many bytes of rows are decoded at a time, unless one row has more."""
_OF_VALUE = 8  # bytes that each value counts for, besides those of a text
_EXACT = 2.0**53
"""Whole numbers below are themselves as floats."""


def lines(path: str, longest: int, unpacked: int) -> Iterator[Any]:
    """The rows of a file: their values, and the special ones among these.

    A special value is its path in the row, and its digits if it is a decimal, None if it is Base64 of bytes. A line is
    an object with `what` if a row cannot be read, and with `ends` too if that is true of the rest of the file. Limits:
    the bytes of a row, and of all rows.
    """
    import polars as pl

    try:
        yield from _lines(path, longest, unpacked)
    except pl.exceptions.PolarsError as error:
        yield _end(f"broken Parquet: {str(error).splitlines()[0]}")
    except OSError as error:
        if f"(os error {errno.ENOMEM})" in str(error):  # the library sets no errno
            raise MemoryError from error
        yield _end(f"it cannot be read: {str(error).splitlines()[0]}")


def _lines(path: str, longest: int, unpacked: int) -> Iterator[Any]:
    import polars as pl

    scan = pl.scan_parquet(path, glob=False)
    whole = _whole_numbers(path, scan)
    index, number, total = 0, _FIRST, 0
    while not (batch := scan.slice(index, number).collect()).is_empty():
        sizes = batch.select(size=_bytes_of(pl.struct(pl.all()), pl.Struct(batch.schema)))["size"].to_list()
        batch = batch.with_columns(pl.col(whole).fill_nan(None).cast(pl.Int64))
        batch = as_printed(batch)
        for data, size in zip(batch.iter_rows(named=True, buffer_size=_FIRST), sizes, strict=True):
            total += size
            if size > longest:
                yield _end(f"the record is longer than {longest:,} characters")
                return
            if total > unpacked:
                yield _end(f"the file unpacks to more than {unpacked >> 20:,} MB")
                return
            yield _line(data)
        index += batch.height
        number = max(1, min(BATCH, _TOGETHER * batch.height // max(1, sum(sizes))))


def as_printed(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the columns of `column_as_printed`."""
    return frame.with_columns(map(column_as_printed, frame))  # not by name: to Polars, * and ^a.*$ are patterns


def column_as_printed(column: pl.Series) -> pl.Series:
    """The column with numbers of single precision, also in lists and structs, as they are printed.

    Nobody wrote the further digits that they have in double precision: 0.1 is 0.10000000149.
    """
    import polars as pl

    kind, texts = column.dtype, _with_singles(column.dtype, pl.String())
    return column if texts == kind else column.cast(texts).cast(_with_singles(kind, pl.Float64()))


def _with_singles(dtype: Any, other: pl.DataType) -> pl.DataType:
    """The type with another one in place of single precision."""
    import polars as pl

    if isinstance(dtype, pl.List):
        return pl.List(_with_singles(dtype.inner, other))
    if isinstance(dtype, pl.Array):
        return pl.Array(_with_singles(dtype.inner, other), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _with_singles(field.dtype, other) for field in dtype.fields})
    return other if dtype == pl.Float32 else dtype


def _end(what: str) -> dict[str, Any]:
    return {"what": what, "ends": True}


def _whole_numbers(path: str, scan: pl.LazyFrame) -> list[str]:
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
    """Bytes per row: those of texts, and some for each other value."""
    import polars as pl

    each = value.is_null().cast(pl.UInt64) * 0 + _OF_VALUE  # a literal would be of one row, not of each
    if isinstance(dtype, pl.Struct):
        parts = [_bytes_of(value.struct.field(field.name), field.dtype) for field in dtype.fields]
        return pl.sum_horizontal(each, *parts)
    if isinstance(dtype, pl.Array):
        value, dtype = value.arr.to_list(), pl.List(dtype.inner)
    if isinstance(dtype, pl.List):
        inner = value.list.eval(_bytes_of(pl.element(), dtype.inner))
        return inner.list.sum().fill_null(0).cast(pl.UInt64) + each
    if dtype == pl.String:
        return value.str.len_bytes().fill_null(0).cast(pl.UInt64) + each
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return value.cat.len_bytes().fill_null(0).cast(pl.UInt64) + each
    if dtype == pl.Binary:
        return value.bin.size().fill_null(0).cast(pl.UInt64) + each
    return each


def _line(data: dict[str, object]) -> Any:
    special: list[tuple[list[str | int], str | None]] = []
    try:
        row = {key: _json(item, [key], special) for key, item in data.items() if item is not None}
    except ValueError as error:
        return {"what": str(error)}
    return row, special


def _json(value: Any, at: list[str | int], special: list[tuple[list[str | int], str | None]]) -> object:
    match value:
        case str() | bool() | int() | None:
            return value
        case dict():
            fields = cast("dict[str, object]", value)
            return {key: _json(item, [*at, key], special) for key, item in fields.items() if item is not None}
        case list():
            items = cast("list[object]", value)
            if all(type(item) is int for item in items):
                return items  # quickly, since there may be many
            return [_json(item, [*at, number], special) for number, item in enumerate(items)]
        case float():
            if math.isinf(value):
                raise ValueError(f"{value} is not a JSON number; write null for a missing value")
            return None if math.isnan(value) else value
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case Decimal():
            special.append((at, str(value)))
            return float(value)
        case bytes():
            special.append((at, None))
            return base64.b64encode(value).decode()
        case _:
            raise ValueError(f"a column of {type(value).__name__} values cannot be read")

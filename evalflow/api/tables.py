"""Cases and labels given in Python, as rows of JSON values: frames, dictionaries, and objects with fields."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from typing_extensions import TypedDict

from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.limited.parquet import as_printed, column_as_printed
from evalflow.values.jsonvalues import is_list, is_mapping, is_object
from evalflow.values.pythonvalues import SINGLE, NotPlain, json_text, plain
from evalflow.values.pythonvalues import as_printed as as_printed_number

Row = Mapping[str, Any]


class CaseRow(TypedDict, total=False, extra_items=object):
    """A case as a dictionary, for type checkers; other keys are columns of your own (`vars`).

    Example:
        >>> row: CaseRow = {"question": "How long may I keep a book?", "answer": "28 days.", "reference": "28 days."}
        >>> sorted(row)
        ['answer', 'question', 'reference']
    """

    id: str
    question: str
    messages: Sequence[Mapping[str, object]]
    answer: str | None
    reference: str | Sequence[str] | None
    contexts: Sequence[str | Mapping[str, object]] | None
    expected: object
    actual: object
    metadata: Mapping[str, object] | None
    tags: Sequence[str]
    group: str | None
    labels: Mapping[str, object] | None
    checks: Sequence[Mapping[str, object]]


_MOST = 20
"""Problems listed."""
_ARROW_SINGLE = re.compile(r"\bfloat\b")
"""Matches types of Arrow that have numbers of single precision; those of double precision are `double`."""
_HINT = "give a frame, or [{'question': ..., 'answer': ...}, ...]"


def case_rows(table: Any) -> list[Row]:
    """The rows of cases, plain; UserError lists the values that cannot be data."""
    return _plain_rows(table, "cases")


def label_rows(table: Any) -> list[Row]:
    """The rows of labels, plain and without decimals; UserError as for cases."""
    return [json.loads(json_text(row)) for row in _plain_rows(table, "labels")]


def _plain_rows(table: Any, what: str) -> list[Row]:
    records: list[Row] = []
    problems: list[Problem] = []
    rows, is_frame = _rows(table, what)
    for number, given in enumerate(_whole_again(rows)):
        try:
            row = _without_nulls(plain(given)) if is_frame else plain(given)
        except NotPlain as error:
            if error.place or isinstance(given, Mapping):
                case_id = cast("Row", given).get("id") if isinstance(given, Mapping) else None
                name = f" (id {case_id!r})" if isinstance(case_id, str | int) else ""
                hint = "convert it to text, a number, a list or a dictionary, or leave it out"
                problems.append(Problem(str(error), f"{what}[{number}]{name}", hint))
                continue
            row = None
        if is_object(row):
            records.append(cast("Row", row))
        else:
            got = f"expected a frame or dictionaries, got {type(given).__name__}"
            problems.append(Problem(got, f"{what}[{number}]", _HINT))
    if problems:
        more = len(problems) - _MOST
        problems[_MOST:] = [Problem(f"and {more:,} more values like these", what)] if more > 0 else []
        raise UserError(problems)
    return records


def _without_nulls(value: Any) -> Any:
    """Remove null fields of objects, which frames add when objects have different fields."""
    if is_object(value):
        fields = value.items()
        return {name: _without_nulls(one) for name, one in fields if one is not None}
    return [_without_nulls(one) for one in value] if is_list(value) else value


def _rows(table: Any, what: str) -> tuple[Iterable[Any], bool]:
    """The rows, and whether they are those of a frame."""
    package = type(table).__module__.partition(".")[0]
    if package == "polars":
        return _of_polars(table.collect() if hasattr(table, "collect") else table), True
    if all(hasattr(table, name) for name in ("to_dict", "columns", "index")):  # pandas and its likes
        return _of_pandas(table, what), True
    if package == "pyarrow" and hasattr(table, "to_pylist"):
        return _of_arrow(table, what), True
    if isinstance(table, Iterable) and not isinstance(table, str | bytes | Mapping):
        return cast("Iterable[Any]", table), False
    got = "a dictionary" if isinstance(table, Mapping) else type(table).__name__
    raise UserError(Problem(f"expected a frame or a list of dictionaries, got {got}", what, _HINT))


def _of_polars(table: Any) -> list[Any]:
    """The rows of a Polars frame or the values of a series, with numbers of single precision as they are printed."""
    if isinstance(table, pl.Series):
        return column_as_printed(table).to_list()
    return as_printed(table).to_dicts()


def _of_arrow(table: Any, what: str) -> list[Any]:
    """The rows of an Arrow table or array, with numbers of single precision as they are printed."""
    if not hasattr(table, "schema"):
        return _of_polars(_from_arrow(table)) if _ARROW_SINGLE.search(str(table.type)) else table.to_pylist()
    _expect_distinct(table.schema.names, what)
    rows: list[Any] = table.to_pylist()
    kinds = zip(table.schema.names, table.schema.types, strict=True)
    single = [name for name, kind in kinds if _ARROW_SINGLE.search(str(kind))]
    if not single:
        return rows
    return [row | own for row, own in zip(rows, _of_polars(_from_arrow(table.select(single))), strict=True)]


def _from_arrow(values: Any) -> Any:
    return cast("Any", pl).from_arrow(values)


def _expect_distinct(columns: Iterable[Any], what: str) -> None:
    times = Counter(columns)
    twice = next((name for name, n in times.items() if n > 1), None)
    if twice is not None:
        raise UserError(Problem(f"the frame has the column {twice!r} more than once", what, "rename one of them"))


def _of_pandas(frame: Any, what: str) -> list[dict[Any, Any]]:
    """The rows of a pandas frame, with its index if that has a name, and single precision as it is printed."""
    _expect_distinct(frame.columns, what)
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    for name, dtype in dict(getattr(frame, "dtypes", {})).items():
        kind = str(dtype)
        if kind.endswith("[pyarrow]") and _ARROW_SINGLE.search(kind):
            values = _of_polars(_from_arrow(frame[name].array.__arrow_array__()))
        elif SINGLE.search(kind):
            values = as_printed_number(frame[name].tolist(), kind)
        else:
            continue
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def _whole_again(rows: Iterable[Any]) -> Iterator[Any]:
    """Restore integers that pandas turned into floats because of NaN in their column."""
    kept = list(rows)
    tables = [row for row in kept if is_mapping(row)]
    gaps = dict.fromkeys(name for row in tables for name, value in row.items() if _is_nan(value))
    whole = {name for name in gaps if all(_is_nan(row[name]) or _is_whole(row[name]) for row in tables if name in row)}
    for row in kept:
        if whole and is_mapping(row):
            yield {name: _as_whole(cell) if name in whole else cell for name, cell in row.items()}
        else:
            yield row


def _as_whole(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()

"""Cases out of a dataset's files, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from evalflow.config.schema import DatasetConfig
from evalflow.datasets.build import Builder
from evalflow.datasets.conversation import conversation
from evalflow.datasets.csv_file import open_csv, raw_records
from evalflow.datasets.fields import field_map
from evalflow.datasets.json_file import open_json, raw_items
from evalflow.datasets.jsonl import open_jsonl, raw_objects
from evalflow.datasets.parquet import open_parquet
from evalflow.datasets.rows import Broken, Row, Table, shown
from evalflow.datasets.sources import Format, files, format_of, unreadable
from evalflow.errors import Problem, UserError
from evalflow.records import Case

MAX_PROBLEMS = 20

_READERS: Mapping[Format, Callable[[Path], Table]] = {
    "jsonl": open_jsonl,
    "json": open_json,
    "csv": open_csv,
    "parquet": open_parquet,
}


@dataclass(frozen=True, slots=True)
class Sifted:
    """A row of a file with the case that it makes, or with what is wrong with it.

    Attributes:
        position: Its number in the file, from 0.
        where: `file:line` or `file[record]`.
        case: None where something is wrong.
        problems: All of it.
    """

    position: int
    where: str
    case: Case | None
    problems: Sequence[Problem] = ()


def read(name: str, config: DatasetConfig) -> Iterator[Case]:
    """The cases of a dataset, in the order of its (sorted) files, never more in memory than a few.

    A column with a case field's own name maps itself (dataset and index apart), `demo_output` is taken for
    demo_answer, and all columns that are no case field go to `vars`, which a column `vars` may hold already. Nulls
    are absent values. A case without an id gets a hash of its row. With `conversation: true` each file is one case:
    its messages are those of all rows, answer and reference are the last row's, and `vars["outputs"]` is the
    list of all rows' references (null where a row has none), so that later turns can be compared too.

    Args:
        name: The dataset's name.
        config: Where it is and how to read it.

    Returns:
        The cases. After the first row that is wrong, no more are given: the rest is read for further problems.

    Raises:
        UserError: At once, for a file that is missing or a mapping that is wrong; while reading, for rows that are
            wrong (up to 20 problems together) and for a dataset without a case.
    """
    paths = files(config)
    for path in paths:
        format_of(path, config)
    field_map(name, config)
    return _cases(name, config, paths)


def sift(name: str, config: DatasetConfig) -> Iterator[Sifted]:
    """Every row of a dataset that is one file, the good ones and the others; each row is a case.

    Raises:
        UserError: At once, for a file that is missing or a mapping that is wrong; while reading, for a fault behind
            which nothing can be read.
    """
    (path,) = files(config)
    format_of(path, config)
    field_map(name, config)
    return _sifted(name, config, path)


def excerpt(config: DatasetConfig, positions: Collection[int]) -> Iterator[str]:
    """The text of some rows as it stands in a CSV file (below its header) or a file of JSON lines.

    Rows of a JSON list become JSON lines.

    Args:
        config: One file, which can be read to its end.
        positions: Of the rows, as `sift` gives them.
    """
    (path,) = files(config)
    match format_of(path, config):
        case "csv":
            texts = raw_records(path)
            yield next(texts, "")
        case "jsonl":
            texts = raw_objects(path)
        case "json":
            texts = raw_items(path)
        case "parquet":
            raise UserError(Problem("rows of Parquet are no text", shown(path), "save it as CSV or JSON lines"))
    yield from (text for position, text in enumerate(texts) if position in positions)


def columns(config: DatasetConfig, rows: int = 100) -> list[str]:
    """The columns of the first rows, in the order they are first seen.

    Raises:
        UserError: There is no such file, or one of those rows cannot be read.
    """
    seen: dict[str, None] = {}
    for row in _first_rows(config, rows):
        if isinstance(row, Problem):
            raise UserError(row)
        seen.update(dict.fromkeys(row.data))
    return list(seen)


def examples(config: DatasetConfig, rows: int = 100) -> dict[str, Any]:
    """The columns of the first rows that can be read, in the order they are first seen, each with its first value.

    Raises:
        UserError: There is no such file, or none of those rows can be read.
    """
    seen: dict[str, Any] = {}
    faults: list[Problem] = []
    for row in _first_rows(config, rows):
        if isinstance(row, Problem):
            faults.append(row)
        else:
            seen.update((column, value) for column, value in row.data.items() if seen.get(column) in (None, ""))
    if faults and not seen:
        raise UserError(faults[:MAX_PROBLEMS])
    return seen


def _first_rows(config: DatasetConfig, rows: int) -> Iterator[Row | Problem]:
    return islice((row for path in files(config) for row in _table(path, config).rows), rows)


def places(config: DatasetConfig, indices: Collection[int]) -> dict[int, str]:
    """Where the cases of these positions stand, as `file:line` or `file[record]`; a whole file that is one case, as it.

    Raises:
        UserError: There is no such file.
    """
    if config.conversation:
        return {index: shown(path) for index, path in enumerate(files(config)) if index in indices}
    rows = (row for path in files(config) for row in _table(path, config).rows)
    last = max(indices, default=-1)
    return {index: row.where for index, row in enumerate(islice(rows, last + 1)) if index in indices}


def _sifted(name: str, config: DatasetConfig, path: Path) -> Iterator[Sifted]:
    for position, (where, found) in enumerate(_file_rows(name, config, path, 0)):
        if isinstance(found, Case):
            yield Sifted(position, where, found)
        elif any(isinstance(problem, Broken) for problem in found):
            raise UserError(found)
        else:
            yield Sifted(position, where, None, found)


def _table(path: Path, config: DatasetConfig) -> Table:
    try:
        return _READERS[format_of(path, config)](path)
    except OSError as error:
        return Table(iter([unreadable(path, error)]))


def _cases(name: str, config: DatasetConfig, paths: Sequence[Path]) -> Iterator[Case]:
    index = 0
    problems: list[Problem] = []
    for path in paths:
        for found in _file_cases(name, config, path, index):
            if not isinstance(found, Case):
                problems += found
                if len(problems) >= MAX_PROBLEMS:
                    problems[MAX_PROBLEMS:] = [Problem(f"stopped after {MAX_PROBLEMS} problems; there may be more")]
                    raise UserError(problems)
            elif not problems:
                yield found
                index += 1
    if problems:
        raise UserError(problems)
    if index == 0:
        raise UserError(Problem("the dataset is empty: no case in it", ", ".join(shown(path) for path in paths)))


def _file_cases(name: str, config: DatasetConfig, path: Path, index: int) -> Iterator[Case | Sequence[Problem]]:
    rows = _file_rows(name, config, path, index)
    if not config.conversation:
        yield from (case for _, case in rows)
    elif (whole := conversation(index, rows, allow_irregular=config.allow_irregular)) is not None:
        yield whole


def _file_rows(
    name: str, config: DatasetConfig, path: Path, index: int
) -> Iterator[tuple[str, Case | Sequence[Problem]]]:
    """Where each row stands, and its case or what is wrong with it."""
    table = _table(path, config)
    builder = Builder(name, field_map(name, config, table.aliases), table.cells, config.allow_irregular)
    for i, row in enumerate(_readable(table, path)):
        yield row.where, [row] if isinstance(row, Problem) else builder.case(index + i, row)


def _readable(table: Table, path: Path) -> Iterator[Row | Problem]:
    try:
        yield from table.rows
    except OSError as error:
        yield unreadable(path, error)

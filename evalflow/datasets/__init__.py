"""Read cases from JSON Lines, JSON, CSV, Parquet or Excel files, or a glob of them, row by row; write them as rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from evalflow.config.schema import ENDINGS, DatasetConfig, Format
from evalflow.datasets.conversations import (
    Answers,
    answer_key,
    each_turn,
    irregular,
    order_problems,
    whole_conversation,
    with_question,
)
from evalflow.datasets.csv_file import open_csv, raw_records
from evalflow.datasets.fields import (
    CONVERTERS,
    FIELDS,
    ColumnSource,
    FieldMap,
    field_map,
    is_plain,
    tag_levels,
    tag_name,
)
from evalflow.datasets.json_files import held_rows, open_json, open_jsonl, raw_items, raw_objects
from evalflow.datasets.messages import read_messages
from evalflow.datasets.parquet import open_parquet
from evalflow.datasets.proposal import propose_fields
from evalflow.datasets.rows import MadeIds, ReadingNotes, ReadRow, case_id, case_to_row, filled_rows, rest_of, short_row
from evalflow.datasets.sources import (
    HeldDataset,
    SourceRow,
    Table,
    Unreadable,
    digest,
    files,
    format_of,
    parse_json,
    record,
    text_bytes,
    unreadable,
)
from evalflow.datasets.workbook import open_workbook, sheet_records, sheets
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.records import Case
from evalflow.values.contexts import contexts, html_text
from evalflow.values.jsonvalues import as_list, as_map

__all__ = (
    "FIELDS",
    "HeldDataset",
    "ReadRow",
    "ReadingNotes",
    "case_to_row",
    "columns",
    "digest",
    "examples",
    "excerpt",
    "files",
    "first_rows",
    "irregular",
    "is_plain",
    "places",
    "plain_rows",
    "propose_fields",
    "read",
    "read_messages",
    "read_rows",
    "sheets",
    "short_row",
    "tag_levels",
    "tag_name",
    "text_bytes",
)


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the cases of one file; `cells`: the rows' values are cells, in which an empty text is no value."""

    dataset: str
    fields: FieldMap
    cells: bool
    allow_irregular: bool
    to_text: Callable[[str], str] = html_text
    ids: MadeIds | None = None

    def case(self, index: int, row: SourceRow) -> Case | Sequence[Problem]:
        """The row's case, or all problems of the row."""
        try:
            data = {column: cell for column, cell in row.data.items() if cell} if self.cells else row.data
            raw, others = self.fields.values(data, row.exact)
        except ValueError as error:
            return [Problem(str(error), row.where)]
        unreferenced = "reference" not in raw and "reference" not in row.data
        if unreferenced and self.fields.expected_is_reference and is_plain(raw.get("expected")):
            raw["reference"] = ColumnSource("expected", is_text=True).value(data, row.exact)
        if self._is_unasked(raw, row):
            raw["question"] = ""
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, value in raw.items():
            try:
                values[name] = contexts(value, self.to_text) if name == "contexts" else CONVERTERS[name](value)
            except ValueError as error:
                place, hint = self.fields.place(name, data), self._way_out(name, value)
                problems.append(Problem(f"{place}: {error}", row.where, hint))
        problems = problems or with_question(values, self.dataset, row.where)
        if not problems and not self.allow_irregular:
            place = partial(self.fields.place, "messages" if "messages" in raw else "history", data)
            problems = order_problems(values, self.dataset, place, row.where, answer_key(raw.get("messages")))
        if problems:
            return problems
        values["vars"] = {**values.get("vars", {}), **others}
        if "id" not in values:
            made = case_id(values)
            values["id"] = self.ids.distinct(made, partial(rest_of, values)) if self.ids else made
        return Case(dataset=self.dataset, index=index, **values)

    def _is_unasked(self, raw: Mapping[str, object], row: SourceRow) -> bool:
        """Return whether the question's cell is empty and no other field contains the question."""
        if not self.cells or self.allow_irregular or not raw.keys().isdisjoint(_ASKED):
            return False
        source = self.fields.sources.get("question")
        return source is not None and source.column in row.data

    def _way_out(self, name: str, value: object) -> str:
        """Return a hint for a column mapped only by its name: ignore it, or declare where its texts are."""
        if name == "contexts" and _NAME.fullmatch(column := self.fields.sources[name].column or ""):
            parts = (part for context in as_list(value) for part in as_map(context).items())
            if key := next((key for key, text in parts if isinstance(text, str) and _NAME.fullmatch(key)), None):
                path = f"$.{column}[*].{key}"
                return f"say where the texts are: '++dataset.{self.dataset}.fields.contexts=\"{path}\"'"
        by_name = name == "history" and name in self.fields.sources and self.fields.sources[name].column == name
        return f"leave the column out: ++dataset.{self.dataset}.fields.history=null" if by_name else ""


MAX_PROBLEMS = 20
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASKED = ("question", "messages", "history", "scenario")

_READERS: Mapping[Format, Callable[[Path], Table]] = {
    "jsonl": open_jsonl,
    "json": open_json,
    "csv": open_csv,
    "parquet": open_parquet,
    "xlsx": open_workbook,
}


def read(
    name: str,
    config: DatasetConfig,
    to_text: Callable[[str], str] = html_text,
    answers: Answers = "recorded",
    notes: ReadingNotes | None = None,
) -> Iterator[Case]:
    """Stream the cases of a dataset, in the order of its (sorted) files.

    A column with a case field's name maps to that field (except dataset and index). `demo_output` maps to demo_answer.
    A text or number under `expected` is also the reference, unless there is a reference or `fields` maps one of the
    two. All other columns go to `vars`, which may also be a column itself. Nulls are absent values, and rows without
    any value are left out. A case without an id gets a hash of its row, and a number if an earlier row is equal. With
    `conversation: true` each file is one case of all its rows (see `whole_conversation`), with `turns` each row is a
    case that has the rows before it as its history. `answers` says what the earlier turns of the assistant are: the
    recorded answers, the example answers, or none, which is for a target that gives them. `to_text` converts contexts
    in HTML; `notes` take what was left out or changed.

    UserError at once for a missing file or a wrong mapping; while reading, for a dataset without cases, and for invalid
    rows: after the first no more cases are returned, and the rest is read only for further problems (up to 20
    together).
    """
    paths = files(config)
    for path in paths:
        format_of(path, config)
    field_map(name, config)
    return _cases(name, config, paths, _Reading(to_text, notes or ReadingNotes(), answers))


def read_rows(name: str, config: DatasetConfig, notes: ReadingNotes | None = None) -> Iterator[ReadRow]:
    """Every row of a single-file dataset that is not empty, valid or not; `notes` as in `read`.

    UserError if the rest of the file cannot be read.
    """
    (path,) = files(config)
    format_of(path, config)
    field_map(name, config)

    def rows() -> Iterator[ReadRow]:
        for row in _file_rows(name, config, path, 0, _Reading(html_text, notes or ReadingNotes())):
            if any(isinstance(problem, Unreadable) for problem in row.problems):
                raise UserError(row.problems)
            yield row

    return rows()


def excerpt(config: DatasetConfig, positions: Collection[int]) -> Iterator[str]:
    """The raw text of some rows of a CSV file (after its header) or a JSON Lines file.

    Rows of a JSON list become JSON Lines, those of Excel CSV. The positions are those of `read_rows`. UserError for
    Parquet.
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
        case "xlsx":
            texts = sheet_records(path, config.sheet)
            yield next(texts, "")
        case "parquet":
            raise UserError(Problem("rows of Parquet are not text", shown(path), "save it as CSV or JSON lines"))
    yield from (text for position, text in enumerate(texts) if position in positions)


def columns(config: DatasetConfig, rows: int = 100) -> list[str]:
    """The columns of the first rows, in order of appearance; UserError if a row cannot be read."""
    return list(examples(config, rows, skip_faulty=False))


def examples(config: DatasetConfig, rows: int = 100, *, skip_faulty: bool = True) -> dict[str, object]:
    """The columns of the first rows, each with its first value; UserError if no row, or not every one, is readable."""
    seen: dict[str, object] = {}
    faults: list[Problem] = []
    for row in _first_rows(config, rows):
        if not isinstance(row, Problem):
            seen.update((column, value) for column, value in row.data.items() if seen.get(column) in (None, ""))
        elif skip_faulty:
            faults.append(row)
        else:
            raise UserError(row)
    if faults and not seen:
        raise UserError(faults[:MAX_PROBLEMS])
    return seen


def first_rows(config: DatasetConfig, rows: int = 100) -> list[Mapping[str, object]]:
    """The first rows that are readable, by their columns."""
    return [row.data for row in _first_rows(config, rows) if not isinstance(row, Problem)]


LOOKED_AT = 10_000
"""Rows of a file among which the first that are not empty are looked for."""


def _first_rows(config: DatasetConfig, rows: int) -> Iterator[SourceRow | Problem]:
    tables = (_table(path, config) for path in files(config))
    begun = (replace(table, rows=islice(table.rows, max(rows, LOOKED_AT))) for table in tables)
    return islice((row for table in begun for _, row in filled_rows(table)), rows)


def plain_rows(path: Path) -> Iterator[SourceRow | Problem]:
    """The rows of a .jsonl, .csv or .xlsx file, unreadable ones as Problems; UserError for any other file or none."""
    if not path.is_file():
        raise UserError(Problem("no such file", shown(path)))
    reader = _READERS.get(ENDINGS.get(path.suffix.lower(), "json"), open_json)
    if reader not in (open_jsonl, open_csv, open_workbook):
        hint = "save it as CSV, or as JSON lines"
        raise UserError(Problem("expected a .csv, .jsonl or .xlsx file", shown(path), hint))
    try:
        yield from (row for _, row in filled_rows(reader(path)))
    except OSError as error:
        raise UserError(unreadable(path, error)) from None


def places(config: DatasetConfig, indices: Collection[int]) -> dict[int, str]:
    """The places of these cases: `file:line` or `file[record]`; for a file that is one case, the file."""
    if config.conversation is True:
        return {index: shown(path) for index, path in enumerate(files(config)) if index in indices}
    rows = (row for path in files(config) for _, row in filled_rows(_table(path, config)))
    last = max(indices, default=-1)
    return {index: row.where for index, row in enumerate(islice(rows, last + 1)) if index in indices}


def _table(path: Path, config: DatasetConfig) -> Table:
    if isinstance(config, HeldDataset):
        return Table(held_rows(config.rows))
    try:
        format = format_of(path, config)
        table = open_workbook(path, config.sheet) if format == "xlsx" else _READERS[format](path)
    except OSError as error:
        return Table(iter([unreadable(path, error)]))

    def rows() -> Iterator[SourceRow | Problem]:
        try:
            yield from table.rows
        except OSError as error:
            yield unreadable(path, error)

    return replace(table, rows=rows())


class _Reading:
    """The state shared by a dataset's files while they are read."""

    def __init__(self, to_text: Callable[[str], str], notes: ReadingNotes, answers: Answers = "recorded") -> None:
        # Cases of one corpus share passages, and HTML is by far the slowest value to convert.
        self.to_text = lru_cache(maxsize=256)(to_text)
        self.notes = notes
        self.answers: Answers = answers
        self.ids = MadeIds(notes)


def _cases(name: str, config: DatasetConfig, paths: Sequence[Path], reading: _Reading) -> Iterator[Case]:
    index = 0
    problems: list[Problem] = []
    for path in paths:
        for case in _file_cases(name, config, path, index, reading):
            if not isinstance(case, Case):
                problems += case
                if len(problems) >= MAX_PROBLEMS:
                    problems[MAX_PROBLEMS:] = [Problem(f"stopped after {MAX_PROBLEMS} problems; there may be more")]
                    raise UserError(problems)
            elif not problems:
                yield case
                index += 1
    if problems:
        raise UserError(problems)
    if index == 0:
        where = ", ".join(shown(path) for path in paths)
        raise UserError(Problem("the dataset is empty: no case in it", where, "; ".join(reading.notes.lines(name))))


def _with_own_id(case: Case, ids: MadeIds) -> Case:
    return replace(case, id=ids.distinct(case.id, lambda: rest_of({"contexts": case.contexts, "vars": case.vars})))


def _file_cases(
    name: str, config: DatasetConfig, path: Path, index: int, reading: _Reading
) -> Iterator[Case | Sequence[Problem]]:
    if isinstance(config, HeldDataset) and config.cases is not None:
        yield from (case if case.dataset == name else replace(case, dataset=name) for case in config.cases)
        return
    rows = _file_rows(name, config, path, index, reading)
    answers, lenient = reading.answers, config.allow_irregular
    if config.conversation == "turns":
        yield from each_turn(path.stem, rows, answers, allow_irregular=lenient)
    elif not config.conversation:
        yield from (row.problems if row.case is None else row.case for row in rows)
    elif (whole := whole_conversation(index, rows, answers, allow_irregular=lenient)) is not None:
        yield _with_own_id(whole, reading.ids) if isinstance(whole, Case) else whole


def _file_rows(name: str, config: DatasetConfig, path: Path, index: int, reading: _Reading) -> Iterator[ReadRow]:
    table = _table(path, config)
    fields = field_map(name, config, table.aliases)
    ids = None if config.conversation is True else reading.ids
    builder = Builder(name, fields, table.cells, config.allow_irregular, reading.to_text, ids)
    for number, (position, row) in enumerate(filled_rows(table, reading.notes)):
        case = [row] if isinstance(row, Problem) else builder.case(index + number, row)
        yield ReadRow(position, row.where, case) if isinstance(case, Case) else ReadRow(position, row.where, None, case)


def saved_cases(path: Path, lines: Iterable[tuple[int, str, bytes]]) -> Iterator[Case]:
    """The cases of some lines of a run's cases.jsonl: the number of the line from 0, its dataset and its text."""
    name = shown(path)
    config = DatasetConfig(path=str(path), format="jsonl", allow_irregular=True)
    builders: dict[str, Builder] = {}
    for index, dataset, line in lines:
        if (builder := builders.get(dataset)) is None:
            fields = field_map(dataset, config)
            builder = builders[dataset] = Builder(dataset, fields, cells=False, allow_irregular=True)
        value = parse_json(line.rstrip(), name, index + 1)
        row = value if isinstance(value, Problem) else record(value, f"{name}:{index + 1}")
        case = [row] if isinstance(row, Problem) else builder.case(index, row)
        if not isinstance(case, Case):
            raise UserError(case)
        yield case

"""The mapping of a file's columns to case fields, shown by the cases that it gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow import datasets
from evalflow.config.schema import DatasetConfig
from evalflow.config.yaml_text import yaml_value
from evalflow.datasets.fields import field_map
from evalflow.datasets.nested import with_paths
from evalflow.datasets.profile import Profile, fields_by_column, in_words, shown_value, type_line
from evalflow.datasets.proposal import other_contexts
from evalflow.errors import Problem
from evalflow.records import Case
from evalflow.report.results_csv import ABOUT_ANSWER
from evalflow.report.wording import counted, literal, print_indented, print_lines, table_of

MOST_ROWS = 20_000  # rows read for a profile
_ASKED = ("question", "messages", "history", "scenario")
_LISTED = 3  # problems shown


@dataclass(slots=True)
class FileProfile:
    """The profile of the first `MOST_ROWS` rows of a file: of those that are cases, with the problems of the others."""

    fields: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    cases: Profile = field(default_factory=Profile)
    rows: int = 0
    faulty: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    notes: datasets.ReadingNotes = field(default_factory=datasets.ReadingNotes)
    repeated: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # places of a case, and of its first


def profile_of(name: str, config: DatasetConfig) -> FileProfile:
    """Read a dataset's rows as cases, and count what they hold."""
    found = FileProfile()
    mapped = {name: at for name, at in (config.fields or {}).items() if isinstance(at, str)}
    seen: dict[int, str] = {}
    for row in islice(_rows(name, config, found.notes), MOST_ROWS):
        found.rows += 1
        if row.case is not None:
            found.cases.add(row.case)
            if (first := seen.setdefault(_content(row.case), row.where)) != row.where:
                found.repeated.append((row.where, first))
        else:
            found.faulty += 1
            found.problems += row.problems if len(found.problems) < _LISTED else ()
    columns = list(with_paths(datasets.examples(config), mapped))
    found.fields = fields_by_column(field_map(name, config), columns, found.cases)
    return found


def _rows(name: str, config: DatasetConfig, notes: datasets.ReadingNotes) -> Iterator[datasets.ReadRow]:
    for path in datasets.files(config):
        yield from datasets.read_rows(name, config.model_copy(update={"path": str(path)}), notes)


def _content(case: Case) -> int:
    """Return a hash of everything except the case's id and place."""
    row = datasets.case_to_row(case)
    return hash(json.dumps({key: value for key, value in row.items() if key != "id"}, sort_keys=True))


def print_mapping(
    console: Console, found: FileProfile, columns: Mapping[str, Any], proposed: Mapping[str, str], file: Path
) -> None:
    """Print the case fields of each column with its first values as they are read, and what to look at."""
    rows = [
        (column, ", ".join(found.fields[column]) or "–", _first_values(found, column, value))
        for column, value in columns.items()
    ]
    console.print(table_of({"column": "name", "case field": "word", "first values": "text"}, rows))
    print_lines(console, (f"note   {line}" for line in _remarks(found, columns, proposed)), style="dim")
    for problem in found.problems[:_LISTED]:
        console.print(literal(f"note   {problem}", style="yellow"), soft_wrap=True)
    if typed := found.cases.read_as_text():
        what = f"read as texts, which all look alike: {in_words(typed)}. To read them so, under `fields` in {file}:"
        console.print(literal(f"note   {what}", style="dim"), soft_wrap=True)
        column = next((one for one, names in found.fields.items() if "reference" in names), None)
        lines = [type_line(name, wanted, column if name == "reference" else name) for name, wanted in typed.items()]
        print_indented(console, "\n".join(lines), by=9)
    _print_unmapped(console, found, columns, file)


def _first_values(found: FileProfile, column: str, raw: Any) -> str:
    named = found.fields[column]
    seen = found.cases.variables.get(column)
    if named:
        seen = found.cases.fields.get(named[0])
        seen = found.cases.fields.get("messages") if named[0] == "history" else seen
    return " · ".join(seen.shown) if seen else shown_value(raw)


def _remarks(found: FileProfile, columns: Mapping[str, Any], proposed: Mapping[str, str]) -> Iterator[str]:
    most = f", the first {MOST_ROWS:,}" if found.rows == MOST_ROWS else ""
    yield f"{counted(found.rows, 'row')} read{most}, {counted(found.cases.cases)} made of them"
    left_out = other_contexts(list(columns), proposed)
    if found.notes.empty:
        yield f"empty rows left out: {found.notes.empty:,}"
    if found.repeated:
        shown = ", ".join(f"{place} (as {first})" for place, first in found.repeated[:_LISTED])
        more = f" and {len(found.repeated) - _LISTED:,} more" if len(found.repeated) > _LISTED else ""
        yield f"rows that repeat an earlier one: {shown}{more}"
    if "contexts" in proposed and left_out:
        yield f"contexts are those of {proposed['contexts']}; left out as vars: {', '.join(left_out)}"
    if lacks := found.cases.half_filled():
        yield lacks
    if found.faulty:
        first = "; the first problems:" if found.faulty > _LISTED else ":"
        yield f"a run refuses the file until {counted(found.faulty, 'row')} can be read{first}"


def _print_unmapped(console: Console, found: FileProfile, columns: Mapping[str, Any], file: Path) -> None:
    others = [column for column in columns if not found.fields[column]]
    mapped = {name for names in found.fields.values() for name in names}
    if not others:
        return
    is_asked = not mapped.isdisjoint(_ASKED)
    lacks = "" if is_asked else "; none was recognised as the question"
    what = f"columns without a case field are not used unless a metric names them{lacks}"
    texts = _texts(found, others)
    asked = {"question"} if is_asked else set[str]()
    missing = next((name for name in ("question", "answer", "reference") if name not in mapped | asked), "")
    if missing == "reference":  # which a name or a date is not
        texts = [column for column in texts if " " in str(columns[column])]
    example = f"{missing}: {yaml_value(texts[0])}" if texts and missing else ""
    if example:
        what += f". To map one, under `fields` in {file}:"
    console.print(literal(f"note   {what}", "dim" if is_asked else "yellow"), soft_wrap=True)
    if example:
        print_indented(console, example, by=9)


def _texts(found: FileProfile, columns: Sequence[str]) -> list[str]:
    typed = found.cases.read_as_text()
    kept = [one for one in columns if one in found.cases.variables and found.cases.variables[one].is_text]
    return [one for one in kept if one not in typed and one not in ABOUT_ANSWER]

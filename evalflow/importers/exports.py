"""Exports of platforms in JSON, JSON lines and CSV: rows with input, output, expected output, scores and metadata.

A platform is a table of names. A field may also be spread over columns, such as `inputs.question` or `input_question`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from evalflow.datasets import irregular
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.importers.files import ImportedConfig, ImportSource, output_text, question_of
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.importers.recorded import PARTS, recorded_cases
from evalflow.importers.sources import READABLE, begins_with, read_objects, read_rows
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown
from evalflow.records.answers import Message

Row = Mapping[str, Any]
Scores = Iterator[tuple[str, Any]]
_TEXTS = ("answer", "output", "response", "content", "text", "result", "generation", "completion", "expected")
_CONTEXTS = ("contexts", "retrieved_contexts", "retrieval_context", "context", "documents")
_SPREAD = frozenset({"input", "inputs", "output", "outputs", "metadata"})
"""Fields that may also be spread over columns such as `input_question`."""
_ROLES = {"human": "user", "ai": "assistant"}
_IDS = ("id", "run_id", "traceId", "trace_id")
_LISTED = 12  # columns named in a note


@dataclass(frozen=True, slots=True)
class Platform:
    """The names that a tool's exports use. Of several names, the first that a row has counts.

    Attributes:
        tool: The tool's name, for people.
        column: The column of data/ that holds its scores.
        asked, said, expected: Where the input, the recorded answer and the reference are.
        runs: A row with one of these columns is a run, and what was said is its answer; in other rows it is the
            reference. Empty: it is always the answer.
        scores: The scores of a row.
        scored: The id of the row that a row of scores is about; empty if it is no such row. Such rows may be in files
            of their own, beside the others in one folder.
        scores_in: The column of a row that has the list of its scores.
        part_of: Why a row is no case, but a part of one; empty if it is a case.
        lists: Keys of an object below which the rows are.
        number, group, failure: Where the row's own id, the id of related rows, and an error are.
        seconds, dollars: Time and cost of the answer.
        others: Further columns that are read.
        encoded: Inputs and outputs are JSON texts in every format, not in CSV alone.
        hint: How the tool writes such a file.
    """

    tool: str
    column: str
    asked: Sequence[str]
    said: Sequence[str]
    expected: Sequence[str]
    scores: Callable[[Row], Scores]
    hint: str
    runs: Sequence[str] = ()
    scored: Callable[[Row], str] = lambda row: ""  # noqa: ARG005
    scores_in: str = ""
    part_of: Callable[[Row], str] = lambda row: ""  # noqa: ARG005
    lists: Sequence[str] = ()
    number: Sequence[str] = ("id",)
    group: Sequence[str] = ()
    failure: Sequence[str] = ("error",)
    seconds: Callable[[Row], Any] = lambda row: None  # noqa: ARG005
    dollars: Callable[[Row], Any] = lambda row: None  # noqa: ARG005
    others: Sequence[str] = ()
    encoded: bool = False


def read_export(platform: Platform, source: ImportSource) -> ImportedConfig:
    """Import one file; UserError if it is no export of the platform."""
    path = source.path
    if path.is_dir() and platform.scores_in:
        return _of_folder(platform, source, path)
    source.expect_file(platform.hint)
    return _imported(platform, source, path, _rows(platform, path))


def _of_folder(platform: Platform, source: ImportSource, folder: Path) -> ImportedConfig:
    """One file of rows, with their scores in other files."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in READABLE]
    beside = [path for path in files if platform.scored(next(_rows(platform, path)).data)]
    others = [path for path in files if path not in beside]
    if len(others) != 1:
        what = (
            f"the folder has {len(others)} files of rows and {len(beside)} of scores, where there should be one of rows"
        )
        raise UserError(Problem(what, shown(folder), platform.hint))
    with source.database() as database:
        store = _ScoreStore(database)
        for path in beside:
            store.add((platform.scored(row.data), row) for row in _rows(platform, path))
        imported = _imported(platform, source, others[0], store.joined(platform.scores_in, _rows(platform, others[0])))
        for where in store.left():
            imported.ledger.leave("scores", "score", where, f"what it is about is not in {shown(others[0])}")
    return imported


class _ScoreStore:
    """Scores of other files in a temporary database, by the id of what they are about."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE score (about TEXT, place TEXT, content TEXT)")
        database.execute("CREATE INDEX about ON score (about)")

    def add(self, scores: Iterable[tuple[str, SourceRow]]) -> None:
        rows = ((about, score.where, json.dumps(score.data)) for about, score in scores)
        self._database.executemany("INSERT INTO score VALUES (?, ?, ?)", rows)

    def joined(self, column: str, rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
        """Each row with its scores in a column; those are taken out of the store."""
        for row in rows:
            about = str(next((row.data[name] for name in _IDS if row.data.get(name)), ""))
            taken = self._database.execute("DELETE FROM score WHERE about = ? RETURNING content", (about,)).fetchall()
            found = [json.loads(content) for (content,) in taken]
            own = as_list(row.data.get(column))
            yield SourceRow(row.where, {**row.data, column: [*own, *found]}) if found else row

    def left(self) -> Iterator[str]:
        """The places of scores whose row did not come."""
        for (where,) in self._database.execute("SELECT place FROM score ORDER BY rowid"):
            yield where


def _imported(platform: Platform, source: ImportSource, path: Path, rows: Iterator[SourceRow]) -> ImportedConfig:
    imported = ImportedConfig(ledger=Ledger(PARTS))
    encoded = platform.encoded or path.suffix.lower() == ".csv"
    columns: dict[str, None] = {}
    with recorded_cases(source, imported, platform.tool, platform.column, path) as cases:
        for row in rows:
            columns |= dict.fromkeys(list(row.data)[:200]) if len(columns) < 1000 else {}
            read = partial(_case, platform, row.data, encoded)
            cases.take(row.where, read, platform.scores(row.data), platform.hint)
    unused = _unused(platform, [name for name in columns if name not in cases.scores.names])
    if unused:
        more = f" and {len(unused) - _LISTED} more" if len(unused) > _LISTED else ""
        imported.notes.append(f"columns that are not copied: {', '.join(unused[:_LISTED])}{more}")
    return imported


def field_of(row: Row, names: Sequence[str]) -> Any:
    """The value under the first of the names that has one; else an object of the columns that begin with one."""
    for name in names:
        if row.get(name) not in (None, ""):
            return row[name]
    for name in names if not any(name in row for name in names) else ():
        starts = (f"{name}.", f"{name}_") if name in _SPREAD else (f"{name}.",)
        spread = {
            column[len(name) + 1 :]: parsed(cell)
            for column, cell in row.items()
            if column.startswith(starts) and cell not in (None, "")
        }
        if spread:
            return spread
    return None


def number_of(value: Any) -> float | None:
    """A number of seconds or dollars, also where a cell holds it as text."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if isfinite(found) and found >= 0 and not isinstance(value, bool) else None


def _rows(platform: Platform, path: Path) -> Iterator[SourceRow]:
    if path.suffix.lower() == ".json" and begins_with(path, b"{"):
        for place in platform.lists:
            rows = read_objects(path, place)
            if (first := next(rows, None)) is not None:
                yield from chain([first], rows)
                return
    yield from read_rows(path)


def _case(platform: Platform, row: Row, encoded: bool) -> dict[str, Any]:
    if reason := platform.part_of(row):
        raise Untranslatable(reason)
    read = parsed if encoded else _same
    given, said, expected = (read(field_of(row, names)) for names in (platform.asked, platform.said, platform.expected))
    if given is None:
        raise Untranslatable(f"it has none of {', '.join(platform.asked)}")
    found = input_of(given)
    if not found.get("messages") and (not given or not found["question"].strip()):
        raise Untranslatable("its input is empty")
    is_run = not platform.runs or any(field_of(row, [name]) is not None for name in platform.runs)
    if expected is None and not is_run:
        expected, said = said, None
    failure = field_of(row, platform.failure)
    if said is not None:
        found["answer"] = text_of(said)
    elif failure is not None:
        found["failure"] = text_of(failure)
    found |= {"reference": text_of(expected)} if expected is not None else {}
    contexts = _contexts(said) or _contexts(given) or _contexts(expected)
    found |= {"contexts": contexts} if contexts else {}
    noted = parsed(field_of(row, ("metadata",)))
    about = dict(as_map(noted)) if isinstance(noted, Mapping) or noted is None else {"metadata": noted}
    number, group = field_of(row, platform.number), field_of(row, platform.group)
    about |= {f"{platform.column}_id": number} if isinstance(number, str | int) else {}
    found |= {"metadata": about} if about else {}
    found |= {"group": str(group)} if isinstance(group, str | int) else {}
    tags = [str(tag) for tag in as_list(parsed(row.get("tags"))) if str(tag).strip(" >")]
    found |= {"tags": tags} if tags else {}
    if "answer" in found:
        measured = {"latency_s": number_of(platform.seconds(row)), "cost_usd": number_of(platform.dollars(row))}
        found |= {name: value for name, value in measured.items() if value is not None}
    return found


def _same(value: Any) -> Any:
    return value


def input_of(given: Any) -> dict[str, Any]:
    """The question or messages, and all that an input of several parts holds as variables."""
    known = as_map(given)
    listed = as_list(known.get("messages", given))
    inner = as_list(listed[0]) if len(listed) == 1 else []
    messages = [message_of(one) for one in inner or listed]
    if messages and all(messages):
        turns = [Message(one["role"], one["content"]) for one in messages if one]
        for number, fault in irregular(turns):
            raise Untranslatable(f"its messages cannot be asked as they are: message {number + 1} {fault}")
        rest = {str(name): value for name, value in known.items() if name != "messages"}
        return {"messages": messages, **({"vars": rest} if rest else {})}
    rest = {str(name): value for name, value in known.items()}
    return {"question": question_of(rest, "") or text_of(given), **({"vars": rest} if rest else {})}


def message_of(value: Any) -> dict[str, str] | None:
    """A chat message with its role and text; None if it is none."""
    known = as_map(value)
    known = as_map(known["kwargs"]) if "kwargs" in known else known
    role, content = known.get("role", known.get("type")), known.get("content")
    parts = [as_map(part).get("text") for part in as_list(content)]
    if parts and all(isinstance(part, str) for part in parts):
        content = "\n".join(str(part) for part in parts)
    if not isinstance(role, str) or not isinstance(content, str):
        return None
    return {"role": _ROLES.get(role, role), "content": content}


def text_of(value: Any) -> str:
    """The text of an output: itself, the one that an object holds, or what the last message says; else JSON."""
    if isinstance(value, str):
        return value
    known = as_map(value)
    choices = as_list(known.get("choices"))
    said = as_map(choices[0]).get("message") if choices else value
    turns = as_list(known.get("messages", value))
    message = message_of(turns[-1] if turns else said)
    if message is not None:
        return message["content"]
    texts = {name: text for name, text in known.items() if isinstance(text, str) and text.strip()}
    named = next((texts[name] for name in _TEXTS if name in texts), None)
    if named is not None:
        return named
    if len(known) == 1:
        [only] = known.values()
        return text_of(only)
    return output_text(value)


def _contexts(value: Any) -> list[str]:
    known = as_map(value)
    listed = next((as_list(known[name]) for name in _CONTEXTS if isinstance(known.get(name), list)), list[Any]())
    texts = [one if isinstance(one, str) else as_map(one).get("page_content") for one in listed]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def parsed(value: Any) -> Any:
    """The value of a text that is JSON: an object, a list, or a text in quotes."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _unused(platform: Platform, columns: Sequence[str]) -> list[str]:
    used = (*platform.asked, *platform.said, *platform.expected, *platform.number, *platform.group, *platform.failure)
    names = {*used, *platform.others, "metadata", "tags"}
    starts = tuple(f"{name}{mark}" for name in names for mark in "._")
    return [column for column in columns if column not in names and not column.startswith(starts)]

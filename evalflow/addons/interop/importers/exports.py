"""Exports of platforms in JSON, JSON lines and CSV: rows with input, output, expected output, scores and metadata.

A platform is a table of names. A field may be spread over columns, such as `inputs.question` or `input_question`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing, joined
from evalflow.addons.interop.importers.conversation import answer_in, are_messages, history_in, message_rows, read_turns
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource, as_json, output_text, question_of
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed
from evalflow.addons.interop.importers.recorded import PARTS, recorded_cases
from evalflow.addons.interop.importers.sources import READABLE, begins_with, read_objects, read_rows
from evalflow.datasets.messages import read_messages
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.contexts import contexts
from evalflow.values.jsonvalues import as_list, as_map, present

Scores = Iterator[tuple[object, object]]
_TEXTS = ("answer", "output", "response", "content", "text", "result", "generation", "completion", "expected")
CONTEXTS = ("contexts", "retrieved_contexts", "retrieved_context", "retrieval_context", "context", "documents")
_SPREAD = frozenset({"input", "inputs", "output", "outputs", "metadata"})
"""Fields that may be spread over columns, such as `input_question`."""
_IDS = ("id", "run_id", "traceId", "trace_id")
_SPEAKERS = frozenset({"role", "type"})
_FAULT = re.compile(r"(?:toxicity|hallucinations?|bias)(?:score|rate)?")
"""Whole names, without case and separators, of scores for which lower is better. Part of a name tells nothing:
`no_hallucination` is better if higher."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The names that a tool's exports use. If there are several, the first one in a row counts.

    Attributes:
        tool: The tool's name, for people.
        column: The column of data/ that holds its scores.
        asked, answer, expected: The columns of the input, the recorded answer and the reference.
        runs: A row with one of these columns is a run, and its output is the answer; in other rows it is the
            reference. Empty: it is always the answer.
        scores: The scores of a row.
        scored: Returns the id of the row that a row of scores is about; empty for other rows. Rows of scores may be in
            separate files of one folder.
        scores_in: The column of a row that has the list of its scores.
        part_of: Returns why a row is part of a case, not a case; empty if it is a case.
        lists: Keys of an object that hold the rows.
        number, group, failure: The columns of the row's id, of the id of related rows, and of an error.
        seconds, dollars: Time and cost of the answer.
        encoded: Inputs and outputs are JSON texts in every format, not only in CSV.
        references: The keys of the reference in an object of expected values; its other keys become variables.
        opened: Reads rows from the tool's own file formats; None: any table or list.
        hint: How to create such a file with the tool.
    """

    tool: str
    column: str
    asked: Sequence[str]
    answer: Sequence[str]
    expected: Sequence[str]
    scores: Callable[[Columns], Scores]
    hint: str
    runs: Sequence[str] = ()
    scored: Callable[[Columns], str] = lambda row: ""  # noqa: ARG005
    scores_in: str = ""
    part_of: Callable[[Columns], str] = lambda row: ""  # noqa: ARG005
    lists: Sequence[str] = ()
    number: Sequence[str] = ("id",)
    group: Sequence[str] = ()
    failure: Sequence[str] = ("error",)
    seconds: Callable[[Columns], object] = lambda row: None  # noqa: ARG005
    dollars: Callable[[Columns], object] = lambda row: None  # noqa: ARG005
    encoded: bool = False
    references: Sequence[str] = ()
    opened: Callable[[Path, Ledger], Iterator[SourceRow]] | None = None


def read_export(platform: Platform, source: ImportSource) -> ImportedConfig:
    """Import one file; UserError if it is not an export of the platform."""
    path = source.path
    if path.is_dir() and platform.scores_in:
        return _of_folder(platform, source, path)
    ledger = Ledger(PARTS)
    return _imported(platform, source, path, _rows(platform, source.file(hint=platform.hint), ledger), ledger)


def _of_folder(platform: Platform, source: ImportSource, folder: Path) -> ImportedConfig:
    """Find the file of rows in a folder, and the other files with their scores."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in READABLE]
    firsts = {path: next(_rows(platform, path, Ledger())) for path in files}
    beside = [path for path, row in firsts.items() if platform.scored(Columns(row.data, row.where))]
    others = [path for path in files if path not in beside]
    if len(others) != 1:
        what = f"the folder has {len(others)} files of rows and {len(beside)} of scores; expected one file of rows"
        raise UserError(Problem(what, shown(folder), platform.hint))
    with source.database() as database:
        store, ledger = _ScoreStore(database), Ledger(PARTS)
        for path in beside:
            store.add((platform.scored(Columns(row.data, row.where)), row) for row in _rows(platform, path, ledger))
        rows = store.joined(platform.scores_in, _rows(platform, others[0], ledger))
        imported = _imported(platform, source, others[0], rows, ledger)
        for where in store.left():
            imported.ledger.leave("scores", "score", where, f"the row that it scores is not in {shown(others[0])}")
    return imported


class _ScoreStore:
    """Scores of other files in a temporary database, by the id of the row that they score."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE score (about TEXT, place TEXT, content TEXT)")
        database.execute("CREATE INDEX about ON score (about)")

    def add(self, scores: Iterable[tuple[str, SourceRow]]) -> None:
        rows = ((about, score.where, json.dumps(score.data)) for about, score in scores)
        self._database.executemany("INSERT INTO score VALUES (?, ?, ?)", rows)

    def joined(self, column: str, rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
        """Each row with its scores in a column; they are removed from the store."""
        for row in rows:
            about = str(next((row.data[name] for name in _IDS if row.data.get(name)), ""))
            taken = self._database.execute("DELETE FROM score WHERE about = ? RETURNING content", (about,)).fetchall()
            scores = [json.loads(content) for (content,) in taken]
            own = as_list(row.data.get(column))
            yield SourceRow(row.where, {**row.data, column: [*own, *scores]}) if scores else row

    def left(self) -> Iterator[str]:
        """The places of scores whose row was not found."""
        for (where,) in self._database.execute("SELECT place FROM score ORDER BY rowid"):
            yield where


def _imported(
    platform: Platform, source: ImportSource, path: Path, rows: Iterator[SourceRow], ledger: Ledger
) -> ImportedConfig:
    encoded, imported = platform.encoded or path.suffix.lower() == ".csv", ImportedConfig(ledger=ledger)
    with recorded_cases(source, platform.tool, platform.column, path=path, imported=imported) as cases:
        for item in rows:
            row = Columns(item.data, item.where)
            read, scores = partial(_case, platform, row, encoded, cases.ledger), [*platform.scores(row)]
            names = {name for name, _ in scores if isinstance(name, str)}
            cases.lower |= {name for name in names if _is_fault(name)}
            cases.undirected |= names
            cases.take(row, read, scores, platform.hint, kept_as=_structured if encoded else _same)
    return cases.imported


def _is_fault(name: str) -> bool:
    return _FAULT.fullmatch(re.sub(r"[\W_]", "", name).lower()) is not None


def field_of(row: Columns, names: Sequence[str]) -> object:
    """The value of the first name that has one; else an object of the columns that begin with a name."""
    field = row.get(*names)
    for name in names if field is None and not any(map(row.declares, names)) else ():
        starts = (f"{name}.", f"{name}_") if name in _SPREAD else (f"{name}.",)
        if spread := row.spread(starts):
            return spread
    return field


def _rows(platform: Platform, path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    if platform.opened is not None:
        yield from platform.opened(path, ledger)
        return
    if path.suffix.lower() == ".json" and begins_with(path, b"{"):
        for place in platform.lists:
            rows = read_objects(path, place, ledger)
            if (first := next(rows, None)) is not None:
                yield from chain([first], rows)
                return
    yield from read_rows(path, ledger)


def _case(platform: Platform, row: Columns, encoded: bool, ledger: Ledger) -> dict[str, object]:
    if reason := platform.part_of(row):
        raise Untranslatable(reason)
    read = parsed if platform.encoded else _structured if encoded else _same
    cells = [field_of(row, names) for names in (platform.asked, platform.answer, platform.expected)]
    asked, answer, expected = (None if _is_blank(value, platform) else value for value in map(read, cells))
    if asked is None:
        raise Untranslatable(f"it has none of {', '.join(platform.asked)}")
    is_run = not platform.runs or any(row.has(name) for name in platform.runs)
    _, said_cell, expected_cell = cells
    if expected is None and not is_run:
        expected, answer, expected_cell = answer, None, said_cell
    failure = None if answer is not None else field_of(row, platform.failure)
    if answer is None and failure is None and is_run and row.recorded_answer(*platform.answer) == "":
        answer = ""
    case = input_of(asked, ledger, row.where)
    if not case.get("messages") and (not asked or asks_nothing(case)):
        raise Untranslatable("its input is empty")
    noted = parsed(field_of(row, ("metadata",)))
    about = dict(as_map(noted)) if isinstance(noted, Mapping) or noted is None else {"metadata": noted}
    if answer is not None:
        case |= answer_of(answer, about, ledger, row.where, said_cell)
        case |= present(latency_s=platform.seconds(row), cost_usd=platform.dollars(row))
    elif failure is not None:
        case["failure"] = as_json(failure)
    if expected is not None:
        variables: dict[str, object] = {}
        case |= reference_of(expected, variables, platform.expected[0], expected_cell, platform.references)
        case |= {"vars": joined(as_map(case.get("vars")), variables)} if variables else {}
    group = row.case_id(*platform.group)
    contexts = next((item for item in map(_contexts, (answer, asked, expected)) if item is not None), None)
    if contexts is None:  # else a column of contexts is kept as a variable
        contexts = row.take(_listed_contexts, *CONTEXTS)
    return case | present(
        id=row.case_id(*platform.number),
        group=None if group is None else str(group),
        contexts=contexts,
        tags=row.tags("tags"),
        metadata=about or None,
    )


def _same(value: object) -> object:
    return value


def _is_blank(value: object, platform: Platform) -> bool:
    """Whether an input or output has no value; of a platform that encodes JSON, an empty list or object is a text."""
    if value in ({}, []):
        return not platform.encoded
    return isinstance(value, Mapping) and all(part is None for part in as_map(value).values())


def _structured(cell: object) -> object:
    """The object or list in a cell's text. A text in quotes stays a text with quotes."""
    return cell if isinstance(cell, str) and cell.lstrip().startswith('"') else parsed(cell)


def input_of(asked: object, ledger: Ledger, where: str) -> dict[str, object]:
    """The question or messages, and the parts of a composite input as variables.

    Untranslatable for messages that cannot be sent unchanged.
    """
    parts = as_map(asked)
    listed = as_list(parts.get("messages", asked))
    inner = as_list(listed[0]) if len(listed) == 1 else []
    listed = inner or listed
    if are_messages(listed):
        messages = read_turns(listed, ledger, where, ordered=True)
        if not messages:
            raise Untranslatable("it has no message that can be read")
        rest = {str(name): value for name, value in parts.items() if name != "messages"}
        return {"messages": message_rows(messages), **({"vars": rest} if rest else {})}
    rest = {str(name): value for name, value in parts.items()}
    case: dict[str, object] = {"question": question_of(rest, "") or spoken_text(asked)}
    name, history = history_in(rest, ledger, where)
    if history:
        case["history"] = history
        del rest[name]
    return {**case, **({"vars": rest} if rest else {})}


def asks_nothing(case: Mapping[str, object]) -> bool:
    """Whether a case has neither messages nor a non-blank question."""
    question = case.get("question")
    return not case.get("messages") and not (isinstance(question, str) and question.strip())


def answer_of(
    output: object, about: dict[str, object], ledger: Ledger, where: str, cell: object = None
) -> dict[str, object]:
    """The answer in an output, and the agent's steps if it has messages.

    Anything besides the text goes to `about`, the answer's metadata, as `output`. If an output was parsed from the text
    of a `cell` and contains no text, that text is the answer.
    """
    turns = as_list(as_map(output).get("messages", output))
    is_one = not are_messages(turns) and are_messages([output])
    if is_one or are_messages(turns):
        messages = read_turns([output] if is_one else turns, ledger, where)
        steps = message_rows(messages) if any(item.tool_calls for item in messages) else None
        is_more = any(item.metadata for item in messages) if is_one else len(as_map(output)) > 1
        if is_more or any(item.parts for item in messages) or (len(turns) > 1 and not steps):
            about |= joined(about, {"output": output})
        answer = messages[0].content if is_one and messages else answer_in(messages[-1:]) or ""
        return {"answer": answer, **present(actual=steps)}
    text = spoken_text(output)
    if not _is_whole(output, text):
        about |= joined(about, {"output": output})
    return {"answer": _written(output, text, cell)}


def _written(value: object, text: str, cell: object) -> str:
    """The text of a value; if that is JSON, in the file's own notation."""
    return cell if isinstance(cell, str) and not isinstance(value, str) and text == output_text(value) else text


def reference_of(
    expected: object, variables: dict[str, object], name: str, cell: object = None, references: Sequence[str] = ()
) -> dict[str, object]:
    """The reference, or several.

    Anything besides the text becomes a variable of its own name. In an object with named parts the reference is the key
    in `references`; the other parts become variables.
    """
    items = as_list(expected)
    if items and all(isinstance(item, str) for item in items):
        return {"reference": items if len(items) > 1 else items[0]}
    parts = as_map(expected)
    if references and parts:
        at = next((key for key in references if not is_missing(parts.get(key))), None)
        variables |= {key: value for key, value in parts.items() if key != at}
        return {} if at is None else reference_of(parts[at], variables, at)
    text = spoken_text(expected)
    if not _is_whole(expected, text):
        variables.setdefault(name, expected)
    return {"reference": _written(expected, text, cell)}


def _is_whole(value: object, text: str) -> bool:
    """Whether a value contains nothing but this text."""
    parts = {name: part for name, part in as_map(value).items() if name not in _SPEAKERS and not is_missing(part)}
    return value == text or output_text(value) == text or list(parts.values()) == [text]


def spoken_text(value: object) -> str:
    """The text of an output: itself, an object's only text, or the last message's text; else JSON."""
    if isinstance(value, str):
        return value
    parts = as_map(value)
    choices = as_list(parts.get("choices"))
    message = as_map(choices[0]).get("message") if choices else value
    generated = as_list(parts.get("generations"))
    if generated and (first := (as_list(generated[0]) or generated)[0]) is not None:  # of LangChain's models
        return spoken_text(first)
    turns = as_list(parts.get("messages", value))
    last = turns[-1] if turns else message
    if are_messages([last]):
        with suppress(ValueError):
            return read_messages([last])[-1].content
    texts = {name: text for name, text in parts.items() if isinstance(text, str) and name in _TEXTS}
    spoken = next((texts[name] for name in _TEXTS if texts.get(name, "").strip()), None)
    named = next((texts[name] for name in _TEXTS if name in texts), None) if spoken is None else spoken
    if named is not None:
        return named
    if len(parts) == 1:
        [only] = parts.values()
        return spoken_text(only)
    return output_text(value)


def _listed_contexts(value: object) -> list[object] | None:
    """The contexts in a column of their own, as they are; None if it is not a list of them."""
    try:
        contexts(parsed(value))
    except ValueError:
        return None
    return as_list(parsed(value)) if isinstance(parsed(value), list) else None


def _contexts(value: object) -> list[str] | None:
    """The texts of the retrieved contexts, empty if nothing was retrieved; None if unknown or not texts."""
    parts = as_map(value)
    listed = next((as_list(parts[name]) for name in CONTEXTS if isinstance(parts.get(name), list)), None)
    texts = [item if isinstance(item, str) else as_map(item).get("page_content") for item in listed or ()]
    return None if listed is None or any(not isinstance(text, str) for text in texts) else [str(item) for item in texts]

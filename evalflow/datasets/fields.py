"""From a file's columns to case fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from evalflow.config.schema import DatasetConfig
from evalflow.contexts import contexts
from evalflow.datasets.csv_file import cell_value
from evalflow.datasets.messages import read_message, read_messages
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.jsonvalues import Path, json_path, kind, written
from evalflow.records import Message

_BETWEEN = " > "


def tag_name(text: str) -> str:
    """The normal form of a tag: `A>B` and ` A >  B ` become `A > B`; empty if the text names no level."""
    return _BETWEEN.join(level for part in text.split(">") if (level := part.strip()))


def tag_levels(tag: str) -> Sequence[str]:
    """The tag with its parents: `A` and `A > B` for `A > B`; empty if it names no level."""
    name = tag_name(tag)
    levels = name.split(_BETWEEN) if name else []
    return [_BETWEEN.join(levels[: i + 1]) for i in range(len(levels))]


def _expect(value: Any, types: type, expected: str, where: str = "") -> Any:
    if not isinstance(value, types):
        raise ValueError(f"{where}{': ' if where else ''}expected {expected}, got {kind(value)}")
    return value


def _text(value: Any) -> str:
    return _expect(value, str, "text")


def _reference(value: Any) -> str | tuple[str, ...] | None:
    """The ideal answer, or a list of them; a number or a boolean is the text that stands for it in JSON."""
    if not isinstance(value, list):
        return _scalar_text(value, "text, a number or a list of texts")
    texts = tuple(_scalar_text(one, "a list of texts", " in it") for one in cast("list[Any]", value))
    return texts if len(texts) > 1 else next(iter(texts), None)


def _scalar_text(value: Any, expected: str, where: str = "") -> str:
    if not isinstance(value, str | int | float):
        raise ValueError(f"expected {expected}, got {kind(value)}{where}")
    return written(value)


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ValueError(f"expected text or a whole number, got {kind(value) if value != '' else 'empty text'}")
    return str(value)


def _group(value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise ValueError(f"expected text or a number, got {kind(cast('object', value))}")
    return value if isinstance(value, str) else json.dumps(value)


def _object(value: Any, where: str = "") -> dict[str, Any]:
    return _expect(value, dict, "an object", where)


def _demo_answer(value: Any) -> Message:
    return Message("assistant", value) if isinstance(value, str) else read_message(value, "assistant")


def _checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    form = "{identifier, enabled, params}"
    checks: list[dict[str, Any]] = []
    for i, item in enumerate(_expect(value, list, f"a list of {form}")):
        check: dict[str, Any] = _expect(item, dict, form, f"item {i}")
        if not isinstance(check.get("identifier"), str) or not check["identifier"]:
            raise ValueError(f"item {i}: the check has no identifier")
        _expect(check.get("enabled", True), bool, "true or false", f"item {i}.enabled")
        _object(check.get("params") or {}, f"item {i}.params")
        checks.append(check)
    return tuple(checks)


def _tags(value: Any) -> tuple[str, ...]:
    # As typed into a cell: "a; b".
    tags: list[Any] = value.split(";") if isinstance(value, str) else _expect(value, list, "a list of texts")
    wrong = next((tag for tag in tags if not isinstance(tag, str)), "")
    if wrong != "":
        raise ValueError(f"expected a list of texts, got {kind(wrong)} in it")
    return tuple(dict.fromkeys(name for text in tags if (name := tag_name(text))))


def _said(value: Any) -> str:
    if not _text(value).strip():
        raise ValueError("it is blank")
    return value


def _facts(value: Any) -> tuple[str, ...]:
    """One fact, a list of them, or an object of them by name."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        value = [f"{name}: {one if isinstance(one, str) else json.dumps(one)}" for name, one in named.items()]
    facts: list[Any] = [value] if isinstance(value, str) else _expect(value, list, "a list of texts")
    wrong = next((fact for fact in facts if not isinstance(fact, str)), "")
    if wrong != "":
        raise ValueError(f"expected a list of texts, got {kind(wrong)} in it")
    return tuple(fact for fact in facts if fact.strip())


def _anything(value: Any) -> Any:
    return value


def _failure(value: Any) -> str | None:
    """Why there is no recorded answer, from a message or an object of status (success or error) and message."""
    if not isinstance(value, dict):
        return _text(value)
    failure = cast("dict[str, Any]", value)
    status = failure.get("status", "error")
    if status not in ("success", "error"):
        raise ValueError(f"status: expected success or error, got {status!r}")
    return None if status == "success" else _text(failure.get("message", "the data says no more than status: error"))


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "id": _id,
    "question": _text,
    "history": read_messages,
    "messages": read_messages,
    "answer": _text,
    "reference": _reference,
    "scenario": _said,
    "persona": _said,
    "goal": _said,
    "facts": _facts,
    "contexts": contexts,
    "expected": _anything,
    "actual": _anything,
    "metadata": _object,
    "demo_answer": _demo_answer,
    "failure": _failure,
    "checks": _checks,
    "tags": _tags,
    "group": _group,
    "labels": _object,
    "vars": _object,
}  # case field to the function that converts its value
FIELDS = tuple(CONVERTERS)  # the case fields that data can fill


Row = Mapping[str, Any]

# Common other names of columns, each with its field.
ALIASES = {"demo_output": "demo_answer", "chat_history": "history", "conversation_history": "history"}
# Mapping a column to one of these leaves its own meaning intact: e.g. clusters by question.
SECONDARY = ("id", "group", "tags", "labels")
OF_A_SCENARIO = ("persona", "goal", "facts")
"""Fields that are columns like any other in a row without a scenario."""
# Both define the conversation, so mapping one of them disables the other.
_RIVALS = {"question": "messages", "messages": "question"}
_TEXT = ("id", "question", "answer", "reference", "group", "scenario")
_STRUCTURED = (
    "history",
    "messages",
    "contexts",
    "metadata",
    "demo_answer",
    "checks",
    "tags",
    "labels",
    "vars",
    "facts",
)
_COMPOSED = ("expected", "actual", "metadata", "failure", "labels")
_PLAIN_PATH = re.compile(r"\$\.([A-Za-z_]\w*)\Z")


@dataclass(frozen=True, slots=True)
class FieldMap:
    """The sources of a row's case fields: columns, `aliases` (column to field) for rows without, paths, parts."""

    columns: Mapping[str, str]
    aliases: Mapping[str, str]
    paths: Mapping[str, Path]
    parts: Mapping[str, Mapping[str, str | Path]]

    def values(self, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
        """The raw values by case field, and the unmapped columns; both without nulls."""
        found = {name: row[column] for name, column in self.columns.items() if row.get(column) is not None}
        used = set(self.columns.values())
        for column, name in self.aliases.items():
            if name not in found and row.get(column) is not None:
                found[name] = row[column]
                used.add(column)
        for name, path in self.paths.items():
            if (value := path.value(row)) is not None:
                found[name] = value
        if "scenario" not in found:
            for name in OF_A_SCENARIO:
                if found.pop(name, None) is not None:
                    used.discard(self.columns.get(name))
        for name, sources in self.parts.items():
            used |= {source for source in sources.values() if isinstance(source, str)}
            parts = {key: row.get(one) if isinstance(one, str) else one.value(row) for key, one in sources.items()}
            if whole := {key: value for key, value in parts.items() if value is not None}:
                found[name] = whole
        return found, {column: value for column, value in row.items() if column not in used and value is not None}

    def place(self, name: str, row: Row) -> str:
        """The field, with the column or path that it has in this row."""
        if name in self.parts:
            return name
        if name in self.paths:
            return f"{name} (at {self.paths[name].text})"
        column = self.columns.get(name, name)
        if row.get(column) is None:
            column = next((other for other, own in self.aliases.items() if own == name and other in row), column)
        return name if column == name else f"{name} (column {column!r})"

    def typed(self, cells: Row) -> dict[str, Any]:
        """Parse text cells as JSON values, depending on the column. Empty cells are absent.

        Columns of text fields stay text. Structured fields are parsed if they look like a list or an object. All others
        are also parsed if they look like a number or a boolean.
        """
        origin = {**self.aliases, **{column: name for name, column in self.columns.items()}}
        return {column: _typed(origin.get(column), column, cell) for column, cell in cells.items() if cell}


def _typed(name: str | None, column: str, cell: str) -> Any:
    if name in _TEXT:
        return cell
    try:
        return cell_value(cell, plain=name not in _STRUCTURED)
    except ValueError as error:
        raise ValueError(f"column {column!r}: {error}") from None


def field_map(dataset: str, config: DatasetConfig, aliases: Mapping[str, str] | None = None) -> FieldMap:
    """The mapping that a dataset declares, plus the columns that map to a field by their own name.

    A column that `fields` maps is not mapped by name as well: with `{reference: answer}` there is no recorded answer.
    If `fields` names question or messages, the other one is not mapped by name. `aliases` are the file format's own.
    """
    declared, problems = _declared(dataset, config)
    where = f"dataset.{dataset}"

    def compiled(path: str, key: str) -> Path:
        try:
            return json_path(path)
        except ValueError as error:
            problems.append(Problem(f"{path!r} is no JSONPath: {error}", f"{where}.{key}"))
            return json_path("$")  # never used: the problems are raised

    columns: dict[str, str] = {}
    paths: dict[str, Path] = {}
    parts: dict[str, dict[str, str | Path]] = {}
    for name, source in declared.items():
        key = "group" if name == "group" and config.group else f"fields.{name}"
        if not isinstance(source, str):
            parts[name] = {
                part: compiled(one, f"{key}.{part}") if one.startswith("$") else one for part, one in source.items()
            }
        elif source.startswith("$"):
            paths[name] = compiled(source, key)
        else:
            columns[name] = source
    if problems:
        raise UserError(problems)
    taken = {column for name, column in columns.items() if name not in SECONDARY}
    taken |= {source for sources in parts.values() for source in sources.values() if isinstance(source, str)}
    taken |= {other for name, other in _RIVALS.items() if name in declared}
    own = {name: name for name in CONVERTERS if name not in declared and name not in taken}
    others = {**ALIASES, **(aliases or {})}
    fallbacks = {column: name for column, name in others.items() if name in own and column not in taken}
    columns |= own
    sources = {**columns, **{name: path.text for name, path in paths.items()}}
    if config.labels_of and sources.get(config.generates) != _plain(config.labels_of):
        for labels in (columns, paths, parts):
            labels.pop("labels", None)
    return FieldMap(columns, fallbacks, paths, parts)


def _declared(dataset: str, config: DatasetConfig) -> tuple[dict[str, str | dict[str, str]], list[Problem]]:
    where = f"dataset.{dataset}"
    declared = dict(config.fields or {})
    problems = [
        Problem(f"{name!r} is no case field", f"{where}.fields.{name}", did_you_mean(name, CONVERTERS))
        for name in declared
        if name not in CONVERTERS
    ]
    empty = "expected a column's name or a JSONPath, got empty text"
    for name, source in declared.items():
        if not source:
            problems.append(Problem(empty if source == "" else "it has no parts", f"{where}.fields.{name}"))
        elif not isinstance(source, str):
            problems += [Problem(empty, f"{where}.fields.{name}.{part}") for part, one in source.items() if not one]
            if name not in _COMPOSED:
                hint = f"only {', '.join(_COMPOSED)} can be"
                problems.append(Problem("it cannot be put together of parts", f"{where}.fields.{name}", hint))
    if config.group and declared.setdefault("group", config.group) != config.group:
        problems.append(Problem("`group` and `fields.group` name different columns", where, "keep one of them"))
    plain = {
        name: _plain(source) if isinstance(source, str) else {part: _plain(one) for part, one in source.items()}
        for name, source in declared.items()
    }
    return plain, problems


def _plain(source: str) -> str:
    """Replace a path to a single column by the column, which is faster to read."""
    return _PLAIN_PATH.sub(r"\1", source)

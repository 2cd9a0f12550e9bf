"""From a file's columns to case fields."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from evalflow.cells import CellType, NoLiteral, list_in, literal, object_in, opened, read_as, split, text_of
from evalflow.config.schema import DatasetConfig, FieldSource, FieldValue
from evalflow.contexts import contexts
from evalflow.datasets.messages import read_message, read_messages
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.jsonvalues import Path, as_map, json_path, kind
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
    return text_of(value)


def _items(value: Any, expected: str, others: Callable[[str], list[Any]] | None = None) -> list[Any]:
    """A list; of a text the list that it is as a whole, else what `others` makes of it."""
    if not isinstance(value, str):
        return _expect(value, list, expected)
    found = list_in(value)
    if found is None and others is None:
        raise ValueError(f"expected {expected}, got text")
    return others(value) if found is None and others else found or []


def _reference(value: Any) -> str | tuple[str, ...] | None:
    """The ideal answer, or a list of them; a number or a boolean is the text that stands for it in JSON."""
    if not isinstance(value, list):
        return text_of(value)
    try:
        texts = tuple(map(text_of, cast("list[Any]", value)))
    except ValueError as error:
        raise ValueError(f"in the list: {error}") from None
    return texts if len(texts) > 1 else next(iter(texts), None)


def _id(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ValueError(f"expected text or a whole number, got {kind(value) if value != '' else 'empty text'}")
    return str(value)


def _object(value: Any, where: str = "") -> dict[str, Any]:
    if isinstance(value, str) and not where:
        return object_in(value)
    return _expect(value, dict, "an object", where)


def _object_or_text(value: Any, keys: set[str]) -> Any:
    """The object with these keys that a text is as a whole; else the value itself."""
    found: Any = opened(value)
    return found if keys <= as_map(found).keys() else value


def _demo_answer(value: Any) -> Message:
    value = _object_or_text(value, {"role", "content"})
    return Message("assistant", value) if isinstance(value, str) else read_message(value, "assistant")


def _checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    form = "{identifier, enabled, params}"
    checks: list[dict[str, Any]] = []
    for i, item in enumerate(_items(value, f"a list of {form}")):
        check: dict[str, Any] = _expect(item, dict, form, f"item {i}")
        if not isinstance(check.get("identifier"), str) or not check["identifier"]:
            raise ValueError(f"item {i}: the check has no identifier")
        _expect(check.get("enabled", True), bool, "true or false", f"item {i}.enabled")
        _object(check.get("params") or {}, f"item {i}.params")
        checks.append(check)
    return tuple(checks)


def _tags(value: Any) -> tuple[str, ...]:
    tags = _items(value, "a list of texts", split)  # as typed into a cell: "a; b"
    wrong = next((tag for tag in tags if not isinstance(tag, str)), "")
    if wrong != "":
        raise ValueError(f"expected a list of texts, got {kind(wrong)} in it")
    return tuple(dict.fromkeys(name for text in tags if (name := tag_name(text))))


def _said(value: Any) -> str:
    if not (text := text_of(value)).strip():
        raise ValueError("it is blank")
    return text


def _facts(value: Any) -> tuple[str, ...]:
    """One fact, a list of them, or an object of them by name."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            value = object_in(value)
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        value = [f"{name}: {one if isinstance(one, str) else json.dumps(one)}" for name, one in named.items()]
    facts = _items(value, "a list of texts", lambda text: [text])
    wrong = next((fact for fact in facts if not isinstance(fact, str)), "")
    if wrong != "":
        raise ValueError(f"expected a list of texts, got {kind(wrong)} in it")
    return tuple(fact for fact in facts if fact.strip())


def _anything(value: Any) -> Any:
    return value


def _failure(value: Any) -> str | None:
    """Why there is no recorded answer, from a message or an object of status (success or error) and message."""
    value = _object_or_text(value, {"status", "message"})
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
    "group": _text,
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
_TEXTS = ("question", "answer", "reference", "group", "scenario", "persona", "goal")
_AS_WRITTEN = (None, "list", "json")
"""Types in which a number of a text field is still the text that it is written as."""
_MOST_PLANS = 1_000  # sets of columns
_COMPOSED = ("expected", "actual", "metadata", "failure", "labels")
_ENTERED = re.compile(r"\$(?:\.([A-Za-z_]\w*)|\[(['\"])(.+?)\2\])(?=[.\[])")
_PLAIN_PATH = re.compile(r"\$\.([A-Za-z_]\w*)\Z")


def _has_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and any(map(_has_fraction, cast("list[Any]", value))))


def _digits(value: Any) -> Any:
    if isinstance(value, list):
        return [_digits(one) for one in cast("list[Any]", value)]
    return text_of(value) if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a value comes from, a column or a JSONPath, and what it is declared to be, if anything."""

    at: str | Path
    type: CellType | None = None
    is_text: bool = False  # whether the digits of a number count

    @property
    def column(self) -> str | None:
        return self.at if isinstance(self.at, str) else None

    def value(self, row: Row, exact: Callable[[], Row] | None = None) -> Any:
        """The value in the row, None if absent; ValueError if it is not of the declared type.

        `exact` gives the row with decimals, for texts that a number stands for.
        """
        found = row.get(self.at) if isinstance(self.at, str) else self._within(self.at, row)
        if self.is_text and exact is not None and _has_fraction(found):
            return self.value(exact())
        if found is not None and self.type is not None:
            try:
                found = read_as(self.type, found, exact=self.is_text)
            except ValueError as error:
                raise ValueError(f"{self}: {error}") from None
        return found if isinstance(found, str) or not self.is_text else _digits(found)

    def _within(self, path: Path, row: Row) -> Any:
        """The value at a path; a text that the path leads into is read as JSON."""
        entered = _ENTERED.match(path.text)
        column = (entered[1] or entered[3]) if entered else ""
        text = row.get(column)
        if isinstance(text, str) and text.lstrip().startswith(("{", "[")):
            try:
                row = {**row, column: read_as("json", text, exact=self.is_text)}
            except ValueError as error:
                raise ValueError(f"column {column!r}, which {path.text} leads into: {error}") from None
        return path.value(row)

    def __str__(self) -> str:
        return f"column {self.at!r}" if isinstance(self.at, str) else f"at {self.at.text}"


@dataclass(frozen=True, slots=True)
class _RowPlan:
    """How rows with the same columns are read: each field's source, with its column if a text in it is the value.

    If the plan `is_plain`, the `others` are the columns of variables.
    """

    sources: Sequence[tuple[str, ColumnSource, str | None]]
    others: Sequence[str]
    is_plain: bool


@dataclass(frozen=True, slots=True)
class FieldMap:
    """The sources of a row's case fields, `aliases` (column to field) for rows without, parts of fields, variables.

    With `expected_is_reference` a text or number under `expected` is the reference of a row without one.
    """

    sources: Mapping[str, ColumnSource]
    aliases: Mapping[str, str]
    parts: Mapping[str, Mapping[str, ColumnSource]]
    variables: Mapping[str, ColumnSource]
    expected_is_reference: bool = False
    _plans: dict[tuple[str, ...], _RowPlan] = field(default_factory=dict[tuple[str, ...], "_RowPlan"], compare=False)

    def values(self, row: Row, exact: Callable[[], Row] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The raw values by case field, and the variables: unmapped columns and declared ones; both without nulls."""
        found: dict[str, Any] = {}
        plan = self._plan(row)
        for name, one, column in plan.sources:
            value = row[column] if column is not None else None
            if column is None or not isinstance(value, str):
                value = one.value(row, exact)
            if value is not None:
                found[name] = value
        if plan.is_plain:
            return found, {column: value for column in plan.others if (value := row[column]) is not None}
        used = {one.column for _, one, _ in plan.sources}
        for column, name in self.aliases.items():
            if name not in found and row.get(column) is not None:
                found[name] = ColumnSource(column, is_text=name in _TEXTS).value(row, exact)
                used.add(column)
        if "scenario" not in found:
            for name in OF_A_SCENARIO:
                if found.pop(name, None) is not None:
                    used.discard(self.sources[name].column)
        for name, parts in self.parts.items():
            used |= {one.column for one in parts.values()}
            whole = {part: value for part, one in parts.items() if (value := one.value(row, exact)) is not None}
            if whole:
                found[name] = whole
        used |= {one.column for one in self.variables.values()}
        others = {column: value for column, value in row.items() if column not in used and value is not None}
        declared = {name: value for name, one in self.variables.items() if (value := one.value(row, exact)) is not None}
        return found, others | declared

    def _plan(self, row: Row) -> _RowPlan:
        """What is read of a row with these columns; most rows of a file have the same."""
        columns = tuple(row)
        plan = self._plans.get(columns)
        if plan is None:
            there = [(name, one) for name, one in self.sources.items() if one.column is None or one.column in row]
            sources = [(name, one, one.column if one.type is None else None) for name, one in there]
            used = {one.column for _, one in there}
            is_plain = not (self.parts or self.variables or any(column in row for column in self.aliases))
            is_plain = is_plain and all(name not in OF_A_SCENARIO for name, _ in there)
            plan = _RowPlan(sources, [column for column in columns if column not in used], is_plain)
            if len(self._plans) < _MOST_PLANS:
                self._plans[columns] = plan
        return plan

    def place(self, name: str, row: Row) -> str:
        """The field, with the column or path that it has in this row."""
        source = self.sources.get(name)
        if source is None:
            return name
        if source.column is not None and row.get(source.column) is None:
            aliases = (column for column, own in self.aliases.items() if own == name and column in row)
            source = ColumnSource(next(aliases, source.column))
        return name if source.column == name else f"{name} ({source})"


def field_map(dataset: str, config: DatasetConfig, aliases: Mapping[str, str] | None = None) -> FieldMap:
    """The mapping that a dataset declares, plus the columns that map to a field by their own name.

    A column that `fields` maps is not mapped by name as well: with `{reference: answer}` there is no recorded answer.
    If `fields` names question or messages, the other one is not mapped by name. `aliases` are the file format's own.
    """
    declared, problems = _declared(dataset, config)
    where = f"dataset.{dataset}"

    def source(name: str, given: str | FieldSource, key: str, *, is_part: bool = False) -> ColumnSource:
        one = FieldSource(column=given) if isinstance(given, str) else given
        at = _plain(one.column or name)
        is_text = one.type == "text" or (one.type in _AS_WRITTEN and name in _TEXTS and not is_part)
        if not at.startswith("$"):
            return ColumnSource(at, one.type, is_text)
        try:
            return ColumnSource(json_path(at), one.type, is_text)
        except ValueError as error:
            problems.append(Problem(f"{at!r} is no JSONPath: {error}", f"{where}.{key}"))
            return ColumnSource(at)  # never used: the problems are raised

    sources: dict[str, ColumnSource] = {}
    parts: dict[str, dict[str, ColumnSource]] = {}
    for name, given in declared.items():
        key = "group" if name == "group" and config.group else f"fields.{name}"
        if isinstance(given, dict):
            parts[name] = {part: source(part, one, f"{key}.{part}", is_part=True) for part, one in given.items()}
        elif given is not None:
            sources[name] = source(name, given, key)
    if problems:
        raise UserError(problems)
    variables = {name: sources.pop(name) for name in [*sources] if name not in CONVERTERS}
    taken = {one.column for name, one in sources.items() if name not in SECONDARY}
    taken |= {one.column for several in parts.values() for one in several.values()}
    taken |= {other for name, other in _RIVALS.items() if declared.get(name) is not None}
    own = {
        name: ColumnSource(name, is_text=name in _TEXTS)
        for name in CONVERTERS
        if name not in declared and name not in taken
    }
    others = {**ALIASES, **(aliases or {})}
    fallbacks = {column: name for column, name in others.items() if name in own and column not in taken}
    sources |= own
    labelled = sources.get(config.generates)
    if config.labels_of and (labelled is None or _text_at(labelled) != _plain(config.labels_of)):
        for labels in (sources, parts):
            labels.pop("labels", None)
    by_name = sources.get("expected") == ColumnSource("expected") and "reference" in own
    return FieldMap(sources, fallbacks, parts, variables, by_name and config.generates == "answer")


def is_plain(value: Any) -> bool:
    """Whether it is a number, or a text that no list or object stands for."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return True
    if not isinstance(value, str) or not value.strip():
        return False
    bare = value.strip()
    try:
        return not bare.startswith(("[", "{")) or not isinstance(literal(bare), list | dict)
    except NoLiteral:
        return True


def named_columns(name: str, given: FieldValue) -> list[str]:
    """The columns that a field's declaration names, without JSONPaths."""
    several = given if isinstance(given, dict) else {name: given}
    found = [one if isinstance(one, str) else one and (one.column or part) for part, one in several.items()]
    return [column for one in found if one and not (column := _plain(one)).startswith("$")]


def _text_at(source: ColumnSource) -> str:
    return source.at if isinstance(source.at, str) else source.at.text


def _declared(dataset: str, config: DatasetConfig) -> tuple[dict[str, FieldValue], list[Problem]]:
    where = f"dataset.{dataset}"
    declared = dict(config.fields or {})
    problems: list[Problem] = []
    empty = "expected a column's name or a JSONPath, got empty text"
    for name, given in declared.items():
        if name not in CONVERTERS and not isinstance(given, FieldSource):
            nearest = did_you_mean(name, CONVERTERS)
            hint = f"{nearest}; to read it as vars.{name}: {name}: {{column: {given or name}, type: text}}"
            problems.append(Problem(f"{name!r} is no case field", f"{where}.fields.{name}", hint))
        if given == "":
            problems.append(Problem(empty, f"{where}.fields.{name}"))
        elif isinstance(given, dict):
            problems += [Problem(empty, f"{where}.fields.{name}.{part}") for part, one in given.items() if one == ""]
            if name in CONVERTERS and name not in _COMPOSED:
                hint = f"only {', '.join(_COMPOSED)} can be; one column with its type: {{column: NAME, type: text}}"
                problems.append(Problem("it cannot be put together of parts", f"{where}.fields.{name}", hint))
    if config.group and declared.setdefault("group", config.group) != config.group:
        problems.append(Problem("`group` and `fields.group` name different columns", where, "keep one of them"))
    return declared, problems


def _plain(source: str) -> str:
    """Replace a path to a single column by the column, which is faster to read."""
    return _PLAIN_PATH.sub(r"\1", source.strip())

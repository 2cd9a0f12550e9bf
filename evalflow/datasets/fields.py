"""Map a file's columns to case fields."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from evalflow.config.schema import DatasetConfig, FieldSource, FieldValue
from evalflow.datasets.messages import read_message, read_messages
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Message
from evalflow.values.cells import CellType, NoLiteral, list_in, literal, object_in, opened, read_as, split, text_of
from evalflow.values.contexts import contexts
from evalflow.values.jsonvalues import Path, as_map, is_list, is_object, json_path, kind

_BETWEEN = " > "


def tag_name(text: str) -> str:
    """The normal form of a tag: `A>B` and ` A >  B ` become `A > B`; empty if the text names no level."""
    return _BETWEEN.join(level for part in text.split(">") if (level := part.strip()))


def tag_levels(tag: str) -> Sequence[str]:
    """The tag with its parents: `A` and `A > B` for `A > B`; empty if it names no level."""
    name = tag_name(tag)
    levels = name.split(_BETWEEN) if name else []
    return [_BETWEEN.join(levels[: i + 1]) for i in range(len(levels))]


def _unexpected(value: object, expected: str, where: str = "") -> ValueError:
    return ValueError(f"{where}{': ' if where else ''}expected {expected}, got {kind(value)}")


def _text(value: object) -> str:
    return text_of(value)


def _items(value: object, expected: str) -> list[object]:
    """Return a list, or the list that a text represents."""
    items = list_in(value) if isinstance(value, str) else value
    if not is_list(items):
        raise _unexpected(value, expected)
    return items


def _texts(value: object, others: Callable[[str], list[str]]) -> list[str]:
    """Return a list of texts; a text is parsed as a list, or else by `others`."""
    if isinstance(value, str) and list_in(value) is None:
        return others(value)
    expected = "a list of texts"
    items = _items(value, expected)
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        wrong = next(item for item in items if not isinstance(item, str))
        raise ValueError(f"expected {expected}, got {kind(wrong)} in it")
    return texts


def _reference(value: object) -> str | tuple[str, ...] | None:
    """The ideal answer, or a list of them; a number or a boolean is the text that stands for it in JSON."""
    if not is_list(value):
        return text_of(value)
    try:
        texts = tuple(map(text_of, value))
    except ValueError as error:
        raise ValueError(f"in the list: {error}") from None
    return texts if len(texts) > 1 else next(iter(texts), None)


def _id(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ValueError(f"expected text or a whole number, got {kind(value) if value != '' else 'empty text'}")
    return str(value)


def _object(value: object, where: str = "") -> dict[str, object]:
    if isinstance(value, str) and not where:
        return object_in(value)
    if not is_object(value):
        raise _unexpected(value, "an object", where)
    return value


def _object_or_text(value: object, keys: set[str]) -> object:
    """Return the object with these keys that a text represents; else the value itself."""
    content: object = opened(value)
    return content if keys <= as_map(content).keys() else value


def _demo_answer(value: object) -> Message:
    value = _object_or_text(value, {"role", "content"})
    return Message("assistant", value) if isinstance(value, str) else read_message(value, "assistant")


def _checks(value: object) -> tuple[Mapping[str, object], ...]:
    form = "{identifier, enabled, params}"
    checks: list[dict[str, object]] = []
    for i, item in enumerate(_items(value, f"a list of {form}")):
        if not is_object(item):
            raise _unexpected(item, form, f"item {i}")
        if not isinstance(item.get("identifier"), str) or not item["identifier"]:
            raise ValueError(f'item {i}: the check has no identifier (such as "identifier": "string_matching")')
        if not isinstance(enabled := item.get("enabled", True), bool):
            raise _unexpected(enabled, "true or false", f"item {i}.enabled")
        _object(item.get("params") or {}, f"item {i}.params")
        checks.append(item)
    return tuple(checks)


def _tags(value: object) -> tuple[str, ...]:
    texts = _texts(value, split)  # as typed into a cell: "a; b"
    return tuple(dict.fromkeys(name for text in texts if (name := tag_name(text))))


def _filled_text(value: object) -> str:
    if not (text := text_of(value)).strip():
        raise ValueError("it is blank")
    return text


def _facts(value: object) -> tuple[str, ...]:
    """One fact, a list of them, or an object of them by name."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            value = object_in(value)
    if is_object(value):
        value = [f"{name}: {fact if isinstance(fact, str) else json.dumps(fact)}" for name, fact in value.items()]
    return tuple(fact for fact in _texts(value, lambda text: [text]) if fact.strip())


def _anything(value: object) -> object:
    return value


def _failure(value: object) -> str | None:
    """Why an answer was not recorded, from a message or an object of status (success or error) and message."""
    value = _object_or_text(value, {"status", "message"})
    if not is_object(value):
        return _text(value)
    failure = value
    status = failure.get("status", "error")
    if status not in ("success", "error"):
        raise ValueError(f"status: expected success or error, got {status!r}")
    return None if status == "success" else _text(failure.get("message", "the data says no more than status: error"))


CONVERTERS: Mapping[str, Callable[[object], object]] = {
    "id": _id,
    "question": _text,
    "history": read_messages,
    "messages": read_messages,
    "answer": _text,
    "reference": _reference,
    "scenario": _filled_text,
    "persona": _filled_text,
    "goal": _filled_text,
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


DataRow = Mapping[str, object]
"""A row of a file by its columns."""

# Common other names of columns, each with its field.
ALIASES = {"demo_output": "demo_answer", "chat_history": "history", "conversation_history": "history"}
# A column mapped to one of these keeps its own meaning too, e.g. clusters by question.
SECONDARY = ("id", "group", "tags", "labels")
OF_A_SCENARIO = ("persona", "goal", "facts")
"""Fields that count as ordinary columns in a row without a scenario."""
# Both define the conversation, so mapping one of them disables the other.
_RIVALS = {"question": "messages", "messages": "question"}
_TEXTS = ("question", "answer", "reference", "group", "scenario", "persona", "goal")
_AS_WRITTEN = (None, "list", "json")
"""Types for which a number in a text field is read as it is written."""
_MOST_PLANS = 1_000  # sets of columns
_COMPOSED = ("expected", "actual", "metadata", "failure", "labels")
_ENTERED = re.compile(r"\$(?:\.([A-Za-z_]\w*)|\[(['\"])(.+?)\2\])(?=[.\[])")
_PLAIN_PATH = re.compile(r"\$\.([A-Za-z_]\w*)\Z")


def _has_fraction(value: object) -> bool:
    return isinstance(value, float) or (is_list(value) and any(map(_has_fraction, value)))


def _digits(value: object) -> object:
    if is_list(value):
        return [_digits(item) for item in value]
    return text_of(value) if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of a value, a column or a JSONPath, and its declared type, if any."""

    at: str | Path
    type: CellType | None = None
    is_text: bool = False  # whether the digits of a number count

    @property
    def column(self) -> str | None:
        return self.at if isinstance(self.at, str) else None

    def value(self, row: DataRow, exact: Callable[[], DataRow] | None = None) -> object:
        """The value in the row, None if absent; ValueError if it is not of the declared type.

        `exact` gives the row with decimals, for texts that a number stands for.
        """
        cell = row.get(self.at) if isinstance(self.at, str) else self._within(self.at, row)
        if self.is_text and exact is not None and _has_fraction(cell):
            return self.value(exact())
        if cell is not None and self.type is not None:
            try:
                cell = read_as(self.type, cell, exact=self.is_text)
            except ValueError as error:
                raise ValueError(f"{self}: {error}") from None
        return cell if isinstance(cell, str) or not self.is_text else _digits(cell)

    def _within(self, path: Path, row: DataRow) -> object:
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

    def values(
        self, row: DataRow, exact: Callable[[], DataRow] | None = None
    ) -> tuple[dict[str, object], dict[str, object]]:
        """The raw values by case field, and the variables: unmapped columns and declared ones; both without nulls."""
        values: dict[str, object] = {}
        plan = self._plan(row)
        for name, source, column in plan.sources:
            value = row[column] if column is not None else None
            if column is None or not isinstance(value, str):
                value = source.value(row, exact)
            if value is not None:
                values[name] = value
        if plan.is_plain:
            return values, {column: value for column in plan.others if (value := row[column]) is not None}
        used = {source.column for _, source, _ in plan.sources}
        for column, name in self.aliases.items():
            if name not in values and row.get(column) is not None:
                values[name] = ColumnSource(column, is_text=name in _TEXTS).value(row, exact)
                used.add(column)
        if "scenario" not in values:
            for name in OF_A_SCENARIO:
                if values.pop(name, None) is not None:
                    used.discard(self.sources[name].column)
        for name, parts in self.parts.items():
            used |= {source.column for source in parts.values()}
            if whole := _present(parts, row, exact):
                values[name] = whole
        used |= {source.column for source in self.variables.values()}
        others = {column: value for column, value in row.items() if column not in used and value is not None}
        return values, others | _present(self.variables, row, exact)

    def _plan(self, row: DataRow) -> _RowPlan:
        """Return the plan for rows with these columns; most rows of a file share one."""
        columns = tuple(row)
        plan = self._plans.get(columns)
        if plan is None:
            there = [(name, at) for name, at in self.sources.items() if at.column is None or at.column in row]
            sources = [(name, at, at.column if at.type is None else None) for name, at in there]
            used = {at.column for _, at in there}
            is_plain = not (self.parts or self.variables or any(column in row for column in self.aliases))
            is_plain = is_plain and all(name not in OF_A_SCENARIO for name, _ in there)
            plan = _RowPlan(sources, [column for column in columns if column not in used], is_plain)
            if len(self._plans) < _MOST_PLANS:
                self._plans[columns] = plan
        return plan

    def place(self, name: str, row: DataRow) -> str:
        """The field, with the column or path that it has in this row."""
        source = self.sources.get(name)
        if source is None:
            return name
        if source.column is not None and row.get(source.column) is None:
            aliases = (column for column, own in self.aliases.items() if own == name and column in row)
            source = ColumnSource(next(aliases, source.column))
        return name if source.column == name else f"{name} ({source})"


def _present(
    sources: Mapping[str, ColumnSource], row: DataRow, exact: Callable[[], DataRow] | None
) -> dict[str, object]:
    """The values of these sources by name, without nulls."""
    return {name: value for name, source in sources.items() if (value := source.value(row, exact)) is not None}


def field_map(dataset: str, config: DatasetConfig, aliases: Mapping[str, str] | None = None) -> FieldMap:
    """The mapping that a dataset declares, plus the columns that map to a field by their own name.

    A column that `fields` maps is not mapped by name as well: with `{reference: answer}` no answer is recorded.
    If `fields` names question or messages, the other one is not mapped by name. `aliases` are the file format's own.
    """
    declared, problems = _declared(dataset, config)
    where = f"dataset.{dataset}"

    def source(name: str, value: str | FieldSource, key: str, *, is_part: bool = False) -> ColumnSource:
        declared = FieldSource(column=value) if isinstance(value, str) else value
        at = _plain(declared.column or name)
        is_text = declared.type == "text" or (declared.type in _AS_WRITTEN and name in _TEXTS and not is_part)
        if not at.startswith("$"):
            return ColumnSource(at, declared.type, is_text)
        try:
            return ColumnSource(json_path(at), declared.type, is_text)
        except ValueError as error:
            problems.append(Problem(f"{at!r} is not a JSONPath: {error}", f"{where}.{key}"))
            return ColumnSource(at)  # never used: the problems are raised

    sources: dict[str, ColumnSource] = {}
    parts: dict[str, dict[str, ColumnSource]] = {}
    for name, value in declared.items():
        key = "group" if name == "group" and config.group else f"fields.{name}"
        if isinstance(value, dict):
            parts[name] = {part: source(part, at, f"{key}.{part}", is_part=True) for part, at in value.items()}
        elif value is not None:
            sources[name] = source(name, value, key)
    if problems:
        raise UserError(problems)
    variables = {name: sources.pop(name) for name in [*sources] if name not in CONVERTERS}
    taken = {at.column for name, at in sources.items() if name not in SECONDARY}
    taken |= {at.column for of_field in parts.values() for at in of_field.values()}
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
    if config.labels_of and (labelled is None or text_at(labelled) != _plain(config.labels_of)):
        for labels in (sources, parts):
            labels.pop("labels", None)
    by_name = sources.get("expected") == ColumnSource("expected") and "reference" in own
    return FieldMap(sources, fallbacks, parts, variables, by_name and config.generates == "answer")


def is_plain(value: object) -> bool:
    """Return whether it is a number, or a text that does not represent a list or an object."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return True
    if not isinstance(value, str) or not value.strip():
        return False
    bare = value.strip()
    try:
        return not bare.startswith(("[", "{")) or not isinstance(literal(bare), list | dict)
    except NoLiteral:
        return True


def named_columns(name: str, value: FieldValue) -> list[str]:
    """The columns that a field's declaration names, without JSONPaths."""
    return [column for column in _named(name, value) if not column.startswith("$")]


def path_roots(name: str, value: FieldValue) -> list[str]:
    """The columns into which the JSONPaths of a field's declaration lead, such as messages for $.messages[0]."""
    return [match[1] or match[3] for column in _named(name, value) if (match := _ENTERED.match(column))]


def _named(name: str, value: FieldValue) -> list[str]:
    parts = value if isinstance(value, dict) else {name: value}
    columns = [at if isinstance(at, str) else at and (at.column or part) for part, at in parts.items()]
    return [_plain(column) for column in columns if column]


def text_at(source: ColumnSource) -> str:
    """The column of a source, or the text of its path."""
    return source.at if isinstance(source.at, str) else source.at.text


def _declared(dataset: str, config: DatasetConfig) -> tuple[dict[str, FieldValue], list[Problem]]:
    where = f"dataset.{dataset}"
    declared = dict(config.fields or {})
    problems: list[Problem] = []
    empty = "expected a column's name or a JSONPath, got empty text"
    for name, value in declared.items():
        if name not in CONVERTERS and not isinstance(value, FieldSource):
            nearest = did_you_mean(name, CONVERTERS)
            hint = f"{nearest}; to read it as vars.{name}: {name}: {{column: {value or name}, type: text}}"
            problems.append(Problem(f"{name!r} is not a case field", f"{where}.fields.{name}", hint))
        if value == "":
            problems.append(Problem(empty, f"{where}.fields.{name}"))
        elif isinstance(value, dict):
            problems += [Problem(empty, f"{where}.fields.{name}.{part}") for part, at in value.items() if at == ""]
            if name in CONVERTERS and name not in _COMPOSED:
                hint = f"only {', '.join(_COMPOSED)} can be; one column with its type: {{column: NAME, type: text}}"
                problems.append(Problem("it cannot be put together of parts", f"{where}.fields.{name}", hint))
    if config.group and declared.setdefault("group", config.group) != config.group:
        problems.append(Problem("`group` and `fields.group` name different columns", where, "keep one of them"))
    return declared, problems


def _plain(source: str) -> str:
    """Replace a path to a single column by the column, which is faster to read."""
    return _PLAIN_PATH.sub(r"\1", source.strip())

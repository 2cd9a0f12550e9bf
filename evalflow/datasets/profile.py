"""Profile the columns of a dataset as read, and find probable mistakes in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import cast

from evalflow.datasets.fields import FIELDS, FieldMap, text_at
from evalflow.records import Case, Context, Message
from evalflow.values.cells import boolean_of, list_in, number_of

_SHOWN = 2  # first values of a column
_LENGTH = 40  # characters of one of them
_SIMPLE = re.compile(r"[A-Za-z_][\w.-]*")
_WATCHED = ("answer", "reference", "expected", "actual", "contexts")
"""Fields that metrics need, and that a dataset usually has for all cases or for none."""
_PROFILED = tuple(name for name in FIELDS if name != "vars")
_values_of = attrgetter(*_PROFILED)


def _is_list(text: str) -> bool:
    try:
        return list_in(text) is not None
    except ValueError:
        return True


_TYPES: Mapping[str, Callable[[str], bool]] = {
    "list": _is_list,
    "number": lambda text: number_of(text) is not None,
    "boolean": lambda text: text.strip().lower() in ("true", "false", "yes", "no") and boolean_of(text) is not None,
}
"""Patterns of texts, by the type to declare."""


@dataclass(slots=True)
class ColumnProfile:
    """The number of cases with a value, the first distinct values, and the type that all of them look like."""

    filled: int = 0
    shown: list[str] = field(default_factory=list[str])
    looks: list[str] = field(default_factory=lambda: [*_TYPES])
    is_text: bool = True

    def add(self, value: object) -> None:
        self.filled += 1
        if not self.looks and len(self.shown) == _SHOWN and not self.is_text:
            return  # nothing more can be learned
        self.is_text = self.is_text and isinstance(value, str)
        if len(self.shown) < _SHOWN and (text := shown_value(value)) not in self.shown:
            self.shown.append(text)
        if self.looks:
            self.looks = [look for look in self.looks if isinstance(value, str) and _TYPES[look](value)]


class Profile:
    """Collects the values of cases, by case field and by variable."""

    def __init__(self) -> None:
        self.cases = 0
        self.fields: dict[str, ColumnProfile] = {}
        self.variables: dict[str, ColumnProfile] = {}

    def add(self, case: Case) -> None:
        self.cases += 1
        for name, value in zip(_PROFILED, _values_of(case), strict=True):
            if value is not None and value != ():
                _profile_of(self.fields, name).add(value)
        for name, value in case.vars.items():
            _profile_of(self.variables, name).add(value)

    def half_filled(self) -> str:
        """The fields that some cases have and others do not, in words; empty without such a field."""
        missing = {name: self.cases - self.fields[name].filled for name in _WATCHED if name in self.fields}
        lacks = ", ".join(f"no {name} in {n:,}" for name, n in missing.items() if n)
        return f"of {self.cases:,} cases: {lacks}" if lacks else ""

    def read_as_text(self) -> dict[str, str]:
        """The variables whose values are texts that look like numbers, lists or true and false: name to type.

        A reference is among them if each looks like a list: of several right answers.
        """
        typed = {name: profile.looks[0] for name, profile in self.variables.items() if profile.looks and profile.filled}
        reference = self.fields.get("reference")
        return typed | ({"reference": "list"} if reference and "list" in reference.looks else {})


def _profile_of(known: dict[str, ColumnProfile], name: str) -> ColumnProfile:
    """The profile of a column, which is new at its first value."""
    profile = known.get(name)
    if profile is None:
        profile = known[name] = ColumnProfile()
    return profile


def in_words(typed: Mapping[str, str]) -> str:
    """Variables by what their texts look like: `score (number), names (list)`."""
    return ", ".join(f"{name} ({wanted})" for name, wanted in typed.items())


def type_line(name: str, wanted: str, column: str | None = None) -> str:
    """The YAML line that declares the type of a column: `score: {column: score, type: number}`."""
    key, source = (
        text if _SIMPLE.fullmatch(text) else json.dumps(text, ensure_ascii=False) for text in (name, column or name)
    )
    return f"{key}: {{column: {source}, type: {wanted}}}"


def fields_by_column(fields: FieldMap, columns: Sequence[str], profile: Profile) -> dict[str, list[str]]:
    """The case fields that each column or path fills, by what the cases have."""
    filled: dict[str, list[str]] = {column: [] for column in columns}
    named = {name: {text_at(source)} for name, source in fields.sources.items()}
    named |= {name: {source.column for source in parts.values()} for name, parts in fields.parts.items()}
    for column, name in fields.aliases.items():
        if name in named and named[name].isdisjoint(columns):
            named[name].add(column)
    for name, sources in named.items():
        has = profile.fields.get("messages" if name == "history" else name)
        for column in sources if has or not profile.cases else ():
            if column in filled:
                filled[column].append(name)
    if fields.expected_is_reference and "reference" in profile.fields and "reference" not in columns:
        filled.get("expected", []).append("reference")
    return filled


def shown_value(value: object) -> str:
    """A value of a case on one line: what is text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"


def _plain(value: object) -> object:
    if isinstance(value, Context):
        return value.text
    if isinstance(value, Message):
        return f"{value.role}: {value.text}"
    return [_plain(item) for item in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value

"""Cases as rows that read again as equal cases, and ids of contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import cast

from evalflow.datasets.fields import FIELDS, is_plain
from evalflow.errors import Problem
from evalflow.records import Case, Context, Message
from evalflow.values.jsonvalues import as_list, as_map, is_object

_CONTEXT = ("text", "title", "path")
_KEPT = tuple(name for name in FIELDS if name not in ("question", "history"))
_kept_values = attrgetter(*_KEPT)


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row of a file, by its number from 0, with its case or all its problems."""

    position: int
    where: str
    case: Case | None
    problems: Sequence[Problem] = ()


def content_id(content: object) -> str:
    """An id shared by equal JSON contents: 16 hexadecimal digits of a SHA-256 over their canonical text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_ASKS = ("messages", "scenario")
_ASKED = (*_ASKS, "persona", "goal", "facts", "reference", "expected")


def case_id(values: Mapping[str, object]) -> str:
    """The id of a case whose row has none, of what is asked and expected: it stays if only the bot's answer changes.

    So the recorded answers of two versions of a bot are compared case by case. If nothing is asked, as of texts that
    are classified, the variables count too.
    """
    names = _ASKED if any(values.get(name) for name in _ASKS) else (*_ASKED, "vars")
    known = {name: json_value(value) for name in names if (value := values.get(name)) is not None}
    for message in filter(is_object, as_list(known.get("messages"))):
        message.pop("metadata", None)  # such as how long an earlier answer took
    return content_id(known)


_REST = ("contexts", "checks", "tags", "group", "vars")


def rest_of(values: Mapping[str, object]) -> dict[str, object]:
    """What distinguishes cases that ask the same, such as a text to summarise; no answer, and no measured number."""
    kept = {name: json_value(value) for name in _REST if (value := values.get(name)) is not None}
    texts = {
        name: value for name, value in as_map(kept.pop("vars", None)).items() if not isinstance(value, int | float)
    }
    return {**kept, **texts}


def case_to_row(case: Case) -> dict[str, object]:
    """The case as a row that `read` turns into an equal case without `fields`; absent fields and place are left out."""
    return {
        name: value if isinstance(value, str) else json_value(value)
        for name, value in zip(_KEPT, _kept_values(case), strict=True)
        if value is not None and (value or name not in ("messages", "tags", "vars"))
    } | ({"reference": None} if case.reference is None and is_plain(case.expected) else {})


def json_value(value: object) -> object:
    """A field of a case as a row holds it."""
    if isinstance(value, tuple):
        return [json_value(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Message):
        row = {"role": value.role, "content": value.content, **(value.api or {}), "metadata": value.metadata}
        return {name: part for name, part in row.items() if part is not None}
    if isinstance(value, Context):
        return {name: part for name in _CONTEXT if (part := getattr(value, name)) is not None}
    return value

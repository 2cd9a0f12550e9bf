"""From a row to a case."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from evalflow.contexts import contexts, html_text
from evalflow.datasets.fields import FieldMap
from evalflow.datasets.rows import Row
from evalflow.datasets.turns import irregular
from evalflow.datasets.values import CONVERTERS
from evalflow.errors import Problem
from evalflow.records import Case, Message

Converters = Mapping[str, Callable[[Any], Any]]


def _converters() -> Converters:
    # Cases that share a corpus share passages, and HTML is by far the slowest value to convert.
    remembered = lru_cache(maxsize=256)(html_text)
    return {**CONVERTERS, "contexts": partial(contexts, to_text=remembered)}


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the cases of one file.

    Attributes:
        dataset: The dataset's name.
        fields: Where each case field comes from.
        cells: Whether the rows' values are untyped text.
        allow_irregular: Whether conversations may have turns in any order.
    """

    dataset: str
    fields: FieldMap
    cells: bool
    allow_irregular: bool = False
    converters: Converters = field(default_factory=_converters)

    def case(self, index: int, row: Row) -> Case | Sequence[Problem]:
        """The row's case, or all that is wrong with the row."""
        try:
            data = self.fields.typed(row.data) if self.cells else row.data
            raw, others = self.fields.values(data)
        except ValueError as error:
            return [Problem(str(error), row.where)]
        values, problems = self._converted(raw, row.where)
        if not problems:
            problems = self._ask(values, row.where)
        if not problems and not self.allow_irregular:
            problems = self._order(values, row.where)
        if problems:
            return problems
        values["vars"] = {**values.get("vars", {}), **others}
        if "id" not in values:
            values["id"] = content_id({column: value for column, value in data.items() if value is not None})
        return Case(dataset=self.dataset, index=index, **values)

    def _converted(self, raw: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[Problem]]:
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, value in raw.items():
            try:
                values[name] = self.converters[name](value)
            except ValueError as error:
                problems.append(Problem(f"{self.fields.place(name)}: {error}", where))
        return values, problems

    def _ask(self, values: dict[str, Any], where: str) -> list[Problem]:
        """Make the question a user message, unless the messages end with it already."""
        question = values.pop("question", None)
        if question is None:
            return []
        messages: Sequence[Message] = values.get("messages", ())
        if not messages:
            values["messages"] = (Message("user", question),)
        elif question != next((message.content for message in reversed(messages) if message.role == "user"), None):
            hint = f"say which counts: dataset.{self.dataset}.fields={{messages: messages}}, or {{question: question}}"
            return [Problem("question is not the last user message of messages", where, hint)]
        return []

    def _order(self, values: Mapping[str, Any], where: str) -> list[Problem]:
        """What is wrong with the order of the conversation's turns."""
        name = f"case {values['id']!r}" if "id" in values else "the case"
        hint = f"repair the conversation, or let it pass: dataset.{self.dataset}.allow_irregular=true"
        messages = values.get("messages")
        empty = ["there is no message in it"] if messages == () else []
        return [
            Problem(f"{name}: {self.fields.place('messages')}: {what}", where, hint)
            for what in (*empty, *(f"message {number} {what}" for number, what in irregular(messages or ())))
        ]


def content_id(content: object) -> str:
    """An id that equal JSON contents share: 16 hexadecimal digits of a SHA-256 over their canonical text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]

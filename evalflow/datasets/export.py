"""A case as a plain row, the way back from `read`."""

from __future__ import annotations

from typing import Any

from evalflow.records import Case, Context, Message


def case_to_row(case: Case) -> dict[str, Any]:
    """The case under its fields' own names, so that `read` gives an equal case without any `fields`.

    Absent fields are left out, and so are dataset and index, which the reader sets.
    """
    row = {
        "id": case.id,
        "messages": [_message(message) for message in case.messages] or None,
        "answer": case.answer,
        "reference": case.reference,
        "contexts": None if case.contexts is None else [_context(context) for context in case.contexts],
        "expected": case.expected,
        "actual": case.actual,
        "metadata": case.metadata,
        "failure": case.failure,
        "demo_answer": case.demo_answer and _message(case.demo_answer),
        "checks": None if case.checks is None else list(case.checks),
        "tags": list(case.tags) or None,
        "group": case.group,
        "labels": case.labels,
        "vars": case.vars or None,
    }
    return {field: value for field, value in row.items() if value is not None}


def _message(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    return row if message.metadata is None else {**row, "metadata": message.metadata}


def _context(context: Context) -> dict[str, str]:
    row = {"text": context.text, "title": context.title, "path": context.path}
    return {key: value for key, value in row.items() if value is not None}

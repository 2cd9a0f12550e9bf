"""The columns of a file, and which case field each of them is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from evalflow.app.workspace.uploads import Column
from evalflow.web.pages.datasets.case_rows import clipped
from evalflow.web.pages.parts import text

NAMES = {
    "question": "Question",
    "messages": "Conversation",
    "reference": "Expected answer",
    "answer": "Recorded answer",
    "contexts": "Context",
    "tags": "Tags",
    "group": "Group",
    "id": "Id",
    "expected": "Expected label",
    "actual": "Recorded label",
    "metadata": "Metadata",
    "checks": "Checks",
    "labels": "People's labels",
    "demo_answer": "Example answer",
    "failure": "Why it has no answer",
    "vars": "Additional inputs, as an object",
}
_OTHER = "Additional input"
_RIVALS = {"question": "messages", "messages": "question"}
"""Either makes the conversation: who names one leaves the other."""


class Mapping:
    """A row for each column: its name, what stands in it, and what it is.

    Args:
        columns: Of the file.
        on_change: After something else was chosen.
    """

    def __init__(self, columns: Sequence[Column], on_change: Callable[[], Any]) -> None:
        self._picks: dict[str, ui.select] = {}
        with ui.element("div").classes("mapping"):
            for column in columns:
                self._row(column, on_change)

    def read(self) -> dict[str, str] | None:
        """Case field to column; None where that cannot be, which is shown beside the column."""
        fields: dict[str, str] = {}
        faults: dict[str, str] = {}
        for column, picked in self._picks.items():
            field = picked.value
            if field and field in fields:
                faults[column] = f"{fields[field]} is that already"
            elif field:
                fields[field] = column
        for column, picked in self._picks.items():
            if column in NAMES and not picked.value and column not in fields and _RIVALS.get(column) not in fields:
                faults[column] = "a column of this name is that field; rename it in the file to make it another one"
        for column, picked in self._picks.items():
            picked.error = faults.get(column)
        return None if faults else fields

    def _row(self, column: Column, on_change: Callable[[], Any]) -> None:
        with ui.element("div").classes("mapped"):
            with ui.element("div"):
                text(column.name or "(no name)", classes="mono")
                text(clipped(column.example) or "(empty)", classes="small muted line")
            picked = ui.select({"": _OTHER, **NAMES}, value=column.field or "", on_change=on_change)
            picked.props("outlined dense")
            picked.props["aria-label"] = f"What {column.name} is"
        self._picks[column.name] = picked

"""One case to try a metric on: written here, or taken from a dataset and changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.examples import example_rows
from evalflow.web.pages.faults import attempt
from evalflow.web.pages.forms import About, area, pick, written

Row = Mapping[str, Any]
_FIELDS = MappingProxyType(
    {
        "question": About("Question", "What the bot is asked, as a user would put it.", "What does the licence cost?"),
        "answer": About(
            "Answer", "What the bot said; leave it empty to have the bot asked now.", "It costs 40 pounds a year."
        ),
        "reference": About(
            "Expected answer",
            "What you would have liked to read.",
            "40 pounds a year",
        ),
        "contexts": About(
            "Context",
            "What the answer should rest on, one passage in each line.",
            "The licence costs 40 pounds a year.",
        ),
        "inputs": About(
            "Further values", "Additional inputs of the metric as name: value, one in each line.", "audience: children"
        ),
    }
)


class CaseFields:
    """The fields of a case, in `fields` by the names that faults give.

    Args:
        workspace: The door to what is stored.
        datasets: Names of those that a case can be taken from.
    """

    def __init__(self, workspace: Workspace, datasets: Sequence[str]) -> None:
        self._workspace = workspace
        self._base: Row = {}
        self._rows: list[Row] = []
        with ui.element("div").classes("pair"):
            known = {"": "written here", **{name: name for name in datasets}}
            about = About(
                "Take a case from",
                "Any of your test cases or of the examples, such as rag; or write one here.",
                required=True,
            )
            pick(about, known, "").on_value_change(lambda event: self._open(str(event.value or "")))
            about = About("Case", "One of the first twenty, by its question; can be changed below.")
            self._picked = pick(about, {"": ""}, "")
            self._picked.on_value_change(lambda event: self._take(str(event.value or "")))
        self.fields: dict[str, ui.textarea] = {}
        with ui.element("div").classes("pair"):
            for key, about in _FIELDS.items():
                self.fields[key] = area(about)

    async def _open(self, dataset: str) -> None:
        rows = await attempt(lambda: example_rows(self._workspace, dataset)) if dataset else []
        self._rows = rows or []
        titles = {str(number): _title(row) for number, row in enumerate(self._rows)}
        self._picked.set_options({"": "", **titles}, value="0" if titles else "")  # pyright: ignore - partly untyped

    def _take(self, number: str) -> None:
        row: Row = self._rows[int(number)] if number else {}
        self._base = row
        self.fields["question"].value = _question(row)
        for key in ("answer", "reference"):
            self.fields[key].value = row.get(key) or ""
        self.fields["contexts"].value = "\n".join(_passages(row))
        self.fields["inputs"].value = "\n".join(f"{name}: {as_text(value)}" for name, value in _vars(row).items())

    def read(self) -> dict[str, Any]:
        """The case: what was taken, with what was changed since."""
        row = dict(self._base)
        asked = written(self.fields["question"])
        if asked != (_question(row).strip() or None):
            row.pop("messages", None)
        if asked is not None and "messages" not in row:
            row["question"] = asked
        for key in ("answer", "reference"):
            row[key] = written(self.fields[key])
        passages = [line.strip() for line in (written(self.fields["contexts"]) or "").splitlines() if line.strip()]
        if passages != _passages(row):
            row["contexts"] = passages
        row["vars"] = {**_vars(row), **self._inputs(_vars(row))}
        return {key: value for key, value in row.items() if value not in (None, {})}

    def _inputs(self, there: Mapping[str, Any]) -> dict[str, Any]:
        lines = (line.partition(":") for line in (written(self.fields["inputs"]) or "").splitlines())
        said = {name.strip(): value.strip() for name, colon, value in lines if colon and name.strip()}
        return {name: value for name, value in said.items() if as_text(there.get(name)) != value}


def _question(row: Row) -> str:
    turns = cast("list[Row]", row.get("messages") or [])
    said = [str(turn["content"]) for turn in turns if turn["role"] == "user"]
    return said[-1] if said else str(row.get("question") or "")


def _title(row: Row) -> str:
    return (_question(row) or str(row.get("id", "")))[:120]


def _passages(row: Row) -> list[str]:
    """The contexts, each in one line."""
    contexts = cast("list[str | Row]", row.get("contexts") or [])
    texts = (one if isinstance(one, str) else str(one.get("text", "")) for one in contexts)
    return [" ".join(text.split()) for text in texts]


def _vars(row: Row) -> Row:
    return cast("Row", row.get("vars") or {})


def as_text(value: Any) -> str:
    """A text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

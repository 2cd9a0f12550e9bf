"""Composite fields: a title that becomes a name, and rows of names with values."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from evalflow.config.schema import IDENTIFIER
from evalflow.web.ui.parts import About, Field, button, line, text, written

_OTHERS = re.compile(r"[^a-z0-9]+")


class NameField:
    """A field that turns `Factual Accuracy` into `factual_accuracy`.

    The name is shown while one types, and replaces the title when the field loses focus.

    Args:
        example: A title, shown while the field is empty.
        value: To begin with.

    Attributes:
        field: The field itself, for faults.
    """

    def __init__(self, example: str, value: str = "") -> None:
        help = f"Any title, e.g. “{example}” (file name: {name_of(example)})."
        self.field = line(About("Name", help, example, required=True), value)
        self._preview = text("", classes="aside kept").props("aria-live=polite")
        self.field.on_value_change(self._show_name)
        self.field.on("blur", self._settle)

    def read(self) -> str:
        """The name, or the text itself if it makes no name."""
        said = written(self.field) or ""
        return name_of(said) or said

    def _show_name(self) -> None:
        name = self.read()
        self._preview.set_text(f"File name: {name}" if name != (written(self.field) or "") else "")

    def _settle(self) -> None:
        self.field.value = self.read()


def name_of(title: str) -> str:
    """Turn a title into a name: `Fees & refunds` becomes `fees_refunds`; a name stays as it is.

    Returns:
        An empty string if the title does not begin with a letter like a to z.
    """
    if IDENTIFIER.match(title):
        return title
    letters = unicodedata.normalize("NFKD", title.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    name = _OTHERS.sub("_", plain).strip("_")
    return name if IDENTIFIER.match(name) else ""


class Pairs:
    """Any number of rows with a name and a value.

    Args:
        legend: What they are.
        help: One sentence on what belongs there.
        example: A name and a value.
        values: To begin with.
    """

    def __init__(self, legend: str, help: str, example: tuple[str, str], values: Mapping[str, Any]) -> None:
        self._example = example
        self._pairs: list[tuple[ui.element, Field, Field]] = []
        with ui.element("fieldset").classes("field"):
            text(legend, "legend", "label")
            text(help, classes="help")
            self._rows = ui.element("div").classes("stack pairs")
            for name, value in values.items():
                self._add(name, as_text(value))
            with ui.element("div").classes("actions"):
                button("Add one", lambda: self._add("", "").run_method("focus"), icon="add")

    def read(self) -> dict[str, Any] | None:
        """The values by name; None if a name is missing or used twice, which is shown at the field."""
        found: dict[str, Any] = {}
        wrong = False
        for _, named, valued in self._pairs:
            name, said = (named.value or "").strip(), valued.value or ""
            named.error = None
            if not name and not said.strip():
                continue
            if not name or name in found:
                named.error = "is used twice" if name else "is required"
                wrong = True
            found[name] = as_value(said)
        return None if wrong else found

    def _add(self, name: str, value: str) -> Field:
        with self._rows, ui.element("div").classes("pair-row") as row:
            named = line(About("Name", "The name used in prompts.", self._example[0], required=True), name)
            valued = line(About("Value", "A text, a number, or JSON.", self._example[1], required=True), value)
            pair = (row, named, valued)
            remove = button("", lambda: self._remove(pair), kind="quiet", icon="close")
            remove.props('aria-label="Remove this one"')
        self._pairs.append(pair)
        return named

    def _remove(self, pair: tuple[ui.element, Field, Field]) -> None:
        self._pairs.remove(pair)
        pair[0].delete()


def as_text(value: Any) -> str:
    """A JSON value for a field; text is quoted only if it would be read as something else."""
    if isinstance(value, str) and as_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def as_value(said: str) -> Any:
    """Parse a field as JSON if it is JSON, else as text."""
    from pydantic_core import from_json

    try:
        value = from_json(said, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # 1e999 would be infinite
    except ValueError:
        return said
    return value

"""The fields of a case's expected answer, and of others that are right too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import button
from evalflow.records import texts_of

_FIRST = forms.About("Expected answer", "The ideal answer, for metrics.", "It costs 40 pounds a year.")
_OTHER = forms.About("Also right", "Any one of them is enough.", "40 pounds")


class ReferenceFields:
    """One text, or several; empty ones do not count."""

    def __init__(self, given: str | Sequence[str] | None, on_change: Callable[[], object]) -> None:
        first, *others = texts_of(given) or ("",)
        self._on_change = on_change
        self._others: list[forms.Field] = []
        with ui.element("div").classes("stack"):
            self.first = forms.area(_FIRST, first)
            self._rows = ui.element("div").classes("stack pieces")
            for text in others:
                self._add(text)
            with ui.element("div").classes("actions"):
                button("Another right answer", lambda: self._add("").run_method("focus"), kind="quiet", icon="add")

    def read(self) -> str | list[str] | None:
        """The text, a list of several, or None."""
        texts = [text for field in (self.first, *self._others) if (text := str(field.value or "")).strip()]
        return texts if len(texts) > 1 else next(iter(texts), None)

    def _add(self, text: str) -> forms.Field:
        with self._rows, ui.element("div").classes("piece card") as row:
            field = forms.area(_OTHER, text)
            field.on_value_change(lambda _: self._on_change())
            with ui.element("div").classes("actions"):
                button("Remove", partial(self._remove, row, field), kind="quiet", icon="close")
        self._others.append(field)
        return field

    def _remove(self, row: ui.element, field: forms.Field) -> None:
        self._others.remove(field)
        row.delete()
        self._on_change()

"""The drawing of a decision graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from evalflow.report.graphs import drawing_of
from evalflow.web.ui.parts import text


class GraphDrawing:
    """Draws the graph of a metric of kind `graph`; nothing for another kind, and while the graph has a mistake."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._place = ui.element("figure").classes("graph")
        self.show(definition)

    def show(self, definition: Mapping[str, Any]) -> None:
        """Draw another definition instead."""
        lines = drawing_of(definition)
        self._place.clear()
        self._place.set_visibility(bool(lines))
        if lines:
            with self._place:
                text("The way of a case", "figcaption", "label")
                text("\n".join(lines), "pre", "card code-block").props("tabindex=0")

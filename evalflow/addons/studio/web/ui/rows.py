"""Any number of rows of fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from nicegui import ui

from evalflow.addons.studio.web.ui.parts import button, icon_button
from evalflow.addons.studio.web.ui.visitor import may


class _Row(Protocol):
    def read(self) -> Any: ...


RowType = TypeVar("RowType", bound=_Row)


class RowList(Generic[RowType]):
    """Rows of fields that can be added and removed; each time all are rebuilt.

    `build` gets the number of a row and its values. `new` are the values of an added row; None: rows cannot be added.
    `foot` replaces the remove button below each row. `classes` are a row's CSS classes; `place` is the container of
    all rows.
    """

    def __init__(
        self,
        build: Callable[[int, Any], RowType],
        new: Any,
        noun: str,
        on_change: Callable[[], object],
        *,
        classes: str = "rule-row",
        place: str = "stack",
        foot: Callable[[int], None] | None = None,
    ) -> None:
        self._build, self._new, self._noun, self._on_change = build, new, noun, on_change
        self._classes, self._foot = classes, foot or self._remove_button
        self.rows: list[RowType] = []
        self._place = ui.element("div").classes(place)

    def read(self) -> list[Any]:
        """The current values of all rows."""
        return [row.read() for row in self.rows]

    def show(self, rows: Sequence[Any]) -> None:
        """Build rows with these values."""
        self._place.clear()
        self.rows.clear()
        with self._place:
            for number, row in enumerate(rows):
                with ui.element("div").classes(self._classes):
                    self.rows.append(self._build(number, row))
                    if may("edit") and (len(rows) > 1 or self._foot != self._remove_button):
                        self._foot(number)
            if may("edit") and self._new is not None:
                button(f"Add a {self._noun}", lambda: self.change([*self.read(), self._new]), kind="quiet", icon="add")

    def change(self, rows: Sequence[Any]) -> None:
        """Show other values, and report the change."""
        self.show(rows)
        self._on_change()

    def remove(self, number: int) -> None:
        """Remove a row."""
        self.change([row for place, row in enumerate(self.read()) if place != number])

    def move(self, number: int, step: int) -> None:
        """Move a row up or down."""
        rows = self.read()
        if 0 <= number + step < len(rows):
            rows.insert(number + step, rows.pop(number))
            self.change(rows)

    def _remove_button(self, number: int) -> None:
        icon_button("close", f"Remove {self._noun} {number + 1}", partial(self.remove, number))

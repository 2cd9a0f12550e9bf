"""The field in which people name something as they like, and the identifier that is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from nicegui import ui

from evalflow.app.studio.titles import name_for
from evalflow.errors import Problem, UserError
from evalflow.web.ui.forms import REQUIRED, About, Field, empty, line, written
from evalflow.web.ui.parts import text

_IDENTIFIER = About(
    "Identifier",
    "In addresses, files and tables: lower-case letters, digits and _. It cannot change later.",
    "support_bot",
    required=True,
    code=True,
)


class TitleField:
    """A field for a title in any script.

    The name of something new is shown below it during typing, and can be changed there; later it stays as it is.

    Attributes:
        fields: By the keys of problems.
    """

    def __init__(self, what: str, example: str, taken: Collection[str] = (), title: str = "", name: str = "") -> None:
        """Build the field; `name`: of what is stored already. A new one gets none of `taken`."""
        self._what, self._taken, self._name = what, taken, name
        self._field = line(About("Name", "As you like, in any language.", example, required=True), title)
        self.fields: dict[str, Field] = {f"{what}.title": self._field}
        self._own: Field | None = None
        if name:
            text(f"Identifier: {name}", classes="aside")
            return
        with ui.expansion("Identifier: from the name").classes("identifier") as self._fold:
            self._own = self.fields[f"{what}.name"] = line(_IDENTIFIER)
        self._derived = ""
        self._own.on_value_change(self._show)
        self._field.on_value_change(self._derive)
        self._derive()

    def on_change(self, changed: Callable[[], object]) -> None:
        """Call a function when the title changes."""
        self._field.on_value_change(lambda _: changed())

    @property
    def title(self) -> str:
        """What is typed."""
        return written(self._field) or ""

    @property
    def name(self) -> str:
        """The name; empty while nothing is typed."""
        return self._name if self._own is None else written(self._own) or ""

    def read(self, form: Mapping[str, Field]) -> tuple[str, str]:
        """Name and title; UserError if one is missing, which names all required fields of the form without a value."""
        if self.title and self.name:
            return self.name, self.title
        derived = () if self.title else (f"{self._what}.name",)
        raise UserError([Problem(REQUIRED, key=key) for key in empty(form) if key not in derived])

    def _derive(self) -> None:
        """Follow the title, unless another name was written."""
        if self._own and self.name in ("", self._derived):
            self._derived = name_for(self.title, self._taken, self._what) if self.title else ""
            self._own.value = self._derived

    def _show(self) -> None:
        self._fold.set_text(f"Identifier: {self.name or 'from the name'}")

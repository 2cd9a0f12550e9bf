"""Fields for names and tags: a title, with the identifier derived from it, and tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.forms import REQUIRED, About, Field, empty, line, written
from evalflow.addons.studio.web.ui.parts import button, text
from evalflow.addons.studio.work.tags import similar_tag
from evalflow.addons.studio.work.titles import name_for
from evalflow.datasets import tag_name
from evalflow.errors import Problem, UserError

_IDENTIFIER = About(
    "Identifier",
    "In addresses, files and tables: lower-case letters, digits and _. It cannot change later.",
    "support_bot",
    required=True,
    code=True,
)


class TitleField:
    """A field for a title in any script.

    For a new object the identifier is shown below during typing and can be changed; later it is fixed.

    Attributes:
        fields: By the keys of problems.
    """

    def __init__(self, what: str, example: str, taken: Collection[str] = (), title: str = "", name: str = "") -> None:
        """Build the field. `name` is the stored object's name; a new one gets a name that is not in `taken`."""
        self._what, self._taken, self._name = what, taken, name
        self._field = line(About("Name", "As you like, in any language.", example, required=True), title)
        self.fields: dict[str, Field] = {f"{what}.title": self._field}
        self._own: Field | None = None
        if name:
            with ui.element("div").classes("aside"):
                text("Identifier: ", "span")
                text(name, "code")
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

    def keep(self) -> None:
        """Fix the identifier of a new object that was saved, if its page stays."""
        if self._own is not None:
            forms.lock(self._fold)
            self._name, self._own = self.name, None

    def read(self, form: Mapping[str, Field]) -> tuple[str, str]:
        """Name and title; UserError if one is missing, which names all required fields of the form without a value."""
        if self.title and self.name:
            return self.name, self.title
        derived = () if self.title else (f"{self._what}.name",)
        raise UserError([Problem(REQUIRED, key=key) for key in empty(form) if key not in derived])

    def _derive(self) -> None:
        """Derive the name from the title, unless another was typed."""
        if self._own and self.name in ("", self._derived):
            self._derived = name_for(self.title, self._taken, self._what) if self.title else ""
            self._own.value = self._derived

    def _show(self) -> None:
        self._fold.set_text(f"Identifier: {self.name or 'from the name'}")


TagCounts = Sequence[tuple[str, int]]
"""Tags, with how many cases or answers have each."""


def tag_options(tags: TagCounts) -> dict[str, str]:
    """The options of a filter by tag."""
    return {"": "All tags", **{tag: f"{tag} ({number:,})" for tag, number in tags}}


def offer_tags(field: ui.select, tags: TagCounts) -> None:
    """Let a filter by tag offer these; its choice stays if it is among them."""
    options = tag_options(tags)
    field.set_options(options, value=field.value if field.value in options else "")  # pyright: ignore - untyped in NiceGUI


_TAGS = forms.About("Tags", "Choose, or type and press Enter. Sub-tags with >: User Issues > Hallucination.")


_ADDS = "(tag, done) => { done(); emit(tag); }"


class TagField:
    """A field of tags. `known` are those of the project, which are suggested."""

    def __init__(
        self, tags: Sequence[str], known: Sequence[str], on_change: Callable[[], object] = lambda: None
    ) -> None:
        self._known, self._on_change, self._before = list(known), on_change, list(tags)
        self._options = sorted({*known, *tags})

        def make() -> ui.select:
            return ui.select(self._options, value=list(tags), multiple=True, with_input=True)

        self.field = forms.labelled(_TAGS, make).props("use-chips hide-dropdown-icon input-debounce=0")
        self._hint = ui.element("div").props("aria-live=polite")
        self.field.on_value_change(lambda _: self._changed())
        # Each typed tag is sent alone. NiceGUI's own way sends all that the browser knows of, and so loses the first
        # of two that are typed before the server has answered.
        self.field.on("new-value", lambda event: self._add(event.args), js_handler=_ADDS)

    def read(self) -> list[str]:
        """The tags in their normal form."""
        given = cast("list[Any]", self.field.value or [])
        return list(dict.fromkeys(name for tag in given if (name := tag_name(str(tag)))))

    def _add(self, tag: str) -> None:
        if tag not in self._options:
            self._options.append(tag)
            self.field.update()
        self.field.value = list(dict.fromkeys([*self.field.value, tag]))

    def _changed(self) -> None:
        self._on_change()
        self.field.run_method("hidePopup")  # it would cover the content below
        self._hint.clear()
        for tag in self.read():
            near = similar_tag(tag, self._known) if tag not in self._before else ""
            if near:
                with self._hint, ui.element("div").classes("actions"):
                    text(f"{tag}: did you mean “{near}”?", "span", "small")
                    button(f"Use {near}", partial(self._use, tag, near), kind="quiet")

    def _use(self, tag: str, near: str) -> None:
        self.field.value = list(dict.fromkeys(near if one == tag else one for one in self.read()))

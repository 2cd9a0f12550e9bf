"""Tags as chips, with suggestions and one spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from nicegui import ui

from evalflow.app.studio.tags import similar_tag
from evalflow.datasets import tag_name
from evalflow.web.ui import forms
from evalflow.web.ui.parts import button, text

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
        self.field.run_method("hidePopup")  # it would cover what is below
        self._hint.clear()
        for tag in self.read():
            near = similar_tag(tag, self._known) if tag not in self._before else ""
            if near:
                with self._hint, ui.element("div").classes("actions"):
                    text(f"{tag}: did you mean “{near}”?", "span", "small")
                    button(f"Use {near}", partial(self._use, tag, near), kind="quiet")

    def _use(self, tag: str, near: str) -> None:
        self.field.value = list(dict.fromkeys(near if one == tag else one for one in self.read()))

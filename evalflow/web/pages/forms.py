"""Fields of a form: a label, one line of help, the field with an example in it, and its error below."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from evalflow.web.pages.parts import text

Field = ValidationElement[Any]
F = TypeVar("F", bound=Field)


@dataclass(frozen=True, slots=True)
class About:
    """What stands around a field.

    Attributes:
        label: What it is called.
        help: One sentence on what belongs there.
        example: Shown in the field while it is empty.
        required: Whether it must be filled in.
        code: Whether it is set in the typeface of code.
    """

    label: str
    help: str = ""
    example: str = ""
    required: bool = False
    code: bool = False


def line(about: About, value: str | None = None) -> ui.input:
    """A field of one line."""
    return _placed(about, lambda: ui.input(value=value or "", placeholder=about.example))


def area(about: About, value: str | None = None) -> ui.textarea:
    """A field of several lines, which grows with what is written."""
    made = _placed(about, lambda: ui.textarea(value=value or "", placeholder=about.example))
    return made.props("autogrow")


def number(about: About, value: float | None = None) -> ui.number:
    """A field for a number; empty is None.

    It has no bounds: NiceGUI would change a number beyond them without a word, and who keeps it refuses it with one.
    """
    return _placed(about, lambda: ui.number(value=value, placeholder=about.example))


def pick(about: About, options: Mapping[str, str] | Sequence[str], value: str | None) -> ui.select:
    """One of a list."""
    known = dict(options) if isinstance(options, Mapping) else list(options)
    return _placed(about, lambda: ui.select(known, value=value))


def several(about: About, options: Mapping[str, str], chosen: Sequence[str], *, searched: bool = False) -> ui.select:
    """Any of a list; a long one is searched by typing."""
    make = lambda: ui.select(dict(options), value=list(chosen), multiple=True, with_input=searched)  # noqa: E731
    made = _placed(about, make)
    return made.props("use-chips")


def tick(about: About, value: bool = False) -> ui.checkbox:
    """A yes or no, with what it means."""
    with ui.element("div").classes("field tick"):
        made = ui.checkbox(about.label, value=value).props("dense")
        made.props["aria-label"] = about.label
        if about.help:
            made.props["aria-describedby"] = text(about.help, classes="help").html_id
    return made


def written(field: Field) -> str | None:
    """What stands in a field of text, without spaces around it; None where nothing does."""
    return str(field.value or "").strip() or None


@contextmanager
def fieldset(legend: str, classes: str = "") -> Generator[None]:
    """Fields that belong together."""
    with ui.element("fieldset").classes(classes):
        text(legend, "legend")
        yield


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few ways, and what it means."""

    value: str
    name: str
    about: str
    icon: str


def choices(legend: str, ways: Sequence[Choice], value: str, on_change: Callable[[str], object]) -> None:
    """A few ways side by side, each said in a sentence, of which one is chosen."""
    with ui.element("fieldset").classes("field"):
        text(legend, "legend")
        with ui.element("div").classes("choices") as group:
            for way in ways:
                with ui.element("label").classes("choice"):
                    radio = ui.element("input").props(f'type=radio name="{group.html_id}" value="{way.value}"')
                    radio.props["checked"] = way.value == value
                    radio.on("change", lambda _, chosen=way.value: on_change(chosen), args=[])
                    with ui.element("span").classes("face"):
                        ui.icon(way.icon).props("aria-hidden=true")
                        text(way.name, "span", "name")
                        text(way.about, "span", "small muted")


def tie(label: ui.element, field: ui.element) -> None:
    """Have the label name the field."""
    # Quasar gives the id of a select to an element around its input, too, so that the input needs another one.
    target = f"{field.html_id}-input" if isinstance(field, ui.select) else field.html_id
    field.props["for"] = target
    label.props["for"] = target


def _placed(about: About, make: Callable[[], F]) -> F:
    with ui.element("div").classes("field"):
        label = ui.element("label").classes("label")
        with label:
            text(about.label, "span")
            if not about.required:
                text(" (optional)", "span", "optional")
        helped = text(about.help, classes="help") if about.help else None
        made = make()
    made.props("outlined dense")
    tie(label, made)
    if helped is not None:
        made.props["aria-describedby"] = helped.html_id
    if about.required:
        made.props["aria-required"] = "true"
    return made.classes("code") if about.code else made

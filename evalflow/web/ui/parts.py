"""Widgets of every page: text, links, buttons, badges, cards, messages, form fields and their errors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.elements.mixins.validation_element import ValidationElement

from evalflow.errors import EvalflowError, Problem, UserError

Tone = Literal["", "accent", "pass", "fail", "warn"]


def text(content: str, tag: str = "div", classes: str = "") -> TextElement:
    """An element with text, which is always escaped."""
    return TextElement(tag=tag, text=content).classes(classes)


def button(
    label: str,
    on_click: Callable[..., Any] | None = None,
    *,
    kind: Literal["", "primary", "quiet", "danger"] = "",
    icon: str | None = None,
) -> ui.button:
    """A button; a page has one that is `primary`."""
    made = ui.button(label, on_click=on_click, color=None, icon=icon)
    return made.props("unelevated no-caps :ripple=false").classes(f"button {kind}")


def link_button(label: str, path: str, *, primary: bool = False) -> ui.link:
    """A link that looks like a button; it changes nothing."""
    return ui.link(label, path).classes("button primary" if primary else "button")


def badge(content: str, tone: Tone = "") -> TextElement:
    """A word or two on what something is."""
    return text(content, "span", f"badge {tone}")


def card(title: str, path: str, about: str, badges: Sequence[tuple[str, Tone]]) -> ui.link:
    """A card of a list, which leads to the page of the thing."""
    with ui.link(target=path).classes("card") as made:
        text(title, "h3")
        if about:
            text(about, "p", "muted small clamp")
        with ui.element("div").classes("foot"):
            for label, tone in badges:
                badge(label, tone)
    return made


@contextmanager
def section(title: str, about: str = "") -> Generator[None]:
    """A part of a page with a heading of its own."""
    with ui.element("section").classes("section"):
        text(title, "h2")
        if about:
            text(about, "p", "muted")
        yield


def facts(entries: Sequence[tuple[str, str]]) -> None:
    """Names and values side by side; an empty value is left out."""
    with ui.element("dl").classes("facts"):
        for name, value in entries:
            if value:
                with ui.element("div"):
                    text(name, "dt")
                    text(value, "dd")


def message(what: str, hint: str = "", tone: Tone = "") -> None:
    """A box with information, a warning or an error, and what to do next."""
    icon = {"fail": "error_outline", "warn": "warning_amber"}.get(tone, "info")
    with ui.element("div").classes(f"message {tone}").props("role=alert" if tone == "fail" else "role=note"):
        ui.icon(icon).props("aria-hidden=true")
        with ui.element("div"):
            text(what, classes="text")
            if hint:
                text(hint, classes="hint text")


@contextmanager
def empty(icon: str, title: str, about: str) -> Generator[None]:
    """An empty state; the buttons for the next step are built within."""
    with ui.element("div").classes("empty"):
        ui.icon(icon).props("aria-hidden=true")
        text(title, "h2")
        text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            yield


def shape(tag: str, classes: str = "", **attributes: float | str) -> ui.element:
    """An element of SVG; an attribute's `_` stands for `-`."""
    made = ui.element(tag).classes(classes)
    for name, value in attributes.items():
        made.props[name.rstrip("_").replace("_", "-")] = value
    return made


def picture(about: str, classes: str = "") -> ui.element:
    """A picture; screen readers read `about`."""
    return shape("svg", classes, role="img", aria_label=about)


def caption(content: str, classes: str = "", **attributes: float | str) -> None:
    """A text within a picture."""
    made = text(content, "text", classes)
    for name, value in attributes.items():
        made.props[name.replace("_", "-")] = value


def percent(share: float) -> str:
    """A share of 0 (left) to 1 (right) as a CSS percentage."""
    return f"{100 * share:.3f}%"


Field = ValidationElement[Any]
F = TypeVar("F", bound=Field)


@dataclass(frozen=True, slots=True)
class About:
    """Label and help of a field.

    Attributes:
        label: The name of the field.
        help: One sentence on what belongs there.
        example: Shown in the field while it is empty.
        required: Whether it must be filled in.
        code: Whether the field has the font of code.
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


def number_field(about: About, value: float | None = None) -> ui.number:
    """A field for a number; empty is None.

    It has no bounds, because NiceGUI silently clips numbers; the workspace refuses them with an error.
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
    """The stripped text of a field; None if empty."""
    return str(field.value or "").strip() or None


@contextmanager
def fieldset(legend: str, classes: str = "") -> Generator[None]:
    """Fields that belong together."""
    with ui.element("fieldset").classes(classes):
        text(legend, "legend")
        yield


@dataclass(frozen=True, slots=True)
class FormOption:
    """An option of `choices`."""

    value: str
    name: str
    about: str
    icon: str


def choices(legend: str, ways: Sequence[FormOption], value: str, on_change: Callable[[str], object]) -> None:
    """Radio buttons side by side, each with a sentence."""
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
    """Connect a label with its field."""
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


T = TypeVar("T")


async def attempt(
    work: Callable[[], T], fields: Mapping[str, Field] | None = None, by: ui.button | None = None
) -> T | None:
    """Run work that may fail in a thread, and show its error.

    Args:
        work: May block.
        fields: By the key that a problem names; their earlier errors are cleared first.
        by: The button that was pressed; it shows a spinner.

    Returns:
        The result; None after an error.
    """
    known = fields or {}
    for field in known.values():
        field.error = None
    if by is not None:
        by.props("loading")
    try:
        return await to_thread.run_sync(work)
    except EvalflowError as error:
        show(error, known)
        return None
    finally:
        if by is not None:
            by.props(remove="loading")


def show(error: EvalflowError, fields: Mapping[str, Field]) -> None:
    """Show each problem at its field and focus the first; the others become notifications."""
    elsewhere, first = place(error, fields)
    for problem in elsewhere:
        tell_fault(str(problem))
    if first is not None:
        reveal(first)
        first.run_method("focus")


def reveal(element: ui.element) -> None:
    """Scroll to an element, and open the expansions around it."""
    for above in element.ancestors():
        if isinstance(above, ui.expansion):
            above.open()
    # Quasar's own focus does not scroll.
    ui.run_javascript(f"setTimeout(() => getHtmlElement({element.id})?.scrollIntoView({{block: 'center'}}), 50)")


def place(error: EvalflowError, fields: Mapping[str, Field]) -> tuple[list[Problem], Field | None]:
    """Show each problem at its field.

    Returns:
        The problems without a field, and the first field with one.
    """
    problems = error.problems if isinstance(error, UserError) else [Problem(str(error))]
    elsewhere: list[Problem] = []
    first: Field | None = None
    for problem in problems:
        field = _field_of(problem, fields)
        if field is None:
            elsewhere.append(problem)
        else:
            field.error = _beside(problem)
            first = first or field
    return elsewhere, first


def _beside(problem: Problem) -> str:
    """The text of a problem for a form, without its key and without hints for the command line."""
    what = problem.what.removeprefix(f"{problem.key}: ")
    if problem.key and what.startswith(f"{problem.key} "):
        what = f"this field {what.removeprefix(problem.key).strip()}"
    of_a_form = problem.hint and f"{problem.key}=" not in problem.hint
    return f"{capitalised(what)} ({problem.hint})" if of_a_form else capitalised(what)


def capitalised(sentence: str) -> str:
    """The sentence with a capital first letter; `str.capitalize` would lower the other letters."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def tell_fault(what: str) -> None:
    """A notification that stays until it is closed."""
    ui.notify(what, icon="error_outline", multi_line=True, timeout=0, close_button="Close", position="bottom-right")


def tell(what: str) -> None:
    """A notification that disappears by itself."""
    ui.notify(what, position="bottom-right", timeout=3500)


def _field_of(problem: Problem, fields: Mapping[str, Field]) -> Field | None:
    """The field whose key is the problem's key or a part of it; a file is found by its name."""
    place = problem.key or problem.where
    if place.rpartition("/")[2] in fields:
        return fields[place.rpartition("/")[2]]
    parts = place.split(".")
    for start in range(len(parts)):
        for end in range(len(parts), start, -1):
            if (key := ".".join(parts[start:end])) in fields:
                return fields[key]
    return None


def copyable(words: str, tag: str = "code") -> None:
    """A command line, or with the tag `pre` a longer text, with a button that copies it."""

    def copy() -> None:
        ui.clipboard.write(words)
        tell("Copied.")

    with ui.element("div").classes("command"):
        text(words, tag).props("tabindex=0")
        button("Copy", copy, icon="content_copy")

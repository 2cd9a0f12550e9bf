"""Forms: fields with label, help and errors, and composite fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.nicegui_core import TextElement, ValidationElement
from evalflow.addons.studio.web.ui.faults import Marked, clear_faults, reveal, show_faults
from evalflow.addons.studio.web.ui.parts import button, capitalised, icon_button, problems_of, text
from evalflow.addons.studio.web.ui.visitor import name_here, root_path
from evalflow.addons.studio.work.access import UnconfirmedError
from evalflow.addons.studio.work.space import StaleError
from evalflow.errors import EvalflowError, Problem, UserError

Field = ValidationElement[Any]
F = TypeVar("F", bound=Field)
T = TypeVar("T")
REQUIRED = "This field is required"
PASSKEY_S = 120.0
"""Time limit in seconds for a person's action at their device."""
_IS_REQUIRED = "data-required"
_KEYS = re.compile(r"\b(?:metric\.[a-z][a-z0-9_]*|target|judge)\.(?=[a-z])")
"""Prefixes of a configuration's key paths that a form does not show."""
_KEY_PATH = re.compile(r"[a-z_]+(?:[.\[][a-z0-9_\]]+)*\Z")
_LINE = re.compile(r"\.jinja:([0-9]+)\b")


@contextmanager
def unsaved(*, kept: bool = False) -> Generator[ui.element]:
    """A container for fields that warns before the page is left with unsaved changes; `kept` as in `keep_draft`."""
    with ui.element("div").props("data-unsaved") as made:
        if kept:
            keep_draft(made)
        yield made


def keep_draft(place: ui.element) -> None:
    """Keep what is typed there in the browser until it is saved; for fields that never hold a key or a password."""
    place.props["data-draft"] = name_here()


@contextmanager
def form(*, locked: bool = False, kept: bool = False) -> Generator[ui.element]:
    """Like `unsaved`, laid out as a form.

    A locked form is read-only: fields cannot be changed and buttons are hidden.
    """
    with unsaved(kept=kept and not locked) as made:
        yield made.classes("form")
    if locked:
        lock(made)


def lock(*forms: ui.element) -> None:
    """Make forms read-only."""
    for made in forms:
        made.classes("locked")
        for element in made.descendants():
            _lock(element)


def _lock(element: ui.element) -> None:
    if isinstance(element, ui.button):
        element.set_visibility(False)
    elif isinstance(element, ui.checkbox):
        element.disable()
    elif isinstance(element, ValidationElement):
        cast("Field", element).props("readonly")
    elif element.tag == "input":
        element.props("tabindex=-1 aria-disabled=true")  # Quasar would show the disabled state


def saved(only: ui.element | None = None) -> None:
    """Mark the forms of the page as saved, or only those in an element; the others keep their drafts."""
    ui.run_javascript(_saved(only))


def leave(path: str, only: ui.element | None = None) -> None:
    """Go to another page of the project, without a warning about unsaved changes of the forms that `saved` marks."""
    # A single script, because NiceGUI may send a navigation before an earlier script.
    ui.run_javascript(f"{_saved(only)}; location.assign({json.dumps(root_path() + path)})")


def _saved(only: ui.element | None) -> str:
    return f'document.dispatchEvent(new CustomEvent("saved", {json.dumps({"detail": only.html_id if only else ""})}))'


@contextmanager
def save_bar(page: ui.element, save: Callable[[], object]) -> Generator[None]:
    """A bar that stays in view: build the buttons inside, the one for `save` first. Ctrl+S saves, too."""
    with ui.element("div").classes("section actions save-bar"):
        yield
    for key in ("ctrl", "meta"):
        page.on(f"keydown.{key}.s.prevent", save, args=[])


@contextmanager
def fieldset(legend: str, classes: str = "") -> Generator[None]:
    """Fields that belong together."""
    with ui.element("fieldset").classes(classes):
        text(legend, "legend")
        yield


@contextmanager
def pair() -> Generator[None]:
    """Two fields side by side, if there is room."""
    with ui.element("div").classes("pair"):
        yield


@dataclass(frozen=True, slots=True)
class About:
    """Label and help of a field.

    Attributes:
        help: One sentence on what to enter.
        example: Shown in the field while it is empty.
    """

    label: str
    help: str = ""
    example: str = ""
    required: bool = False
    code: bool = False


def line(about: About, value: str | None = None) -> ui.input:
    """A field of one line."""
    return labelled(about, lambda: ui.input(value=value or "", placeholder=about.example))


def area(about: About, value: str | None = None) -> ui.textarea:
    """A field of several lines, which grows with its text."""
    return labelled(about, lambda: ui.textarea(value=value or "", placeholder=about.example)).props("autogrow")


class _NumberField(ui.number):
    """A number field into which the server never writes, since somebody may be typing in it again by then."""

    def sanitize(self) -> None:
        """Leave what was typed as it is, instead of writing it back when the field is left."""


def number_field(about: About, value: float | None = None) -> ui.number:
    """A field for a number; empty is None.

    It has no bounds, because NiceGUI silently clips numbers; instead, the workspace refuses them with an error.
    """
    return labelled(about, lambda: _NumberField(value=value, placeholder=about.example))


def pick(about: About, options: Mapping[str, str] | Sequence[str], value: str | None) -> ui.select:
    """A field to choose one of a list."""
    known = dict(options) if isinstance(options, Mapping) else list(options)
    return labelled(about, lambda: ui.select(known, value=value))


def several(about: About, options: Mapping[str, str], chosen: Sequence[str], *, searched: bool = False) -> ui.select:
    """A field to choose any number of a list; `searched` adds a search for long lists."""

    def make() -> ui.select:
        return ui.select(dict(options), value=list(chosen), multiple=True, with_input=searched)

    return labelled(about, make).props("use-chips")


def tick(about: About, value: bool = False) -> ui.checkbox:
    """A checkbox with label and help."""
    with ui.element("div").classes("field tick"):
        made = ui.checkbox(about.label, value=value).props("dense")
        made.props["aria-label"] = about.label
        if about.help:
            made.props["aria-describedby"] = text(about.help, classes="help").html_id
    return made


def labelled(about: About, make: Callable[[], F]) -> F:
    """A field with its label and help."""
    with ui.element("div").classes("field"):
        label = ui.element("label").classes("label")
        with label:
            text(about.label, "span")
            if not about.required:
                text(" (optional)", "span", "optional")
        help = text(about.help, classes="help") if about.help else None
        made = make()
    # An error stays until the next attempt: if it vanished during typing, the button below would move.
    made.props("outlined dense")
    made.without_auto_validation()
    if about.required:
        made.props[_IS_REQUIRED] = "true"
    tie(label, made)
    if help is not None:
        made.props["aria-describedby"] = help.html_id
    if about.required and not isinstance(made, ui.select):  # Quasar would put it on an element without a role
        made.props["aria-required"] = "true"
    return made.classes("code") if about.code else made


def tie(label: ui.element, field: ui.element) -> None:
    """Connect a label with its field."""
    # Quasar also gives the id of a select to an element around its input, so the input needs another id.
    target = f"{field.html_id}-input" if isinstance(field, ui.select) else field.html_id
    field.props["for"] = target
    label.props["for"] = target


@dataclass(frozen=True, slots=True)
class FormOption:
    """An option of `choices`."""

    value: str
    name: str
    about: str
    icon: str


def choices(legend: str, options: Sequence[FormOption], value: str, on_change: Callable[[str], object]) -> None:
    """Radio buttons side by side, each with a sentence."""
    with ui.element("fieldset").classes("field"):
        text(legend, "legend")
        with ui.element("div").classes("choices") as group:
            for option in options:
                with ui.element("label").classes("choice"):
                    radio = ui.element("input").props(f'type=radio name="{group.html_id}" value="{option.value}"')
                    radio.props["checked"] = option.value == value
                    radio.on("change", lambda _, chosen=option.value: on_change(chosen), args=[])
                    with ui.element("span").classes("face"):
                        ui.icon(option.icon).props("aria-hidden=true")
                        text(option.name, "span", "name")
                        text(option.about, "span", "small muted")


def written(field: Field) -> str | None:
    """The stripped text of a field; None if empty."""
    return None if field.value is None else str(field.value).strip() or None


def number_of(field: Field) -> float | None:
    """The number in a field, as an int if it is whole; None if empty."""
    value: Any = field.value
    return int(value) if value is not None and value == int(value) else value


def lines_of(field: Field) -> list[str]:
    """The stripped lines of a field that are not empty."""
    return [stripped for line in str(field.value or "").splitlines() if (stripped := line.strip())]


def required(field: Field) -> str | None:
    """The stripped text of a field; if it is empty, the field says so and is focused."""
    with faults_shown({"field": field}):
        return all_required({"field": field})["field"]
    return None


def all_required(fields: Mapping[str, Field]) -> dict[str, str]:
    """The stripped texts of fields by key; UserError names all that are empty, for `faults_shown`."""
    values = {key: written(field) for key, field in fields.items()}
    missing = [Problem(REQUIRED, key=key) for key, value in values.items() if value is None]
    if missing:
        raise UserError(missing)
    return {key: value for key, value in values.items() if value is not None}


def empty(fields: Mapping[str, Field]) -> list[str]:
    """The keys of the required fields without a value, each field once."""
    missing: dict[Field, str] = {}
    for key, field in fields.items():
        if _IS_REQUIRED in field.props and (written(field) is None or field.value == []):
            missing.setdefault(field, key)
    return list(missing.values())


@contextmanager
def faults_shown(fields: Mapping[str, Field] | None = None, by: ui.button | None = None) -> Generator[None]:
    """Catch and show an error raised in the block; the pressed button spins while the block runs.

    `fields`, by the key that a problem names, lose their earlier errors first.
    """
    known = fields or {}
    for field in known.values():
        field.error = None
    clear_faults()
    if by is not None:
        by.props("loading")
    try:
        yield
    except EvalflowError as error:
        show(error, known)
    finally:
        if by is not None:
            by.props(remove="loading")


async def attempt(
    work: Callable[[], T], fields: Mapping[str, Field] | None = None, by: ui.button | None = None
) -> T | None:
    """Run work that may block or fail in a thread; None after an error, which is shown as in `faults_shown`."""
    with faults_shown(fields, by):
        try:
            return await to_thread.run_sync(work)
        except UnconfirmedError as error:
            fault = await _passkey_fault("confirm")
            if fault:
                raise UnconfirmedError(fault) from error
            return await to_thread.run_sync(work)
    return None


async def used_passkey(purpose: Literal["add", "confirm"]) -> bool:
    """Use a passkey on the visitor's device; returns whether it worked. Errors are shown."""
    with faults_shown():
        fault = await _passkey_fault(purpose)
        if fault:
            raise UserError(Problem(fault))
        return True
    return False


async def _passkey_fault(purpose: str) -> str:
    """The device's error message; "" if there was no error."""
    try:
        asked: Any = ui.run_javascript(f"return await passkeyFault({json.dumps(purpose)})", timeout=PASSKEY_S)
        return str(await asked)
    except TimeoutError:
        return "The passkey was not used. Try again."


async def succeeds(
    work: Callable[[], object], fields: Mapping[str, Field] | None = None, by: ui.button | None = None
) -> bool:
    """Like `attempt`, for work without a result: whether it raised no error."""
    return await attempt(lambda: (work(),), fields, by) is not None


def show(error: EvalflowError, fields: Mapping[str, Field]) -> None:
    """Show each problem at its field and focus the first.

    Problems without a field, or with links, go into a summary.
    """
    elsewhere, first = place(error, fields)
    if elsewhere:
        wrong = [field for field in fields.values() if field.error]
        marked = [Marked(_label_of(field), partial(focus, field)) for field in dict.fromkeys(wrong)]
        show_faults([in_words(problem) for problem in elsewhere], marked, reload=isinstance(error, StaleError))
    elif first is not None:
        focus(first)


def focus(field: Field) -> None:
    """Show a field and focus it."""
    reveal(field)
    field.run_method("focus")


def _label_of(field: Field) -> str:
    """The label of a field, without "optional"."""
    assert field.parent_slot is not None
    texts = (one for one in field.parent_slot.parent.descendants() if isinstance(one, TextElement))
    return next((one.text for one in texts), "")


def place(error: EvalflowError, fields: Mapping[str, Field]) -> tuple[list[Problem], Field | None]:
    """Show each problem at its field.

    Returns the problems without a field or with links, and the topmost wrong field. For a problem with links the field
    is only marked. A field with the key "" holds a whole definition: it shows problems of all other keys, with the key.
    """
    elsewhere: list[Problem] = []
    wrong: list[Field] = []
    for problem in problems_of(error):
        field = _field_of(problem, fields)
        if field is None or problem.see:
            elsewhere.append(problem)
        if field is not None and problem.see:
            field.error = field.error or ""
            wrong.append(field)
        elif field is not None:
            shown = REQUIRED if _IS_REQUIRED in field.props and not written(field) else at_field(problem)
            if field is fields.get("") and problem.what.startswith(f"{problem.key}: "):
                shown = f"{'.'.join(problem.key.split('.')[2:])}: {shown[0].lower()}{shown[1:]}"
            field.error = f"{field.error}\n{shown}" if field.error and shown != field.error else shown
            wrong.append(field)
    return elsewhere, next((field for field in fields.values() if field in wrong), None)


def at_field(problem: Problem) -> str:
    """The text of a problem with its hint, to show below a field."""
    message, hint = _of_a_form(problem)
    if line := _LINE.search(problem.where):
        message = f"Line {line[1]}: {message[0].lower()}{message[1:]}"
    return f"{message} ({hint})" if hint else message


def _of_a_form(problem: Problem) -> tuple[str, str]:
    """A problem's text for a form, without its key, and its hint, unless that is for the command line."""
    what = problem.what.removeprefix(f"{problem.key}: ")
    for name in (problem.key, (problem.key or problem.where).rpartition(".")[2]):
        if name and what.startswith(f"{name} "):
            what = f"this field {what.removeprefix(name).strip()}"
    if what.startswith("is "):
        what = f"this field {what}"
    is_of_a_form = not problem.key or f"{problem.key}=" not in problem.hint
    return capitalised(_KEYS.sub("", what)), problem.hint if is_of_a_form else ""


def in_words(problem: Problem) -> Problem:
    """A problem without a field, worded for a form; its place is kept only if it is a file or a row."""
    is_place = problem.where not in ("configuration", "command line") and not _KEY_PATH.match(problem.where)
    message, hint = _of_a_form(problem)
    return replace(problem, what=message, hint=hint, where=problem.where if is_place else "")


def _field_of(problem: Problem, fields: Mapping[str, Field]) -> Field | None:
    """The field whose key is the problem's key or a part of it; files are matched by name."""
    key = problem.key or problem.where
    if not key:
        return None
    if key.rpartition("/")[2] in fields:
        return fields[key.rpartition("/")[2]]
    parts = key.split(".")
    for start in range(len(parts)):
        for end in range(len(parts), start, -1):
            if (part := ".".join(parts[start:end])) in fields:
                return fields[part]
    return fields.get("")


class Pairs:
    """Any number of rows with a name and a value. `example`: a name and a value."""

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
        """The values by name; None if a name is missing or used twice (the error is shown at the field)."""
        values: dict[str, Any] = {}
        is_wrong = False
        for _, name_field, value_field in self._pairs:
            name, value = (name_field.value or "").strip(), value_field.value or ""
            name_field.error = None
            if not name and not value.strip():
                continue
            if not name or name in values:
                name_field.error = "This name is used twice" if name else REQUIRED
                is_wrong = True
            values[name] = as_value(value)
        return None if is_wrong else values

    def _add(self, name: str, value: str) -> Field:
        with self._rows, ui.element("div").classes("pair-row") as row:
            name_field = line(About("Name", "The name used in prompts.", self._example[0], required=True), name)
            value_field = line(About("Value", "A text, a number, or JSON.", self._example[1], required=True), value)
            added = (row, name_field, value_field)
            icon_button("close", "Remove this one", lambda: self._remove(added))
        self._pairs.append(added)
        return name_field

    def _remove(self, removed: tuple[ui.element, Field, Field]) -> None:
        self._pairs.remove(removed)
        removed[0].delete()


def as_text(value: Any) -> str:
    """A JSON value for a field; text is quoted only if it would be read as something else."""
    if isinstance(value, str) and as_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def as_value(content: str) -> Any:
    """Parse a field as JSON if it is JSON, else as text."""
    from pydantic_core import from_json

    try:
        value = from_json(content, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # 1e999 would become infinite
    except ValueError:
        return content
    return value

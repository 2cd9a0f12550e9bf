"""Where an error is shown: beside the field that it is about, or else as a notification; never lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from anyio import to_thread
from nicegui import ui

from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.web.pages.forms import Field

T = TypeVar("T")


async def attempt(
    work: Callable[[], T], fields: Mapping[str, Field] | None = None, by: ui.button | None = None
) -> T | None:
    """Do what may fail, in a thread of its own.

    Args:
        work: Blocks; what it gives is given back.
        fields: By the key that a problem names. Their errors of before are taken away first.
        by: The button that asked for it, which waits meanwhile.

    Returns:
        None where it failed and the error is shown.
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
    """Put each problem beside its field, and go to the first; the others become notifications."""
    elsewhere, first = place(error, fields)
    for problem in elsewhere:
        tell_fault(str(problem))
    if first is not None:
        reveal(first)
        first.run_method("focus")


def reveal(element: ui.element) -> None:
    """Bring an element into view, out of what is folded up around it."""
    for above in element.ancestors():
        if isinstance(above, ui.expansion):
            above.open()
    # Quasar's own focus does not scroll.
    ui.run_javascript(f"setTimeout(() => getHtmlElement({element.id})?.scrollIntoView({{block: 'center'}}), 50)")


def place(error: EvalflowError, fields: Mapping[str, Field]) -> tuple[list[Problem], Field | None]:
    """Put each problem beside its field.

    Returns:
        Those that have none, and the first field that has one.
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
    """A problem in the words of a form: its field needs no key, and nobody writes `key=value` here."""
    what = problem.what.removeprefix(f"{problem.key}: ")
    if problem.key and what.startswith(f"{problem.key} "):
        what = f"this field {what.removeprefix(problem.key).strip()}"
    what = f"{what[:1].upper()}{what[1:]}"
    of_a_form = problem.hint and f"{problem.key}=" not in problem.hint
    return f"{what} ({problem.hint})" if of_a_form else what


def tell_fault(what: str) -> None:
    """A notification that stays until it is closed."""
    ui.notify(what, icon="error_outline", multi_line=True, timeout=0, close_button="Close", position="bottom-right")


def tell(what: str) -> None:
    """A notification that goes by itself."""
    ui.notify(what, position="bottom-right", timeout=3500)


def _field_of(problem: Problem, fields: Mapping[str, Field]) -> Field | None:
    """The field whose key the problem's place is, or ends with; of a file, its name alone will do."""
    place = problem.key or problem.where
    if place.rpartition("/")[2] in fields:
        return fields[place.rpartition("/")[2]]
    parts = place.split(".")
    for start in range(len(parts)):
        for end in range(len(parts), start, -1):
            if (key := ".".join(parts[start:end])) in fields:
                return fields[key]
    return None

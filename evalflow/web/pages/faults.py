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
    """Put each problem beside its field, and the cursor into the first; the others become notifications."""
    elsewhere, first = place(error, fields)
    for problem in elsewhere:
        tell_fault(str(problem))
    if first is not None:
        first.run_method("focus")


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
            what = problem.what.removeprefix(f"{problem.key}: ")
            field.error = f"{what} ({problem.hint})" if problem.hint else what
            first = first or field
    return elsewhere, first


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

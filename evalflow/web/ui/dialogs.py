"""Dialogs: confirm, save and delete where someone else may have changed the same thing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.space import StaleError
from evalflow.errors import EvalflowError
from evalflow.web.ui.parts import Field, attempt, button, capitalised, message, tell_fault, text


def confirmation(
    title: str, about: str, action: str, do: Callable[[], Awaitable[None]], keep: str = "Keep it"
) -> ui.dialog:
    """A dialog that asks before something that cannot be undone."""

    async def confirmed() -> None:
        doing.props("loading")
        try:
            await do()
        finally:
            doing.props(remove="loading")
            asked.close()

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text(title, "h2")
        text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            doing = button(action, confirmed, kind="danger")
            button(keep, asked.close)
    asked.props["aria-label"] = title
    return asked


Content = Mapping[str, Any]
LONGEST_SHOWN = 2_000
"""Characters of a value."""


def differing(one: tuple[str, Content], other: tuple[str, Content]) -> None:
    """Show a table of differences.

    Args:
        one: The title of the first state, and its values by name.
        other: The second.
    """
    (left, before), (right, after) = one, other
    names = [name for name in dict.fromkeys([*before, *after]) if _said(before.get(name)) != _said(after.get(name))]
    if not names:
        text("No differences.", "p", "muted")
        return
    place = ui.element("div").classes("differing").props('tabindex=0 role=region aria-label="Differences"')
    with place, ui.element("table"):
        with ui.element("thead"), ui.element("tr"):
            for title in ("Field", left, right):
                text(title, "th").props("scope=col")
        with ui.element("tbody"):
            for name in names:
                with ui.element("tr"):
                    text(name, "th").props("scope=row")
                    for content in (before, after):
                        text(_said(content.get(name)) or "–", "td")


def _said(value: Any) -> str:
    if value is None or value is False or value in ("", [], {}):
        return ""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return said if len(said) <= LONGEST_SHOWN else f"{said[:LONGEST_SHOWN]}…"


_SAVED = 'document.dispatchEvent(new Event("saved"))'


@contextmanager
def unsaved() -> Generator[ui.element]:
    """A place for fields that warns before the page is left with unsaved changes."""
    with ui.element("div").props("data-unsaved") as place:
        yield place


@contextmanager
def form() -> Generator[ui.element]:
    """Like `unsaved`, laid out as a form."""
    with unsaved() as place:
        yield place.classes("form")


def saved() -> None:
    """Mark the forms of the page as saved."""
    ui.run_javascript(_SAVED)


def leave(path: str) -> None:
    """Go to another page without a warning about unsaved changes."""
    # In one script, because NiceGUI may send a navigation before an earlier script.
    ui.run_javascript(f"{_SAVED}; location.assign({json.dumps(path)})")


State = tuple[Content, int]
"""What is stored, and its version."""


class Deleting:
    """A dialog that asks before something is deleted, and again if someone else changed it.

    Args:
        title: The question.
        about: What else is deleted, and what stays.
        work: Deletes the given version; may block.
        seen: What the page shows.
        there: Reads what is stored now; may block.
        back: The page to go to afterwards.
    """

    def __init__(
        self,
        title: str,
        about: str,
        work: Callable[[int], None],
        seen: State,
        there: Callable[[], State],
        back: str,
    ) -> None:
        self._work, self._there, self._back = work, there, back
        self._content, self._version = seen
        with ui.dialog() as self._asked, ui.element("div").classes("card stack").props("role=document"):
            text(title, "h2")
            text(about, "p", "muted")
            self._change = ui.element("div").classes("stack stale").props("aria-live=polite")
            with ui.element("div").classes("actions"):
                self._doing = button("Delete", self._delete, kind="danger")
                button("Keep it", self._asked.close)
        self._asked.props["aria-label"] = title

    def open(self) -> None:
        """Show the dialog."""
        self._asked.open()

    async def _delete(self) -> None:
        def tried() -> StaleError | bool:
            try:
                self._work(self._version)
            except StaleError as error:
                return error
            return True

        found = await attempt(tried, by=self._doing)
        if isinstance(found, StaleError):
            await self._ask_again(found)
        elif found:
            leave(self._back)

    async def _ask_again(self, error: StaleError) -> None:
        """Show what changed; the next press deletes the new version."""
        try:
            now, self._version = await to_thread.run_sync(self._there)
        except EvalflowError as gone:  # someone else deleted it
            tell_fault(str(gone))
            return
        self._change.clear()
        with self._change:
            message(capitalised(error.problems[0].what), "It has not been deleted. Press again to delete it.", "warn")
            differing(("When you opened it", self._content), ("Now", now))
        self._doing.set_text("Delete anyway")


T = TypeVar("T")


class Saving(Generic[T]):
    """Saves a form, and shows how it conflicts with somebody else's change.

    Args:
        there: Reads what is stored now, with its version; may block.
        version: The version that the form was filled from.
        path: The page of the form.
    """

    def __init__(self, there: Callable[[], tuple[Content, int]], version: int, path: str) -> None:
        self._there, self._version, self._path = there, version, path
        self._place = ui.element("div").classes("section stack stale").props("aria-live=polite")

    async def save(
        self,
        work: Callable[[int], T],
        mine: Content,
        fields: Mapping[str, Field],
        by: ui.button,
        done: Callable[[T], object],
    ) -> None:
        """Save the form.

        Args:
            work: Saves over the given version; may block.
            mine: The content of the form, for comparison.
            fields: As of `attempt`.
            by: The button that was pressed.
            done: Called with the result of `work` after saving.
        """

        def tried() -> T | StaleError:
            try:
                return work(self._version)
            except StaleError as error:
                return error

        self._place.clear()
        kept = await attempt(tried, fields, by)
        if not isinstance(kept, StaleError):
            if kept is not None:
                done(kept)
            return
        try:
            theirs, version = await to_thread.run_sync(self._there)
        except EvalflowError as error:  # someone else deleted it
            tell_fault(str(error))
            return

        async def over() -> None:
            self._version = version
            with self._place:  # the button that asks for it goes with the question
                await self.save(work, mine, fields, by, done)

        with self._place:
            self._ask(kept, theirs, mine, over)

    def _ask(self, error: StaleError, theirs: Content, mine: Content, over: Callable[[], object]) -> None:
        hint = "Your changes are still in the form above; nothing has been overwritten."
        message(capitalised(error.problems[0].what), hint, "warn")
        differing(("Now", theirs), ("Yours", mine))
        with ui.element("div").classes("actions"):
            button("Overwrite with mine", over, kind="danger")
            button("Discard mine", lambda: leave(self._path))

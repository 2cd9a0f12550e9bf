"""Dialogs: ask, confirm, save and delete where someone else may have changed the same thing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.space import StaleError
from evalflow.errors import EvalflowError
from evalflow.web.ui.faults import has_faults, reveal, tell_fault
from evalflow.web.ui.forms import About, Field, attempt, leave, line, required
from evalflow.web.ui.parts import address, button, capitalised, message, table, text
from evalflow.web.ui.undo import PARAMETER

Content = Mapping[str, Any]
State = tuple[Content, int]
"""The stored content and its version."""
T = TypeVar("T")
LONGEST_SHOWN = 2_000
"""Maximum number of characters shown of a value."""


@contextmanager
def dialog(title: str, about: str = "") -> Generator[ui.dialog]:
    """A context manager for a dialog: build the content below the heading inside."""
    with ui.dialog() as made, ui.element("div").classes("card stack").props("role=document"):
        text(title, "h2")
        if about:
            text(about, "p", "muted")
        yield made
    made.props["aria-label"] = title


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
        if not has_faults(asked):
            asked.close()

    with dialog(title, about) as asked, ui.element("div").classes("actions"):
        doing = button(action, confirmed, kind="danger")
        button(keep, asked.close)
    return asked


def folder_dialog(
    title: str, about: str, folder: About, action: str, take: Callable[[str, Field, ui.button], Awaitable[None]]
) -> ui.dialog:
    """A dialog that asks for a folder. `take` gets the path, the field (to show errors at) and the pressed button."""

    async def confirmed() -> None:
        path = required(field)
        if path is not None:
            await take(path, field, doing)

    with dialog(title, about) as asked:
        field = line(folder)
        with ui.element("div").classes("actions"):
            doing = button(action, confirmed, kind="primary")
            button("Cancel", asked.close)
    return asked


def differing(one: tuple[str, Content], other: tuple[str, Content]) -> None:
    """Show a table of the differences between two states, each with a title and its values by name."""
    (left, before), (right, after) = one, other
    names = [name for name in dict.fromkeys([*before, *after]) if _shown(before.get(name)) != _shown(after.get(name))]
    if not names:
        text("No differences.", "p", "muted")
        return
    place = ui.element("div").classes("differing").props('tabindex=0 role=region aria-label="Differences"')
    with place, table(("Field", left, right)):
        for name in names:
            with ui.element("tr"):
                text(name, "th").props("scope=row")
                for content in (before, after):
                    text(_shown(content.get(name)) or "–", "td")


def _shown(value: Any) -> str:
    if value is None or value is False or value in ("", [], {}):
        return ""
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return content if len(content) <= LONGEST_SHOWN else f"{content[:LONGEST_SHOWN]}…"


class Deleting:
    """A dialog that asks before something is deleted, and again if someone else changed it.

    `work` deletes the given version, `stored` reads the current content and version; both may block. `seen` is what the
    page shows, `back` the page to open afterwards, which offers to undo it if `work` returns an id in the trash.
    """

    def __init__(
        self,
        title: str,
        about: str,
        work: Callable[[int], int | None],
        stored: Callable[[], State],
        seen: State,
        back: str,
    ) -> None:
        self._work, self._stored, self._back = work, stored, back
        self._content, self._version = seen
        with dialog(title, about) as self._asked:
            self._change = ui.element("div").classes("stack stale").props("aria-live=polite")
            with ui.element("div").classes("actions"):
                self._doing = button("Delete", self._delete, kind="danger")
                button("Keep it", self._asked.close)
        self.open = self._asked.open

    async def _delete(self) -> None:
        result = await attempt(lambda: _unless_stale(lambda: self._work(self._version) or 0), by=self._doing)
        if isinstance(result, StaleError):
            await self._ask_again(result)
        elif result is not None:
            leave(address(self._back, {PARAMETER: result or None}))

    async def _ask_again(self, error: StaleError) -> None:
        """Show what changed; the next press deletes the new version."""
        try:
            now, self._version = await to_thread.run_sync(self._stored)
        except EvalflowError as gone:  # someone else deleted it
            tell_fault(gone)
            return
        self._change.clear()
        with self._change:
            message(capitalised(error.problems[0].what), "It has not been deleted. Press again to delete it.", "warn")
            differing(("When you opened it", self._content), ("Now", now))
        self._doing.set_text("Delete anyway")


class Saving(Generic[T]):
    """Saves a form, and shows conflicts with changes by others.

    `stored` reads the current content and version and may block. `version`: that of the loaded form; 0 for a new
    object.
    """

    def __init__(self, stored: Callable[[], State], version: int, path: str) -> None:
        self._stored, self._version, self._path = stored, version, path
        self._place = ui.element("div").classes("section stack stale").props("aria-live=polite tabindex=-1")

    def renew(self, version: int) -> None:
        """Go on from a version that was just saved."""
        self._version = version

    async def save(
        self,
        work: Callable[[int], T],
        mine: Content,
        fields: Mapping[str, Field],
        by: ui.button,
        done: Callable[[T], object],
    ) -> None:
        """Overwrite the given version by `work`, which may block; `mine` is the form's content, for comparison."""
        self._place.clear()
        result = await attempt(lambda: _unless_stale(lambda: work(self._version)), fields, by)
        if not isinstance(result, StaleError):
            if result is not None:
                done(result)
            return
        try:
            theirs, version = await to_thread.run_sync(self._stored)
        except EvalflowError as error:  # someone else deleted it
            tell_fault(error)
            return

        async def overwrite() -> None:
            self._version = version
            with self._place:  # the pressed button is deleted together with the question
                await self.save(work, mine, fields, by, done)

        with self._place:
            hint = "Your changes are still in the form above; nothing has been overwritten."
            message(capitalised(result.problems[0].what), hint, "warn")
            differing(("Now", theirs), ("Yours", mine))
            with ui.element("div").classes("actions"):
                button("Overwrite with mine", overwrite, kind="danger")
                button("Discard mine", lambda: leave(self._path))
        reveal(self._place, focus=True)


def _unless_stale(work: Callable[[], T]) -> T | StaleError:
    """Return a conflict as a result, because `attempt` would show it as an error."""
    try:
        return work()
    except StaleError as error:
        return error

"""Deleting what somebody else may have changed meanwhile: the change is shown, and people choose again."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import StaleError
from evalflow.errors import EvalflowError
from evalflow.web.pages.differing import Content, differing
from evalflow.web.pages.faults import attempt, tell_fault
from evalflow.web.pages.parts import button, message, text
from evalflow.web.pages.unsaved import leave

State = tuple[Content, int]
"""What is stored, and its version."""


class Deleting:
    """A dialog that asks before something is deleted; `open` shows it.

    Args:
        title: The question.
        about: What goes with it, and what stays.
        work: Deletes it, given the version that was seen; blocks.
        seen: What the page shows.
        there: What is stored now; blocks.
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
        """Ask."""
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
        """Show what has changed; the next press deletes that."""
        try:
            now, self._version = await to_thread.run_sync(self._there)
        except EvalflowError as gone:  # it was deleted after all
            tell_fault(str(gone))
            return
        self._change.clear()
        with self._change:
            message(error.problems[0].what, "It is still there, and goes only if you say so again.", "warn")
            differing(("As you saw it", self._content), ("As it is now", now))
        self._doing.set_text("Delete it as it is now")

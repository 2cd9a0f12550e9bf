"""Saving a change of what somebody else may have changed meanwhile: both are shown, and people choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import StaleError
from evalflow.errors import EvalflowError
from evalflow.web.pages.differing import Content, differing
from evalflow.web.pages.faults import attempt, tell_fault
from evalflow.web.pages.forms import Field
from evalflow.web.pages.parts import button, message
from evalflow.web.pages.unsaved import leave

T = TypeVar("T")


class Saving(Generic[T]):
    """Where a form is saved; below it, what to do about somebody else's change.

    Args:
        there: What is stored now, and its version; blocks.
        version: The one that the form was filled from.
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
        """Save what the form says.

        Args:
            work: Does it, given the version that the change is made from; blocks.
            mine: What the form says, to be compared.
            fields: As of `attempt`.
            by: The button that asked for it.
            done: Is given what `work` gave, once it is saved.
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
        except EvalflowError as error:  # it was deleted after all
            tell_fault(str(error))
            return

        async def over() -> None:
            self._version = version
            with self._place:  # the button that asks for it goes with the question
                await self.save(work, mine, fields, by, done)

        with self._place:
            self._ask(kept, theirs, mine, over)

    def _ask(self, error: StaleError, theirs: Content, mine: Content, over: Callable[[], object]) -> None:
        hint = "Yours is still in the form above, and nothing is overwritten unless you say so."
        message(error.problems[0].what, hint, "warn")
        differing(("As it is now", theirs), ("Yours", mine))
        with ui.element("div").classes("actions"):
            button("Save mine over it", over, kind="danger")
            button("Take what is there now", lambda: leave(self._path))

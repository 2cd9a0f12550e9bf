"""Comments below a task or beside a score: read, add, and delete one's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.comments import Comment, CommentedOn, add_comment, delete_comment, list_comments
from evalflow.app.studio.space import Workspace
from evalflow.web.ui import forms
from evalflow.web.ui.parts import button, text
from evalflow.web.ui.visitor import local_time, may, visitor

MOST_SHOWN = 500


def name_here() -> str:
    """The name under which the visitor writes."""
    actor = visitor().actor
    return actor.name if actor else ""


class CommentList:
    """The comments on something, and a field to add one, which `is_open` shows at once."""

    def __init__(self, workspace: Workspace, on: CommentedOn, *, is_open: bool = True) -> None:
        self._workspace, self._on, self._is_open = workspace, on, is_open
        self._list = ui.element("ul").classes("comments").props("aria-live=polite")
        self._form = ui.element("div").classes("stack commenting")
        self._form.set_visibility(is_open)
        self._is_built = False
        if is_open:
            self._build()

    def _build(self) -> None:
        self._is_built = True
        if may("edit"):
            with self._form:
                self._field = forms.area(forms.About("Your comment", required=True))
                with ui.element("div").classes("actions"):
                    self._adding = button("Add comment", self._add)

    async def open(self) -> None:
        """Show the field, or hide it again."""
        if not self._is_built:
            self._build()
        self._form.set_visibility(not self._form.visible)
        if self._form.visible:
            self._field.run_method("focus")

    async def load(self) -> None:
        """Read the comments and show them."""
        found = await to_thread.run_sync(lambda: list_comments(self._workspace, self._on, None, MOST_SHOWN))
        if not self._list.is_deleted:
            self.show(found.items)

    def show(self, found: Sequence[Comment]) -> None:
        """Show comments that were read already."""
        self._list.clear()
        with self._list:
            for one in found:
                with ui.element("li"):
                    with ui.element("div").classes("actions small"):
                        text(one.by, "strong")
                        text(local_time(one.at), "span", "muted")
                        if may("edit") and (one.by == name_here() or may("admin")):
                            made = button("", partial(self._delete, one.id), kind="quiet", icon="delete")
                            made.props(f'aria-label="Delete the comment by {one.by}" title="Delete"')
                    text(one.text, classes="text").props("dir=auto")

    async def _add(self) -> None:
        said = forms.required(self._field)
        if said is None:
            return
        fields = {"comment.text": self._field}
        if await forms.attempt(lambda: add_comment(self._workspace, self._on, said), fields, by=self._adding):
            self._field.value = ""
            self._form.set_visibility(self._is_open)
            await self.load()

    async def _delete(self, comment: int) -> None:
        await forms.attempt(lambda: delete_comment(self._workspace, comment))
        await self.load()

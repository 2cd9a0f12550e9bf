"""What can be done with the cases that are selected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bulk import delete_cases, group_cases, tag_cases
from evalflow.app.workspace.cases import case_tags
from evalflow.web.pages.datasets.index import counted
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.forms import About, Field, line, pick, written
from evalflow.web.pages.parts import button, text

Changed = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]
_TAG = About("Tag", 'Such as fees; levels of one with " > " between them.', "Fees > Refunds", required=True)
_GROUP = About(
    "Group", "Cases that hang together, such as by their source document; empty takes them out of theirs.", "handbook"
)


class BulkBar:
    """A bar that is there while cases are selected.

    Args:
        workspace: Where.
        dataset: Which.
        selected: The ids in the store of the selected cases; emptied by what deletes them.
        on_change: Is given the dataset's tags after a change.
    """

    def __init__(self, workspace: Workspace, dataset: str, selected: set[int], on_change: Changed) -> None:
        self._workspace, self._dataset, self._selected = workspace, dataset, selected
        self._on_change = on_change
        self._bar = ui.element("div").classes("bulk").props('role=region aria-label="Selected cases"')
        with self._bar:
            self._number = text("").props("role=status")
            with ui.element("div").classes("actions"):
                button("Add tag", self._add_tag)
                button("Remove tag", self._remove_tag)
                button("Set group", self._set_group)
                button("Delete cases", self._delete, kind="danger")
                button("Clear", self._clear, kind="quiet")
        self.show()

    def show(self) -> None:
        """Say how many are selected."""
        self._bar.set_visibility(bool(self._selected))
        self._number.set_text(f"{len(self._selected):,} selected")

    async def _clear(self) -> None:
        self._selected.clear()
        await self._on_change(await self._tags())

    def _add_tag(self) -> None:
        def work(field: Field) -> int:
            return tag_cases(self._workspace, self._dataset, list(self._selected), add=[written(field) or ""])

        self._ask("Add a tag", lambda: line(_TAG), "Add", work)

    async def _remove_tag(self) -> None:
        tags = [tag for tag, _ in await self._tags()]
        if not tags:
            tell("No case has a tag.")
            return

        def work(field: Field) -> int:
            return tag_cases(self._workspace, self._dataset, list(self._selected), remove=[str(field.value)])

        about = About("Tag", "Taken from the selected cases; those below it go with it.", required=True)
        self._ask("Remove a tag", lambda: pick(about, tags, tags[0]), "Remove", work)

    def _set_group(self) -> None:
        def work(field: Field) -> int:
            return group_cases(self._workspace, self._dataset, list(self._selected), written(field))

        self._ask("Set the group", lambda: line(_GROUP), "Set", work, required=False)

    def _delete(self) -> None:
        def work(_: Field | None) -> int:
            number = delete_cases(self._workspace, self._dataset, list(self._selected))
            self._selected.clear()
            return number

        self._ask(f"Delete {counted(len(self._selected))}?", None, "Delete", work)

    def _ask(
        self,
        title: str,
        make: Callable[[], Field] | None,
        action: str,
        work: Callable[[Any], int],
        *,
        required: bool = True,
    ) -> None:
        """Open a dialog with one field, or none; what is confirmed is done and shown."""

        async def confirmed() -> None:
            if field is not None and required and not written(field):
                field.error = "is required"
                return
            number = await attempt(lambda: work(field), by=doing)
            asked.close()
            if number is not None:
                tell(
                    f"{counted(number)} {'were' if number != 1 else 'was'} changed."
                    if make
                    else f"{counted(number)} deleted."
                )
                await self._on_change(await self._tags())

        with self._bar, ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
            text(title, "h2")
            if make is None:
                text("Runs keep copies of their own.", "p", "muted")
            field = make() if make else None
            with ui.element("div").classes("actions"):
                doing = button(action, confirmed, kind="primary" if make else "danger")
                button("Cancel", asked.close)
        if isinstance(field, ui.input):
            field.props("autofocus").on("keydown.enter", confirmed)
        asked.props["aria-label"] = title
        asked.on("hide", asked.delete)
        asked.open()

    async def _tags(self) -> list[tuple[str, int]]:
        return await to_thread.run_sync(case_tags, self._workspace, self._dataset)

"""Add cases to a dataset: pasted, or out of a file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import to_thread
from nicegui import ui
from nicegui.events import UploadEventArguments

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.datasets import own_row
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.index import PLACE
from evalflow.web.pages.datasets.pasted import pasted_file
from evalflow.web.pages.datasets.review import Review
from evalflow.web.pages.dropping import dropping
from evalflow.web.pages.forms import About, area
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, text
from evalflow.web.pages.unsaved import unsaved

LARGEST_PASTE = 1_000_000
"""Characters; a page's websocket takes no longer message than twice as many bytes."""
_PASTE = About(
    "Questions, or a table",
    "One question in each line; or a table as copied from a spreadsheet, whose first row names the columns.",
    "What does the licence cost?\nCan I pay by card?\nHow do I get my money back?",
    required=True,
)
_FILE = (
    "CSV with the columns' names in its first line, JSON lines, or a JSON list. You see what becomes of it before "
    "anything is kept."
)


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/datasets/{dataset}/add")
    async def new(dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        folder = TemporaryDirectory(prefix="evalflow-")
        ui.context.client.on_delete(folder.cleanup)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
        with frame("Add cases", place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]):
            _Add(workspace, dataset, Path(folder.name))


class _Add:
    """Two ways to bring cases; what was brought takes their place."""

    def __init__(self, workspace: Workspace, dataset: str, folder: Path) -> None:
        self._workspace, self._dataset, self._folder = workspace, dataset, folder
        with unsaved() as self._place:
            self._ways()

    def _ways(self) -> None:
        self._place.clear()
        with self._place, ui.element("div").classes("ways"):
            with ui.element("div").classes("card stack"):
                text("Paste", "h2")
                self._pasted = area(_PASTE).props(f"maxlength={LARGEST_PASTE}")
                with ui.element("div").classes("actions"):
                    self._going_on = button("Go on", self._take_pasted, kind="primary")
            with ui.element("div").classes("card stack"):
                text("A file", "h2")
                text(_FILE, "p", "muted small")
                dropping(self._take_file)
        with self._place, ui.element("p").classes("aside"):
            text("One by one? ", "span", "muted")
            ui.link("Write a case", f"/datasets/{self._dataset}/cases/new")

    async def _take_pasted(self) -> None:
        said = self._pasted.value or ""
        self._pasted.error = None
        if not said.strip():
            self._pasted.error = "is required"
        elif len(said) >= LARGEST_PASTE:
            self._pasted.error = f"a paste ends at {LARGEST_PASTE:,} characters; save it as a file, and upload that"
        else:
            await self._review(await to_thread.run_sync(pasted_file, said, self._folder), "What was pasted")

    async def _take_file(self, event: UploadEventArguments) -> None:
        ending = Path(event.file.name).suffix.lower()
        path = self._folder / f"cases{'.csv' if ending == '.tsv' else ending}"
        await event.file.save(path)
        await self._review(path, event.file.name)

    async def _review(self, path: Path, name: str) -> None:
        self._place.clear()
        with self._place:
            review = Review(self._workspace, self._dataset, path, name, self._ways)
        await review.begin()

"""New cases, written one after another."""

from __future__ import annotations

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.case_places import case_place
from evalflow.app.workspace.cases import StoredCase, add_case
from evalflow.app.workspace.datasets import own_row
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.case_form import CaseForm
from evalflow.web.pages.datasets.index import PLACE
from evalflow.web.pages.datasets.sought import Sought
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, link_button
from evalflow.web.pages.unsaved import form, leave, saved


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/datasets/{dataset}/cases/new")
    async def new(dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        with frame("New case", place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]):
            _New(workspace, dataset)


class _New:
    """A form for one case after another."""

    def __init__(self, workspace: Workspace, dataset: str) -> None:
        self._workspace, self._dataset = workspace, dataset
        with form() as self._place:
            self._form = CaseForm({})
        with ui.element("div").classes("section actions"):
            self._saving = button("Save", self._save, kind="primary")
            self._going_on = button("Save and write another", self._save_on)
            link_button("Cancel", f"/datasets/{dataset}")

    async def _save(self) -> None:
        if made := await self._kept(self._saving):
            place = await to_thread.run_sync(case_place, self._workspace, self._dataset, made.id)
            leave(Sought().around(place.before, made.id).path(self._dataset))

    async def _save_on(self) -> None:
        if made := await self._kept(self._going_on):
            tell(f"Case {made.body['id']} is kept.")
            self._place.clear()
            with self._place:
                self._form = CaseForm({})
            saved()
            self._form.focus()

    async def _kept(self, by: ui.button) -> StoredCase | None:
        row = self._form.read()
        if row is None:
            return None
        return await attempt(lambda: add_case(self._workspace, self._dataset, row), self._form.places, by)

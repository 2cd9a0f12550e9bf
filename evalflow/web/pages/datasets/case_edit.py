"""One case: written, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import NotFoundError, StaleError, Workspace
from evalflow.app.workspace.bulk import delete_cases
from evalflow.app.workspace.cases import StoredCase, add_case, get_case, update_case
from evalflow.app.workspace.datasets import own_row
from evalflow.errors import Problem
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.case_form import CaseForm
from evalflow.web.pages.datasets.index import PLACE
from evalflow.web.pages.dialogs import confirmation
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, link_button, message


def add(workspace: Workspace) -> None:
    """Register the pages."""

    @page("/datasets/{dataset}/cases/new")
    async def new(dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        with frame("New case", place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]):
            _New(workspace, dataset)

    @page("/datasets/{dataset}/cases/{case}")
    async def edit(dataset: str, case: str) -> None:
        if not case.isdigit() or len(case) > 18:
            raise NotFoundError(Problem(f"there is no case {case!r}", "case"))
        found = await to_thread.run_sync(get_case, workspace, dataset, int(case))
        title = f"Case {found.body['id']}"
        with frame(title, place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]) as actions:
            with actions:
                _deletion(workspace, dataset, found)
            _edit(workspace, dataset, found)


class _New:
    """A form for one case after another."""

    def __init__(self, workspace: Workspace, dataset: str) -> None:
        self._workspace, self._dataset = workspace, dataset
        self._place = ui.element("div").classes("form")
        self._fill()
        with ui.element("div").classes("section actions"):
            self._saving = button("Save", self._save, kind="primary")
            self._going_on = button("Save and write another", self._save_on)
            link_button("Cancel", f"/datasets/{dataset}")

    def _fill(self) -> None:
        self._place.clear()
        with self._place:
            self._form = CaseForm({})

    async def _save(self) -> None:
        if await self._kept(self._saving):
            ui.navigate.to(f"/datasets/{self._dataset}")

    async def _save_on(self) -> None:
        if made := await self._kept(self._going_on):
            tell(f"Case {made.body['id']} is kept.")
            self._fill()

    async def _kept(self, by: ui.button) -> StoredCase | None:
        row = self._form.read()
        if row is None:
            return None
        return await attempt(lambda: add_case(self._workspace, self._dataset, row), self._form.places, by)


def _edit(workspace: Workspace, dataset: str, case: StoredCase) -> None:
    async def save() -> None:
        row = form.read()
        if row is None:
            return
        stale.clear()
        done = await attempt(lambda: _changed(workspace, dataset, case, row), form.places, saving)
        if isinstance(done, StaleError):
            with stale:
                message(done.problems[0].what, "Yours is still here: compare, then change what is kept.", "warn")
                there = link_button("See it as it is now", f"/datasets/{dataset}/cases/{case.id}")
                there.props("target=_blank")
        elif done is not None:
            ui.navigate.to(f"/datasets/{dataset}")

    with ui.element("div").classes("form"):
        form = CaseForm(case.body)
    stale = ui.element("div").classes("section stack stale").props("aria-live=polite")
    with ui.element("div").classes("section actions"):
        saving = button("Save", save, kind="primary")
        link_button("Cancel", f"/datasets/{dataset}")


def _changed(workspace: Workspace, dataset: str, case: StoredCase, row: Mapping[str, Any]) -> StoredCase | StaleError:
    """The case as it is now; or that somebody else has changed it since it was shown."""
    try:
        return update_case(workspace, dataset, case.id, case.version, row)
    except StaleError as error:
        return error


def _deletion(workspace: Workspace, dataset: str, case: StoredCase) -> None:
    async def delete() -> None:
        if await attempt(lambda: delete_cases(workspace, dataset, [case.id]) or True):
            ui.navigate.to(f"/datasets/{dataset}")

    asked = confirmation("Delete this case?", "Runs keep copies of their own.", "Delete", delete)
    button("Delete", asked.open, kind="danger")

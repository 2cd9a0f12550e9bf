"""One case: changed, deleted, and gone on from to the next that the list finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import NotFoundError, Workspace
from evalflow.app.workspace.bulk import delete_cases
from evalflow.app.workspace.case_places import CasePlace, case_place
from evalflow.app.workspace.cases import StoredCase, get_case, update_case
from evalflow.errors import Problem
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.case_form import CaseForm
from evalflow.web.pages.datasets.index import PLACE
from evalflow.web.pages.datasets.sought import Sought
from evalflow.web.pages.dialogs import confirmation
from evalflow.web.pages.faults import attempt
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, link_button, text
from evalflow.web.pages.saving import Saving
from evalflow.web.pages.unsaved import form, leave


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/datasets/{dataset}/cases/{case}")
    async def edit(dataset: str, case: str, tag: str = "", text: str = "") -> None:
        if not case.isdecimal() or len(case) > 18:
            raise NotFoundError(Problem(f"there is no case {case!r}", "case"))
        sought, number = Sought(tag, text), int(case)
        found = await to_thread.run_sync(get_case, workspace, dataset, number)
        place = await to_thread.run_sync(lambda: case_place(workspace, dataset, number, **sought.wanted))
        back = sought.around(place.before, number).path(dataset)
        with frame(f"Case {found.body['id']}", place=PLACE, trail=[(dataset, back)]) as actions:
            with actions:
                _neighbours(dataset, sought, place)
                _deletion(workspace, dataset, found, sought.around(place.before, place.next or place.previous))
            _Edit(workspace, dataset, found, sought, place)


def _neighbours(dataset: str, sought: Sought, place: CasePlace) -> None:
    text(f"{min(place.before + 1, place.total):,} of {place.total:,}", "span", "muted small")
    for name, case in (("Previous case", place.previous), ("Next case", place.next)):
        if case is not None:
            link_button(name, sought.case(dataset, case))


class _Edit:
    """The form with what can be done with it."""

    def __init__(self, workspace: Workspace, dataset: str, case: StoredCase, sought: Sought, place: CasePlace) -> None:
        self._workspace, self._dataset, self._case, self._sought, self._place = workspace, dataset, case, sought, place
        with form():
            self._form = CaseForm(case.body)
        with ui.element("div").classes("section actions"):
            self._save = button("Save", lambda: self._keep(self._save, self._back), kind="primary")
            if place.next is not None:
                self._go_on = button("Save and go to the next", lambda: self._keep(self._go_on, self._next))
            link_button("Cancel", self._back())
        self._saving = Saving[StoredCase](self._there, case.version, sought.case(dataset, case.id))

    def _there(self) -> tuple[Mapping[str, Any], int]:
        found = get_case(self._workspace, self._dataset, self._case.id)
        return found.body, found.version

    def _back(self) -> str:
        return self._sought.around(self._place.before, self._case.id).path(self._dataset)

    def _next(self) -> str:
        return self._sought.case(self._dataset, self._place.next or self._case.id)

    async def _keep(self, by: ui.button, where: Any) -> None:
        row = self._form.read()
        if row is not None:
            await self._saving.save(
                lambda version: update_case(self._workspace, self._dataset, self._case.id, version, row),
                row,
                self._form.places,
                by,
                lambda _: leave(where()),
            )


def _deletion(workspace: Workspace, dataset: str, case: StoredCase, after: Sought) -> None:
    async def delete() -> None:
        if await attempt(lambda: delete_cases(workspace, dataset, [case.id]) or True):
            leave(after.path(dataset))

    asked = confirmation("Delete this case?", "Runs keep copies of their own.", "Delete", delete)
    button("Delete", asked.open, kind="danger")

"""A new dataset, a copy of one, or another description of it."""

from __future__ import annotations

from typing import cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.cases import copy_dataset
from evalflow.app.workspace.datasets import Dataset, Generates, create_dataset, get_dataset, update_dataset
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.index import PLACE
from evalflow.web.pages.faults import attempt
from evalflow.web.pages.forms import About, Field, area, pick, written
from evalflow.web.pages.frame import frame
from evalflow.web.pages.naming import NameField
from evalflow.web.pages.parts import button, link_button
from evalflow.web.pages.saving import Saving
from evalflow.web.pages.unsaved import form, leave

_REPLIES = {"answer": "An answer in words", "actual": "A label, or a list of ids"}


def add(workspace: Workspace) -> None:
    """Register the pages."""

    @page("/datasets/new")
    async def new(source: str = "") -> None:
        copied = await to_thread.run_sync(get_dataset, workspace, source) if source else None
        title = f"Copy of {copied.name}" if copied else "New dataset"
        with frame(title, place=PLACE, trail=[(PLACE, "/datasets")]):
            _new(workspace, copied)

    @page("/datasets/{dataset}/edit")
    async def edit(dataset: str) -> None:
        found = await to_thread.run_sync(get_dataset, workspace, dataset)
        with frame(f"Edit {found.name}", place=PLACE, trail=[(found.name, f"/datasets/{found.name}")]):
            _edit(workspace, found)


def _new(workspace: Workspace, copied: Dataset | None) -> None:
    async def save() -> None:
        name = naming.read()
        if copied:
            source = copied.name
            made = await attempt(lambda: copy_dataset(workspace, source, name), fields, saving)
        else:
            said, kind = _said(fields)
            made = await attempt(lambda: create_dataset(workspace, name, said, kind), fields, saving)
        if made is not None:
            leave(f"/datasets/{made.name}")

    with form():
        naming = NameField("Questions on fees")
        fields = {"dataset.name": cast("Field", naming.field)}
        if copied is None:
            fields |= _about("", "answer")
        saving = _actions("Copy" if copied else "Create", save, f"/datasets/{copied.name}" if copied else "/datasets")


def _edit(workspace: Workspace, dataset: Dataset) -> None:
    async def save() -> None:
        said, kind = _said(fields)
        await conflict.save(
            lambda version: update_dataset(workspace, dataset.name, version, description=said, generates=kind),
            {"description": said, "reply": _REPLIES[kind]},
            fields,
            saving,
            lambda _: leave(f"/datasets/{dataset.name}"),
        )

    def there() -> tuple[dict[str, str], int]:
        found = get_dataset(workspace, dataset.name)
        return {"description": found.description, "reply": _REPLIES[found.generates]}, found.version

    with form():
        fields = _about(dataset.description, dataset.generates)
        saving = _actions("Save", save, f"/datasets/{dataset.name}")
    conflict = Saving[Dataset](there, dataset.version, f"/datasets/{dataset.name}/edit")


def _about(description: str, generates: Generates) -> dict[str, Field]:
    said = area(
        About("Description", "What is asked, in a sentence.", "Questions on fees, from last year."), description
    )
    help = (
        "What a bot gives back to these cases: most give an answer; one that classifies or retrieves gives the other."
    )
    replies = pick(About("A bot's reply is", help, required=True), _REPLIES, generates)
    return {"dataset.description": said, "dataset.generates": replies}


def _said(fields: dict[str, Field]) -> tuple[str, Generates]:
    return written(fields["dataset.description"]) or "", fields["dataset.generates"].value


def _actions(label: str, save: object, back: str) -> ui.button:
    with ui.element("div").classes("actions"):
        saving = button(label, cast("None", save), kind="primary")
        link_button("Cancel", back)
    return saving

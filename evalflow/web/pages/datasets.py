"""The datasets: listed, created, changed."""

from __future__ import annotations

from typing import cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.cases import copy_dataset
from evalflow.app.studio.datasets import Dataset, Generates, create_dataset, get_dataset, list_datasets, update_dataset
from evalflow.app.studio.space import Workspace
from evalflow.web.ui.dialogs import Saving, form, leave
from evalflow.web.ui.fields import NameField
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    About,
    Field,
    Tone,
    area,
    attempt,
    button,
    card,
    empty,
    link_button,
    pick,
    section,
    written,
)

PLACE = "Test cases"


def add_datasets(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/datasets")
    async def datasets() -> None:
        found = await to_thread.run_sync(list_datasets, workspace)
        own = [dataset for dataset in found if dataset.origin == "workspace"]
        about = "The questions for your bots, with what is expected. A dataset is a set of cases."
        with frame(PLACE, place=PLACE, about=about) as actions:
            if own:
                with actions:
                    link_button("New dataset", "/datasets/new", primary=True)
                _cards(own)
            else:
                _none_yet()
            with section("Ready to use", "Declared in conf/. Copy one to change it."):
                _cards([dataset for dataset in found if dataset.origin == "conf"])


def counted(number: int, what: str = "case") -> str:
    """A number with its noun: `1 case`, `5,000 cases`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cards(datasets: list[Dataset]) -> None:
    with ui.element("div").classes("cards"):
        for dataset in datasets:
            badges: list[tuple[str, Tone]] = [] if dataset.cases is None else [(counted(dataset.cases), "accent")]
            if dataset.origin == "conf":
                badges.append(("conf", ""))
            card(dataset.name, f"/datasets/{dataset.name}", dataset.description, badges)


def _none_yet() -> None:
    about = "Start with a few real questions. Paste them, upload a file, or write them here."
    with empty("checklist", "Collect your first test cases", about):
        link_button("New dataset", "/datasets/new", primary=True)


_REPLIES = {"answer": "A text", "actual": "A label, or a list of ids"}


def add_dataset_edit(workspace: Workspace) -> None:
    """Register the pages."""

    @guarded_page("/datasets/new")
    async def new(source: str = "") -> None:
        copied = await to_thread.run_sync(get_dataset, workspace, source) if source else None
        title = f"Copy of {copied.name}" if copied else "New dataset"
        with frame(title, place=PLACE, trail=[(PLACE, "/datasets")]):
            _new(workspace, copied)

    @guarded_page("/datasets/{dataset}/edit")
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
        saving = _form_actions(
            "Copy" if copied else "Create", save, f"/datasets/{copied.name}" if copied else "/datasets"
        )


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
        saving = _form_actions("Save", save, f"/datasets/{dataset.name}")
    conflict = Saving[Dataset](there, dataset.version, f"/datasets/{dataset.name}/edit")


def _about(description: str, generates: Generates) -> dict[str, Field]:
    said = area(
        About("Description", "One sentence on what the cases ask.", "Questions on fees, from last year."), description
    )
    help = "Most bots reply with a text; a bot that classifies or retrieves replies with a label or ids."
    replies = pick(About("A bot's reply is", help, required=True), _REPLIES, generates)
    return {"dataset.description": said, "dataset.generates": replies}


def _said(fields: dict[str, Field]) -> tuple[str, Generates]:
    return written(fields["dataset.description"]) or "", fields["dataset.generates"].value


def _form_actions(label: str, save: object, back: str) -> ui.button:
    with ui.element("div").classes("actions"):
        saving = button(label, cast("None", save), kind="primary")
        link_button("Cancel", back)
    return saving

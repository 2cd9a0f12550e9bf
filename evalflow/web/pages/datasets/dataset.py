"""One dataset: its cases, and what can be done with it."""

from __future__ import annotations

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.cases import case_tags
from evalflow.app.workspace.datasets import Dataset, delete_dataset, get_dataset
from evalflow.app.workspace.declared import DeclaredPage
from evalflow.web.pages.address import page
from evalflow.web.pages.datasets.case_list import CaseList
from evalflow.web.pages.datasets.declared_list import DeclaredList, read_declared
from evalflow.web.pages.datasets.index import PLACE, counted
from evalflow.web.pages.datasets.sought import Sought, number_of
from evalflow.web.pages.deleting import Deleting, State
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, button, empty, link_button


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/datasets/{dataset}")
    async def one(dataset: str, tag: str = "", text: str = "", first: str = "", row: str = "") -> None:
        sought = Sought(tag, text, number_of(first), number_of(row) or None)
        found = await to_thread.run_sync(get_dataset, workspace, dataset)
        if found.origin == "conf":
            read = await to_thread.run_sync(read_declared, workspace, dataset, sought)
            _declared(workspace, found, sought, read)
            return
        tags = await to_thread.run_sync(case_tags, workspace, dataset)
        with frame(found.name, place=PLACE, about=found.description, trail=[(PLACE, "/datasets")]) as actions:
            with actions:
                _actions(workspace, found)
            if found.cases:
                await CaseList(workspace, found.name, tags, sought).refresh()
            else:
                _no_cases(found)


def _actions(workspace: Workspace, dataset: Dataset) -> None:
    if dataset.cases:
        link_button("Add cases", f"/datasets/{dataset.name}/add", primary=True)
        link_button("Write one", f"/datasets/{dataset.name}/cases/new")
        link_button("Run them", f"/runs/new?dataset={dataset.name}")
        _export(dataset)
    link_button("Edit", f"/datasets/{dataset.name}/edit")
    link_button("Copy", f"/datasets/new?source={dataset.name}")
    button("Delete", _deletion(workspace, dataset).open, kind="danger")


def _deletion(workspace: Workspace, dataset: Dataset) -> Deleting:
    return Deleting(
        f"Delete {dataset.name}?",
        f"Its {counted(dataset.cases or 0)} go with it; runs keep copies of their own.",
        lambda version: delete_dataset(workspace, dataset.name, version),
        _state(dataset),
        lambda: _state(get_dataset(workspace, dataset.name)),
        "/datasets",
    )


def _state(dataset: Dataset) -> State:
    said = {"description": dataset.description, "reply": dataset.generates, "cases": counted(dataset.cases or 0)}
    return said, dataset.version


def _export(dataset: Dataset) -> None:
    link = link_button("Export", f"/api/v1/datasets/{dataset.name}/export")
    link.props(f'download="{dataset.name}.jsonl" title="All cases as JSON lines, which load again as a dataset"')


def _no_cases(dataset: Dataset) -> None:
    about = "Paste questions or a table, upload a CSV or JSON lines file, or write one case by hand."
    with empty("playlist_add", "No test cases yet", about):
        link_button("Paste or upload", f"/datasets/{dataset.name}/add", primary=True)
        link_button("Write one", f"/datasets/{dataset.name}/cases/new")


def _declared(workspace: Workspace, dataset: Dataset, sought: Sought, read: DeclaredPage) -> None:
    trail = [(PLACE, "/datasets")]
    with frame(dataset.name, place=PLACE, about=dataset.description, trail=trail) as actions:
        with actions:
            link_button("Copy", f"/datasets/new?source={dataset.name}", primary=True)
            _export(dataset)
        with ui.element("div").classes("origin"):
            badge("declared in conf/, read-only")
        DeclaredList(workspace, dataset.name, sought, read)

"""One dataset and its test cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.cases import case_tags
from evalflow.app.studio.datasets import Dataset, DeclaredPage, declared_page, delete_dataset, get_dataset
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.cases import AT_ONCE, CaseBrowser, CaseList, Found, Sought, case_table, declared_row, number_of
from evalflow.web.pages.datasets import PLACE, counted
from evalflow.web.ui.dialogs import Deleting, State
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, button, empty, link_button

Row = Mapping[str, Any]


class DeclaredList(CaseBrowser[Row]):
    """The list, with the page that was read for it.

    Args:
        workspace: Where.
        dataset: Which.
        sought: What was looked for.
        page: What was found.
    """

    def __init__(self, workspace: Workspace, dataset: str, sought: Sought, page: DeclaredPage) -> None:
        self._workspace = workspace
        super().__init__(dataset, page.tags, sought)
        self.show(_found(page))

    def _read(self, sought: Sought, is_wanted: Callable[[], bool]) -> Found[Row]:
        return _found(read_declared(self._workspace, self._dataset, sought, is_wanted))

    def _table(self, items: Sequence[Row]) -> None:
        with case_table(selectable=False):
            for row in items:
                declared_row(row)


def read_declared(
    workspace: Workspace, dataset: str, sought: Sought, is_wanted: Callable[[], bool] = lambda: True
) -> DeclaredPage:
    """The page that is looked for; blocks."""
    return declared_page(workspace, dataset, sought.first, AT_ONCE, **sought.wanted, is_wanted=is_wanted)


def _found(page: DeclaredPage) -> Found[Row]:
    return Found(page.rows, page.first, page.total, page.is_whole)


def add_dataset(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/datasets/{dataset}")
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
        f"Its {counted(dataset.cases or 0)} are deleted too; runs keep their own copies.",
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

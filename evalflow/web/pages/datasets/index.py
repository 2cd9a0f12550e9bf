"""The datasets: what bots are asked."""

from __future__ import annotations

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.datasets import Dataset, list_datasets
from evalflow.web.pages.address import page
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, empty, link_button, section, text

PLACE = "Test cases"


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/datasets")
    async def datasets() -> None:
        found = await to_thread.run_sync(list_datasets, workspace)
        own = [dataset for dataset in found if dataset.origin == "workspace"]
        about = "What your bots are asked, and what is known about a good answer. A dataset is a set of cases."
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
    """How many there are, in words: `1 case`, `5,000 cases`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cards(datasets: list[Dataset]) -> None:
    with ui.element("div").classes("cards"):
        for dataset in datasets:
            with ui.link(target=f"/datasets/{dataset.name}").classes("card"):
                text(dataset.name, "h3")
                if dataset.description:
                    text(dataset.description, "p", "muted small clamp")
                with ui.element("div").classes("foot"):
                    if dataset.cases is not None:
                        badge(counted(dataset.cases), "accent")
                    if dataset.origin == "conf":
                        badge("conf")


def _none_yet() -> None:
    about = "Begin with a handful of questions that people really ask. Paste them, upload a file, or write them here."
    with empty("checklist", "Collect your first test cases", about):
        link_button("New dataset", "/datasets/new", primary=True)

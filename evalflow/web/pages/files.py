"""Dialogs that write a bot to files of conf/, prompts/ and data/, and take such files in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.datasets import Dataset
from evalflow.app.workspace.space import within
from evalflow.app.workspace.transfer import export_files, import_files
from evalflow.errors import command
from evalflow.web.pages.faults import attempt, tell
from evalflow.web.pages.forms import About, line, several, written
from evalflow.web.pages.parts import button, text

_WHERE = About("Folder", "A new one, below the folder that this application was started in.", "exported", required=True)
_FROM = About(
    "Folder", "It has conf/, and prompts/ and data/ beside it where they are needed.", "exported", required=True
)
_CASES = About("Test cases", "They go along as JSON lines.")


def exporting(workspace: Workspace, bot: str, known: Sequence[Dataset]) -> ui.dialog:
    """Asks where to write a bot with its metrics, and which of the known test cases to take along."""
    own = {one.name: one.name for one in known if one.origin == "workspace"}

    async def export() -> None:
        path = written(folder)
        folder.error = None if path else "is required"
        if path is None:
            return
        where = lambda: Path(within(workspace, Path(path)))  # noqa: E731 - a fault of it belongs beside the field too
        chosen = list(datasets.value) if datasets is not None else []
        done = await attempt(
            lambda: export_files(workspace, where(), bot, chosen) or True, {"folder": folder}, by=confirmed
        )
        if done:
            asked.close()
            tell(f"Written. See what it offers with: {command('list', '--config-dir', f'{path}/conf')}")

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text(f"Export {bot}", "h2")
        text("With its metrics and their prompts, as files that the command line takes.", "p", "muted")
        folder = line(_WHERE)
        datasets = several(_CASES, own, []) if own else None
        with ui.element("div").classes("actions"):
            confirmed = button("Export", export, kind="primary")
            button("Cancel", asked.close)
    asked.props["aria-label"] = f"Export {bot}"
    return asked


def importing(workspace: Workspace) -> ui.dialog:
    """Asks for a folder whose bots, metrics and test cases are then defined here."""

    async def take() -> None:
        path = written(folder)
        folder.error = None if path else "is required"
        if path is None:
            return
        found = await attempt(
            lambda: import_files(workspace, Path(within(workspace, Path(path)))), {"folder": folder}, by=confirmed
        )
        if found is not None:
            ui.navigate.to(f"/bots/{found.bots[0]}" if found.bots else "/datasets")

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text("Import a folder", "h2")
        text("Its bot, metrics and test cases can then be changed here; the files stay as they are.", "p", "muted")
        folder = line(_FROM)
        with ui.element("div").classes("actions"):
            confirmed = button("Import", take, kind="primary")
            button("Cancel", asked.close)
    asked.props["aria-label"] = "Import a folder"
    return asked

"""Choosing a file, and dialogs that export to files and import from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from nicegui import ui
from nicegui.events import UploadEventArguments

from evalflow.app.studio.datasets import Dataset
from evalflow.app.studio.space import Workspace, within
from evalflow.app.studio.transfer import export_files, import_files
from evalflow.errors import command
from evalflow.web.security.guards import LARGEST_UPLOAD
from evalflow.web.ui.parts import About, attempt, button, line, several, tell, text, written

ENDINGS = (".csv", ".tsv", ".jsonl", ".json")
_LARGEST = LARGEST_UPLOAD - 64 * 1024
"""Bytes of a file; what surrounds it in the request counts, too."""
_LIMIT = f"{LARGEST_UPLOAD >> 20} MB"
_SLOT = """
<div class="drop">
  <q-icon name="upload_file" aria-hidden="true"></q-icon>
  <q-btn class="button" unelevated no-caps :ripple="false" label="Choose a file" @click="props.pickFiles">
    <q-uploader-add-trigger></q-uploader-add-trigger>
  </q-btn>
  <span class="muted small">or drop it here</span>
</div>
"""


def dropping(on_upload: Callable[[UploadEventArguments], Awaitable[None]]) -> None:
    """Build it; a file that is too large, or of another kind, is refused before it is sent."""

    def refused(event: Any) -> None:
        name, size = event.args
        if size > _LARGEST:
            _say(
                said,
                f"{name} has {size / 2**20:,.0f} MB; at most {_LIMIT} can be uploaded. Split it, and upload the parts.",
            )
        else:
            how = " Save the sheet as “CSV UTF-8”, or copy its cells and paste them." if _is_sheet(name) else ""
            _say(said, f"{name} has the wrong file type; use one of {', '.join(ENDINGS)}.{how}")

    upload = ui.upload(on_upload=on_upload, max_file_size=_LARGEST, max_files=1, auto_upload=True)
    upload.props(f"accept={','.join(ENDINGS)} flat").classes("dropping")
    upload.add_slot("header", _SLOT)
    upload.add_slot("list", "<div></div>")
    upload.on("rejected", refused, js_handler="(found) => emit([found[0].file.name, found[0].file.size])")
    upload.on("failed", lambda: _say(said, f"The upload failed; at most {_LIMIT} can be uploaded."), args=[])
    text(f"At most {_LIMIT}; {', '.join(ENDINGS)}", classes="muted small")
    said = ui.element("div").props("aria-live=assertive")


def _is_sheet(name: str) -> bool:
    return name.lower().endswith((".xlsx", ".xls", ".ods", ".numbers"))


def _say(place: ui.element, what: str) -> None:
    place.clear()
    with place:
        text(what, classes="fault")


_WHERE = About("Folder", "A new folder, inside the one where evalflow was started.", "exported", required=True)
_FROM = About("Folder", "A folder with conf/ and, if needed, prompts/ and data/.", "exported", required=True)
_CASES = About("Test cases", "Exported as JSON lines.")


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
            tell(f"Exported. List its contents with: {command('list', '--config-dir', f'{path}/conf')}")

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text(f"Export {bot}", "h2")
        text("With its metrics and their prompts, as files for the command line.", "p", "muted")
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
        text("You can then edit its bot, metrics and test cases here; the files do not change.", "p", "muted")
        folder = line(_FROM)
        with ui.element("div").classes("actions"):
            confirmed = button("Import", take, kind="primary")
            button("Cancel", asked.close)
    asked.props["aria-label"] = "Import a folder"
    return asked

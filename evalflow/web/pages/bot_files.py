"""A bot as files: dialogs to download it, to write it to a folder, and to read such a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nicegui import ui

from evalflow.app.studio.space import Workspace, within
from evalflow.app.studio.transfer import export_files, import_files
from evalflow.errors import command
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import dialog, folder_dialog, question
from evalflow.web.ui.parts import address, button, link_button, tell
from evalflow.web.ui.visitor import title_of

_CASES = forms.About("Test cases", "As JSON lines.")


def import_dialog(workspace: Workspace) -> ui.dialog:
    """A dialog that asks for a folder to import."""

    async def take(path: str, field: forms.Field, by: ui.button) -> None:
        work = lambda: import_files(workspace, Path(within(workspace, Path(path))))  # noqa: E731
        found = await forms.attempt(work, {"folder": field}, by)
        if found is not None:
            ui.navigate.to(f"/bots/{found.bots[0]}" if found.bots else "/datasets")

    folder = forms.About("Folder", "A folder with conf/ and, if needed, prompts/ and data/.", "exported", required=True)
    about = "You can then edit its bot, metrics and test cases here; the files do not change."
    return folder_dialog("Import a folder", about, folder, "Import", take)


def download_dialog(bot: str, datasets: Mapping[str, str], chosen: Sequence[str]) -> ui.dialog:
    """A dialog that downloads a bot with some datasets as a zip archive."""

    def path() -> str:
        return address(f"/api/v1/bots/{bot}/archive", {"dataset": list(picked.value) if picked else []})

    about = "A zip with its metrics, prompts, judges and checks; unpacked, it runs on the command line. Keys stay here."
    with dialog(f"Download {title_of('bot', bot)}", about) as asked:
        picked = forms.several(_CASES, datasets, [name for name in chosen if name in datasets]) if datasets else None
        with ui.element("div").classes("actions"):
            link = link_button("Download the zip", path(), primary=True).props("download").on("click", asked.close)
            button("Cancel", asked.close)
        if picked:
            picked.on_value_change(lambda: link.props.update(href=path()))
    return asked


def export_dialog(workspace: Workspace, bot: str, datasets: Mapping[str, str], used: Sequence[str]) -> ui.dialog:
    """A dialog that writes a bot with some datasets to a folder of this machine."""

    async def export(exporting: ui.button) -> None:
        path = forms.required(folder)
        if path is None:
            return

        def work() -> None:
            export_files(workspace, Path(within(workspace, Path(path))), bot, list(chosen.value) if chosen else [])

        if await forms.succeeds(work, {"folder": folder}, exporting):
            asked.close()
            tell(f"Exported. List its contents with: {command('list', '--config-dir', f'{path}/conf')}")

    about = "With its metrics and their prompts, as files for the command line."
    with question(f"Export {title_of('bot', bot)}", about, "Write the files", export) as asked:
        help = "A new folder, inside the one where evalflow was started."
        folder = forms.line(forms.About("Folder", help, "exported", required=True))
        chosen = forms.several(_CASES, datasets, [name for name in used if name in datasets]) if datasets else None
    return asked

"""The bots: the list, a bot with its settings, and download, export and import of bots as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.bot_form import BotEditor, BotForm, BotTrial, bot_content
from evalflow.addons.studio.web.pages.first_start import first_steps
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import delete_button, dialog, edited, folder_dialog, question
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.headline import sentence
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import (
    READY_TO_USE,
    Tone,
    address,
    badge,
    button,
    card,
    empty,
    facts,
    link_button,
    section,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.bot_home import Headline, headlines
from evalflow.addons.studio.work.bots import BOTS, Bot, delete_bot, get_bot, list_bots
from evalflow.addons.studio.work.connections import connection_names
from evalflow.addons.studio.work.datasets import Dataset, list_datasets
from evalflow.addons.studio.work.definitions import given, taken_names
from evalflow.addons.studio.work.runs import next_request
from evalflow.addons.studio.work.space import Workspace, within
from evalflow.addons.studio.work.transfer import export_files, import_files
from evalflow.errors import command
from evalflow.report.wording import joined
from evalflow.values.jsonvalues import written

KINDS = {"openai": "OpenAI-compatible", "http": "HTTP service", "recorded": "Recorded answers"}
_LABELS = {
    "model": "Model",
    "base_url": "Address",
    "url": "Address",
    "method": "Method",
    "api_key_env": "API key variable",
    "temperature": "Temperature",
    "max_tokens": "Maximum length (tokens)",
    "timeout_s": "Time-out (seconds)",
    "parameters": "Further parameters",
    "extract": "Scored part",
    "thoughts": "Thoughts",
    "finish_reason": "Finish reason path",
    "answer": "Answer path",
    "contexts": "Contexts path",
    "actual": "Prediction path",
    "trace": "Trace path",
}


@guarded_page("/")
async def _bots_page(workspace: Workspace) -> None:
    available = await to_thread.run_sync(list_bots, workspace)
    own = [bot for bot in available if bot.origin == "workspace"]
    latest = await to_thread.run_sync(headlines, workspace)
    about = "The bots you test: a model, your own service, or recorded answers."
    with frame("Bots", place="Bots", about=about) as actions:
        with actions:
            if may("own"):
                button("Import a folder", import_dialog(workspace).open)
            if own and may("edit"):
                link_button("New bot", "/bots/new", primary=True)
        if own:
            _cards(own, latest)
        elif not may("edit"):
            empty("smart_toy", "No bots yet", "Editors of the project describe the bots that it tests.")
        else:
            first_steps(workspace, await to_thread.run_sync(connection_names, workspace))
        with section("Ready to use", "Samples, and what files of this server declare. Copy one to change it."):
            _cards([bot for bot in available if bot.origin == "conf"], latest)


@guarded_page("/bots/new", "edit")
async def _new_page(workspace: Workspace, source: str = "") -> None:
    copied = await to_thread.run_sync(get_bot, workspace, source) if source else None
    connections = await to_thread.run_sync(connection_names, workspace)
    taken = await to_thread.run_sync(taken_names, workspace, BOTS)
    title = f"Copy of {copied.title}" if copied else "New bot"
    with frame(title, place="Bots", trail=[("Bots", "/")]):
        config = given(copied.config) if copied else {"kind": "openai"}
        field = partial(TitleField, "bot", "Support bot", taken)
        form = BotForm(config, field, copied.description if copied else "", connections)
        BotEditor(workspace, form, None)


@guarded_page("/bots/{bot}/edit", "edit")
async def _edit_page(workspace: Workspace, bot: str) -> None:
    definition = await to_thread.run_sync(get_bot, workspace, bot)
    connections = await to_thread.run_sync(connection_names, workspace)
    trail = [(f"Settings of {definition.title}", f"/bots/{bot}/settings")]
    with frame(f"Edit {definition.title}", place="Bots", trail=trail):
        field = partial(TitleField, "bot", "Support bot", title=definition.title, name=definition.name)
        BotEditor(workspace, BotForm(definition.config, field, definition.description, connections), definition)


@guarded_page("/bots/{bot}/settings")
async def _settings_page(workspace: Workspace, bot: str) -> None:
    definition = await to_thread.run_sync(get_bot, workspace, bot)
    datasets = await to_thread.run_sync(list_datasets, workspace)
    used = (await to_thread.run_sync(next_request, workspace, bot)).datasets
    about = "How the bot is reached. Try a question to see that it answers."
    trail = [(definition.title, f"/bots/{bot}")]
    with frame(f"Settings of {definition.title}", place="Bots", about=about, trail=trail) as actions:
        with actions:
            _actions(workspace, definition, datasets, used)
        _connection(definition)
        if definition.config.get("kind") != "recorded" and may("edit"):
            with ui.element("div").classes("section"):
                BotTrial(workspace, lambda: definition.name, lambda: given(definition.config), {})


def _cards(bots: list[Bot], latest: Mapping[str, Headline]) -> None:
    with ui.element("div").classes("cards"):
        for bot in bots:
            kind = str(bot.config.get("kind"))
            badges: list[tuple[str, Tone]] = [(KINDS[kind], "accent")] if kind in KINDS else []
            if bot.origin == "conf":
                badges.append((READY_TO_USE, ""))
            about = bot.description or _endpoint(bot.config)
            shown = latest.get(bot.name)
            summary = joined(sentence(shown), shown.run.taken.in_words) if shown else about
            card(bot.title, f"/bots/{bot.name}", summary, badges).classes("scored" if bot.name in latest else "")


def _endpoint(config: Mapping[str, Any]) -> str:
    if config.get("kind") == "http":
        return f"{config.get('method', 'POST')} {config.get('url', '')}"
    return " at ".join(str(config[key]) for key in ("model", "base_url") if config.get(key))


def _actions(workspace: Workspace, bot: Bot, datasets: Sequence[Dataset], used: Sequence[str]) -> None:
    if not may("edit"):
        return
    link_button("Copy", f"/bots/new?source={bot.name}")
    if bot.origin == "workspace":
        link_button("Edit", f"/bots/{bot.name}/edit")
        own = {dataset.name: dataset.title for dataset in datasets if dataset.origin == "workspace"}
        button("Download as zip", download_dialog(bot.name, own, used).open)
        if may("own"):
            button("Export to a folder", export_dialog(workspace, bot.name, own, used).open)
        about = "Its metrics are deleted too; its runs and their results stay."
        delete = partial(delete_bot, workspace, bot.name)
        delete_button(edited(get_bot, workspace, bot_content, bot), bot.title, about, delete, "/")


def _connection(bot: Bot) -> None:
    config = given(bot.config)
    with section("Connection"), ui.element("div").classes("card stack"):
        with ui.element("div").classes("actions"):
            badge(KINDS.get(str(bot.config.get("kind")), "Unknown"), "accent")
            if bot.origin == "conf":
                badge("from files of this server, read-only")
        facts([(label, "" if config.get(key) is None else written(config[key])) for key, label in _LABELS.items()])
        for key, label in (("system_prompt", "System prompt"), ("prompt", "Prompt")):
            if bot.config.get(key):
                text(label, "h3")
                text(str(bot.config[key]), classes="text muted")


_CASES = forms.About("Test cases", "As JSON lines.")


def import_dialog(workspace: Workspace) -> ui.dialog:
    """A dialog that asks for a folder to import."""

    async def take(path: str, field: forms.Field, by: ui.button) -> None:
        work = lambda: import_files(workspace, Path(within(workspace, Path(path))))  # noqa: E731
        imported = await forms.attempt(work, {"folder": field}, by)
        if imported is not None:
            ui.navigate.to(f"/bots/{imported.bots[0]}" if imported.bots else "/datasets")

    folder = forms.About("Folder", "A folder of the server with an exported bot.", "exported", required=True)
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

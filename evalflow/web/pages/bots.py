"""The bots: the list with import, and one bot with a question to try it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.bots import Bot, delete_bot, get_bot, list_bots, try_bot
from evalflow.app.studio.datasets import Dataset, list_datasets
from evalflow.app.studio.definitions import given
from evalflow.app.studio.space import Workspace, within
from evalflow.app.studio.transfer import export_files, import_files
from evalflow.errors import command
from evalflow.records import Answer
from evalflow.web.ui.dialogs import Deleting, State, dialog, folder_dialog
from evalflow.web.ui.forms import (
    About,
    Field,
    area,
    attempt,
    faults_shown,
    line,
    required,
    reveal,
    several,
    written,
)
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import Tone, badge, button, card, empty, facts, link_button, message, section, tell, text

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
    "answer": "Answer path",
    "contexts": "Contexts path",
    "actual": "Prediction path",
}


def add_bots(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/")
    async def bots() -> None:
        found = await to_thread.run_sync(list_bots, workspace)
        own = [bot for bot in found if bot.origin == "workspace"]
        about = "The bots you test: a model, your own service, or recorded answers."
        with frame("Bots", place="Bots", about=about) as actions:
            with actions:
                button("Import a folder", _import_dialog(workspace).open)
                if own:
                    link_button("New bot", "/bots/new", primary=True)
            if own:
                _cards(own)
            else:
                about = (
                    "Enter how to reach your bot and try a question; then write test cases and see how well it answers."
                )
                with empty("smart_toy", "Describe your first bot", about):
                    link_button("New bot", "/bots/new", primary=True)
            with section("Ready to use", "Declared in conf/. Copy one to change it."):
                _cards([bot for bot in found if bot.origin == "conf"])


def _cards(bots: list[Bot]) -> None:
    with ui.element("div").classes("cards"):
        for bot in bots:
            kind = bot.config.get("kind")
            badges: list[tuple[str, Tone]] = [(KINDS[kind], "accent")] if kind in KINDS else []
            if bot.origin == "conf":
                badges.append(("conf", ""))
            card(bot.name, f"/bots/{bot.name}", bot.description or _endpoint(bot.config), badges)


def _endpoint(config: Mapping[str, Any]) -> str:
    """The model or URL that answers, in one line."""
    if config.get("kind") == "http":
        return f"{config.get('method', 'POST')} {config.get('url', '')}"
    return " at ".join(str(config[key]) for key in ("model", "base_url") if config.get(key))


def _import_dialog(workspace: Workspace) -> ui.dialog:
    async def take(path: str, field: Field, by: ui.button) -> None:
        work = lambda: import_files(workspace, Path(within(workspace, Path(path))))  # noqa: E731
        found = await attempt(work, {"folder": field}, by)
        if found is not None:
            ui.navigate.to(f"/bots/{found.bots[0]}" if found.bots else "/datasets")

    folder = About("Folder", "A folder with conf/ and, if needed, prompts/ and data/.", "exported", required=True)
    about = "You can then edit its bot, metrics and test cases here; the files do not change."
    return folder_dialog("Import a folder", about, folder, "Import", take)


def add_bot(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/bots/{bot}")
    async def one(bot: str) -> None:
        found = await to_thread.run_sync(get_bot, workspace, bot)
        datasets = await to_thread.run_sync(list_datasets, workspace)
        with frame(found.name, place="Bots", about=found.description, trail=[("Bots", "/")]) as actions:
            with actions:
                _actions(workspace, found, datasets)
            _connection(found)
            if found.config.get("kind") != "recorded":
                with ui.element("div").classes("section"):
                    BotTrial(workspace, lambda: found.name, lambda: given(found.config), {})


def _actions(workspace: Workspace, bot: Bot, datasets: Sequence[Dataset]) -> None:
    is_own = bot.origin == "workspace"
    if is_own:
        link_button("Metrics", f"/bots/{bot.name}/metrics", primary=True)
    link_button("Run it", f"/runs/new?bot={bot.name}")
    link_button("Copy", f"/bots/new?source={bot.name}")
    if is_own:
        link_button("Edit", f"/bots/{bot.name}/edit")
        button("Export", _export_dialog(workspace, bot.name, datasets).open)
        asked = Deleting(
            f"Delete {bot.name}?",
            "Its metrics are deleted too; its runs and their results stay.",
            lambda version: delete_bot(workspace, bot.name, version),
            partial(bot_state, workspace, bot.name),
            ({"description": bot.description, **bot.config}, bot.version),
            "/",
        )
        button("Delete", asked.open, kind="danger")


def bot_state(workspace: Workspace, name: str) -> State:
    """The stored content and version of a bot."""
    bot = get_bot(workspace, name)
    return {"description": bot.description, **bot.config}, bot.version


def _export_dialog(workspace: Workspace, bot: str, datasets: Sequence[Dataset]) -> ui.dialog:
    own = {dataset.name: dataset.name for dataset in datasets if dataset.origin == "workspace"}

    async def export() -> None:
        path = required(folder)
        if path is None:
            return

        def work() -> bool:
            export_files(workspace, Path(within(workspace, Path(path))), bot, list(chosen.value) if chosen else [])
            return True

        if await attempt(work, {"folder": folder}, by=exporting):
            asked.close()
            tell(f"Exported. List its contents with: {command('list', '--config-dir', f'{path}/conf')}")

    about = "With its metrics and their prompts, as files for the command line."
    with dialog(f"Export {bot}", about) as asked:
        help = "A new folder, inside the one where evalflow was started."
        folder = line(About("Folder", help, "exported", required=True))
        chosen = several(About("Test cases", "Exported as JSON lines."), own, []) if own else None
        with ui.element("div").classes("actions"):
            exporting = button("Export", export, kind="primary")
            button("Cancel", asked.close)
    return asked


def _connection(bot: Bot) -> None:
    config = given(bot.config)
    with section("Connection"), ui.element("div").classes("card stack"):
        with ui.element("div").classes("actions"):
            badge(KINDS.get(str(bot.config.get("kind")), "Unknown"), "accent")
            if bot.origin == "conf":
                badge("declared in conf/, read-only")
        facts([(label, "" if config.get(key) is None else str(config[key])) for key, label in _LABELS.items()])
        for key, label in (("system_prompt", "System prompt"), ("prompt", "Prompt")):
            if bot.config.get(key):
                text(label, "h3")
                text(str(bot.config[key]), classes="text muted")


class BotTrial:
    """A card to ask the bot a question and see its answer.

    `config` returns the current configuration and may raise UserError, which is shown at `fields`.
    """

    def __init__(
        self,
        workspace: Workspace,
        name: Callable[[], str],
        config: Callable[[], Mapping[str, Any]],
        fields: Mapping[str, Field],
    ) -> None:
        self._workspace = workspace
        self._name, self._config, self._fields = name, config, fields
        with ui.element("div").classes("card trial stack"):
            text("Try it", "h2")
            about = About("Question", "Sent unchanged; not saved.", "What does the licence cost?", required=True)
            self._question = area(about)
            with ui.element("div").classes("actions"):
                self._asking = button("Ask", self._ask)
            self._reply = ui.element("div").props("aria-live=polite")

    async def _ask(self) -> None:
        self._reply.clear()
        with faults_shown({**self._fields, "question": self._question}, self._asking):
            asked = self._name(), self._config(), written(self._question) or ""
            answer = await self._workspace.ask(lambda: try_bot(*asked))
            with self._reply:
                _show(answer)
            reveal(self._reply)


def _show(answer: Answer) -> None:
    if answer.status == "error":
        message("The bot gave no answer", answer.error or "", "fail")
        return
    content = answer.answer if answer.answer is not None else answer.actual
    usage = answer.usage
    text("Answer", "h3")
    text(str(content) if content is not None else "(nothing)", classes="text said")
    facts([
        ("Time", f"{answer.latency_s:.2f} s" if answer.latency_s is not None else ""),
        ("Tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
        ("Contexts", "" if answer.contexts is None else str(len(answer.contexts))),
    ])  # fmt: skip

"""One bot: how it is connected, and a question to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import Bot, delete_bot, get_bot
from evalflow.app.workspace.datasets import Dataset, list_datasets
from evalflow.app.workspace.library import given
from evalflow.web.pages.address import page
from evalflow.web.pages.bots.index import KINDS
from evalflow.web.pages.bots.trial import Trial
from evalflow.web.pages.deleting import Deleting, State
from evalflow.web.pages.files import exporting
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, button, facts, link_button, section, text

_NAMES = {
    "model": "Model",
    "base_url": "Address",
    "url": "Address",
    "method": "Method",
    "api_key_env": "API key from",
    "temperature": "Temperature",
    "max_tokens": "Longest answer",
    "timeout_s": "Patience in s",
    "answer": "Answer at",
    "contexts": "Contexts at",
    "actual": "Prediction at",
}


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/bots/{bot}")
    async def one(bot: str) -> None:
        found = await to_thread.run_sync(get_bot, workspace, bot)
        known = await to_thread.run_sync(list_datasets, workspace)
        with frame(found.name, place="Bots", about=found.description, trail=[("Bots", "/")]) as actions:
            with actions:
                _actions(workspace, found, known)
            _connection(found)
            if found.config.get("kind") != "recorded":
                with ui.element("div").classes("section"):
                    Trial(workspace, lambda: found.name, lambda: given(found.config), {})


def _actions(workspace: Workspace, bot: Bot, known: Sequence[Dataset]) -> None:
    if bot.origin == "workspace":
        link_button("Metrics", f"/bots/{bot.name}/metrics", primary=True)
    link_button("Run it", f"/runs/new?bot={bot.name}")
    link_button("Copy", f"/bots/new?source={bot.name}")
    if bot.origin == "workspace":
        link_button("Edit", f"/bots/{bot.name}/edit")
        button("Export", exporting(workspace, bot.name, known).open)
        asked = _deletion(workspace, bot)
        button("Delete", asked.open, kind="danger")


def _connection(bot: Bot) -> None:
    with section("Connection"), ui.element("div").classes("card stack"):
        with ui.element("div").classes("actions"):
            badge(KINDS.get(str(bot.config.get("kind")), "Unknown"), "accent")
            if bot.origin == "conf":
                badge("declared in conf/, read-only")
        facts([(name, _said(bot.config, key)) for key, name in _NAMES.items()])
        for key, name in (("system_prompt", "System prompt"), ("prompt", "Prompt")):
            if bot.config.get(key):
                text(name, "h3")
                text(str(bot.config[key]), classes="text muted")


def _said(config: Mapping[str, Any], key: str) -> str:
    value = given(config).get(key)
    return "" if value is None else str(value)


def _deletion(workspace: Workspace, bot: Bot) -> Deleting:
    return Deleting(
        f"Delete {bot.name}?",
        "Its metrics go with it; its runs and their results stay.",
        lambda version: delete_bot(workspace, bot.name, version),
        _state(bot),
        lambda: _state(get_bot(workspace, bot.name)),
        "/",
    )


def _state(bot: Bot) -> State:
    return {"description": bot.description, **bot.config}, bot.version

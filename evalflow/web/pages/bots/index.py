"""The bots: what is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import Bot, list_bots
from evalflow.web.pages.address import page
from evalflow.web.pages.files import importing
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, button, empty, link_button, section, text

KINDS = {"openai": "OpenAI-compatible", "http": "HTTP service", "recorded": "Recorded answers"}


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/")
    async def bots() -> None:
        found = await to_thread.run_sync(list_bots, workspace)
        own = [bot for bot in found if bot.origin == "workspace"]
        about = "What is evaluated: a model, a service of your own, or answers that you have recorded."
        with frame("Bots", place="Bots", about=about) as actions:
            with actions:
                button("Import a folder", importing(workspace).open)
                if own:
                    link_button("New bot", "/bots/new", primary=True)
            if own:
                _cards(own)
            else:
                _none_yet()
            with section("Ready to use", "Declared in conf/. Copy one to change it."):
                _cards([bot for bot in found if bot.origin == "conf"])


def where(config: Mapping[str, Any]) -> str:
    """In one line, what is asked."""
    if config.get("kind") == "http":
        return f"{config.get('method', 'POST')} {config.get('url', '')}"
    return " at ".join(str(config[key]) for key in ("model", "base_url") if config.get(key))


def _cards(bots: list[Bot]) -> None:
    with ui.element("div").classes("cards"):
        for bot in bots:
            with ui.link(target=f"/bots/{bot.name}").classes("card"):
                text(bot.name, "h3")
                text(bot.description or where(bot.config), "p", "muted small clamp")
                with ui.element("div").classes("foot"):
                    kind = bot.config.get("kind")
                    if kind in KINDS:
                        badge(KINDS[kind], "accent")
                    if bot.origin == "conf":
                        badge("conf")


def _none_yet() -> None:
    about = "Say how your bot is reached and ask it something; then write test cases and see how well it answers."
    with empty("smart_toy", "Describe your first bot", about):
        link_button("New bot", "/bots/new", primary=True)

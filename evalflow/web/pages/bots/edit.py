"""A new bot, or another connection of one that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import Bot, create_bot, get_bot, update_bot
from evalflow.app.workspace.library import given
from evalflow.errors import UserError
from evalflow.web.pages.address import page
from evalflow.web.pages.bots.form import BotForm
from evalflow.web.pages.bots.trial import Trial
from evalflow.web.pages.faults import attempt, show
from evalflow.web.pages.forms import written
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, link_button
from evalflow.web.pages.saving import Saving
from evalflow.web.pages.unsaved import form, leave


def add(workspace: Workspace) -> None:
    """Register the pages."""

    @page("/bots/new")
    async def new(source: str = "") -> None:
        bot = await to_thread.run_sync(get_bot, workspace, source) if source else None
        title = f"Copy of {bot.name}" if bot else "New bot"
        with frame(title, place="Bots", trail=[("Bots", "/")]):
            config = given(bot.config) if bot else {"kind": "openai"}
            _New(workspace, config, bot.description if bot else "")

    @page("/bots/{bot}/edit")
    async def edit(bot: str) -> None:
        found = await to_thread.run_sync(get_bot, workspace, bot)
        with frame(f"Edit {found.name}", place="Bots", trail=[(found.name, f"/bots/{found.name}")]):
            _Edit(workspace, found)


class _Editor:
    """The form with what can be done with it."""

    def __init__(self, workspace: Workspace, form: BotForm, back: str) -> None:
        self._workspace, self.form = workspace, form
        with ui.element("div").classes("section"):
            Trial(workspace, self.named, self.form.read, self.form.fields)
        with ui.element("div").classes("section actions"):
            self.saving = button("Save", self.save, kind="primary")
            link_button("Cancel", back)

    def named(self) -> str:
        """What the bot is called, or will be."""
        raise NotImplementedError

    async def save(self) -> None:
        """Keep what the fields say, and show it."""
        try:
            config = self.form.read()
        except UserError as error:
            show(error, self.form.fields)
            return
        await self.keep(config, written(self.form.description) or "")

    async def keep(self, config: Mapping[str, Any], description: str) -> None:
        """Store it and go to its page, or show why not."""
        raise NotImplementedError


class _New(_Editor):
    def __init__(self, workspace: Workspace, config: Mapping[str, Any], description: str) -> None:
        with form():
            fields = BotForm(config, description=description)
        super().__init__(workspace, fields, "/")

    def named(self) -> str:
        return self.form.name.read() or "bot"

    async def keep(self, config: Mapping[str, Any], description: str) -> None:
        name = self.form.name.read()
        work = lambda: create_bot(self._workspace, name, config, description)  # noqa: E731
        if await attempt(work, self.form.fields, self.saving):
            leave(f"/bots/{name}")


class _Edit(_Editor):
    def __init__(self, workspace: Workspace, bot: Bot) -> None:
        self._bot = bot
        with form():
            fields = BotForm(bot.config, name=bot.name, description=bot.description)
        super().__init__(workspace, fields, f"/bots/{bot.name}")
        self._conflict = Saving[Bot](self._there, bot.version, f"/bots/{bot.name}/edit")

    def named(self) -> str:
        return self._bot.name

    def _there(self) -> tuple[Mapping[str, Any], int]:
        found = get_bot(self._workspace, self._bot.name)
        return {"description": found.description, **found.config}, found.version

    async def keep(self, config: Mapping[str, Any], description: str) -> None:
        name = self._bot.name
        await self._conflict.save(
            lambda version: update_bot(self._workspace, name, version, config=config, description=description),
            {"description": description, **config},
            self.form.fields,
            self.saving,
            lambda _: leave(f"/bots/{name}"),
        )

"""The pages of bots: list, detail, form and trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.bots import Bot, create_bot, delete_bot, get_bot, list_bots, try_bot, update_bot
from evalflow.app.studio.datasets import Dataset, list_datasets
from evalflow.app.studio.library import given
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError, UserError
from evalflow.records import Answer
from evalflow.web.pages.bot_form import BotForm
from evalflow.web.ui.dialogs import Deleting, Saving, State, form, leave
from evalflow.web.ui.files import exporting, importing
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    About,
    Field,
    Tone,
    area,
    attempt,
    badge,
    button,
    card,
    empty,
    facts,
    link_button,
    message,
    reveal,
    section,
    show,
    text,
    written,
)

KINDS = {"openai": "OpenAI-compatible", "http": "HTTP service", "recorded": "Recorded answers"}


def add_bots(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/")
    async def bots() -> None:
        found = await to_thread.run_sync(list_bots, workspace)
        own = [bot for bot in found if bot.origin == "workspace"]
        about = "The bots you test: a model, your own service, or recorded answers."
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


def endpoint(config: Mapping[str, Any]) -> str:
    """The model or URL that answers, in one line."""
    if config.get("kind") == "http":
        return f"{config.get('method', 'POST')} {config.get('url', '')}"
    return " at ".join(str(config[key]) for key in ("model", "base_url") if config.get(key))


def _cards(bots: list[Bot]) -> None:
    with ui.element("div").classes("cards"):
        for bot in bots:
            badges: list[tuple[str, Tone]] = (
                [(KINDS[kind], "accent")] if (kind := bot.config.get("kind")) in KINDS else []
            )
            if bot.origin == "conf":
                badges.append(("conf", ""))
            card(bot.name, f"/bots/{bot.name}", bot.description or endpoint(bot.config), badges)


def _none_yet() -> None:
    about = "Enter how to reach your bot and try a question; then write test cases and see how well it answers."
    with empty("smart_toy", "Describe your first bot", about):
        link_button("New bot", "/bots/new", primary=True)


class Trial:
    """A card to ask the bot a question and see its answer.

    Args:
        workspace: Everything that is stored.
        name: Returns the bot's name.
        config: Returns the current configuration; may raise UserError.
        fields: Fields at which errors of the configuration are shown.
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
        fields = {**self._fields, "question": self._question}
        for field in fields.values():
            field.error = None
        self._reply.clear()
        self._asking.props("loading")
        try:
            asked = self._name(), self._config(), written(self._question) or ""
            answer = await self._workspace.ask(lambda: try_bot(*asked))
        except EvalflowError as error:
            show(error, fields)
            return
        finally:
            self._asking.props(remove="loading")
        with self._reply:
            _show(answer)
        reveal(self._reply)


def _show(answer: Answer) -> None:
    if answer.status == "error":
        message("The bot gave no answer", answer.error or "", "fail")
        return
    said = answer.answer if answer.answer is not None else answer.actual
    text("Answer", "h3")
    text(str(said) if said is not None else "(nothing)", classes="text said")
    contexts = len(answer.contexts) if answer.contexts is not None else None
    usage = answer.usage
    facts([
        ("Time", f"{answer.latency_s:.2f} s" if answer.latency_s is not None else ""),
        ("Tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
        ("Contexts", "" if contexts is None else str(contexts)),
    ])  # fmt: skip


_NAMES = {
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


def add_bot(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/bots/{bot}")
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
        facts([(name, _config_text(bot.config, key)) for key, name in _NAMES.items()])
        for key, name in (("system_prompt", "System prompt"), ("prompt", "Prompt")):
            if bot.config.get(key):
                text(name, "h3")
                text(str(bot.config[key]), classes="text muted")


def _config_text(config: Mapping[str, Any], key: str) -> str:
    value = given(config).get(key)
    return "" if value is None else str(value)


def _deletion(workspace: Workspace, bot: Bot) -> Deleting:
    return Deleting(
        f"Delete {bot.name}?",
        "Its metrics are deleted too; its runs and their results stay.",
        lambda version: delete_bot(workspace, bot.name, version),
        _state(bot),
        lambda: _state(get_bot(workspace, bot.name)),
        "/",
    )


def _state(bot: Bot) -> State:
    return {"description": bot.description, **bot.config}, bot.version


def add_bot_edit(workspace: Workspace) -> None:
    """Register the pages."""

    @guarded_page("/bots/new")
    async def new(source: str = "") -> None:
        bot = await to_thread.run_sync(get_bot, workspace, source) if source else None
        title = f"Copy of {bot.name}" if bot else "New bot"
        with frame(title, place="Bots", trail=[("Bots", "/")]):
            config = given(bot.config) if bot else {"kind": "openai"}
            _New(workspace, config, bot.description if bot else "")

    @guarded_page("/bots/{bot}/edit")
    async def edit(bot: str) -> None:
        found = await to_thread.run_sync(get_bot, workspace, bot)
        with frame(f"Edit {found.name}", place="Bots", trail=[(found.name, f"/bots/{found.name}")]):
            _Edit(workspace, found)


class _Editor:
    """The form with its trial and buttons; subclasses name and save the bot."""

    def __init__(self, workspace: Workspace, form: BotForm, back: str) -> None:
        self._workspace, self.form = workspace, form
        with ui.element("div").classes("section"):
            Trial(workspace, self.named, self.form.read, self.form.fields)
        with ui.element("div").classes("section actions"):
            self.saving = button("Save", self.save, kind="primary")
            link_button("Cancel", back)

    def named(self) -> str:
        """The name of the bot."""
        raise NotImplementedError

    async def save(self) -> None:
        """Save the form."""
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

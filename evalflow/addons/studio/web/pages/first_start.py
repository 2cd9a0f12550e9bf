"""The page of an empty workspace: try a sample run, or connect your own bot."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.endpoint import (
    ADDRESS,
    MODEL,
    ModelField,
    by_problem,
    key_field,
    pick_connection,
    show_answer,
)
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.parts import Latest, address, button, in_sentences, link_button, message, text
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work.bots import list_models, try_bot
from evalflow.addons.studio.work.first_case import FirstCase, save_first_case
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run, create_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import EvalflowError, UserError
from evalflow.records import Answer

SAMPLE = RunRequest("recorded", ["rag"], ["faithfulness"], judge="embedded", title="Sample bot")
_STEPS = (
    ("Sample answers", "60 questions with a bot’s recorded answers and the passages it read. Some answers are wrong."),
    (
        "One run",
        "Each answer is compared with its passages by text overlap. No key, no cost, nothing is sent.",
    ),
    ("Scored cases", "Read the worst answers first, each with its score and the reason. Then test your own bot."),
)
_ADDRESS = replace(
    ADDRESS, help="The base URL of any OpenAI-compatible service, up to and including /v1. Empty: OpenAI's."
)
_MODEL = replace(MODEL, help="The model's name. Those that the address lists are offered.")
_QUESTION = forms.About("First question", "What a user would ask your bot.", "What does the licence cost?", True)
_EXPECTED = forms.About(
    "Expected answer", "The ideal answer; required if your criteria mention it.", "40 pounds a year"
)
_CRITERIA = forms.About(
    "Criteria", "What a good answer is, in your words.", "It says the same as the expected answer.", True
)
_WAYS = {"judge": "A judge reads it and decides by your criteria", "text": "It contains the expected answer"}


def first_steps(workspace: Workspace, connections: Sequence[str] | None) -> None:
    """The sample run, and the form of an own bot. `connections`: the only ones it may call; None: any address."""
    key = f"sample-{uuid.uuid4().hex}"

    def show(run: Run) -> None:
        ui.navigate.to(f"/runs/{run.run_id}")

    with ui.element("section").classes("card first-steps"):
        text("See how it works on a sample bot", "h2")
        with ui.element("ol"):
            for title, about in _STEPS:
                with ui.element("li"):
                    text(title, "h3")
                    text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            start = partial(create_run, workspace, SAMPLE, key)
            work_button("Try the sample bot", start, show, kind="primary", icon="play_arrow")
    with ui.element("section").classes("card first-steps stack"):
        text("Test your own bot", "h2")
        text("Ask it a question, say what a good answer is, and see the first case scored.", "p", "muted")
        if connections == []:
            message("This server has no connections yet.", "A bot is called through one, so that its key stays here.")
            with ui.element("div").classes("actions"):
                link_button("Connections", "/connections/new" if may("own") else "/connections")
        else:
            _OwnBot(workspace, connections)
        with ui.element("p").classes("small muted"):
            ui.link("New bot", "/bots/new")
            text(" has every setting, and takes HTTP services and recorded answers too.", "span")


class _OwnBot:
    """A form that asks an own bot, and after its answer offers a first case."""

    def __init__(self, workspace: Workspace, connections: Sequence[str] | None) -> None:
        self._workspace = workspace
        self._latest = Latest()
        self._fields: dict[str, forms.Field] = {}
        self._request: RunRequest | None = None
        self._creation = uuid.uuid4().hex
        with forms.form():
            if connections is None:
                self._called = {"base_url": forms.line(_ADDRESS), "api_key_env": key_field("")}
            else:
                self._called = {"connection": pick_connection({}, connections)}
            for field in self._called.values():
                if connections is None:
                    field.on("blur", self._offer_models)
                else:
                    field.on_value_change(self._offer_models)
            self._model = ModelField(_MODEL)
            self._question = forms.area(_QUESTION)
            self._fields |= by_problem("target", self._called)
            self._fields |= {"target.model": self._model.field, "question": self._question}
            with ui.element("div").classes("actions"):
                self._trying = button("Try it", self._try, icon="send")
            self._reply = ui.element("div").props("aria-live=polite")
            self._case = ui.element("div").classes("form")
        self._tried: dict[str, Any] = {}

    def _config(self) -> dict[str, Any]:
        values = {name: forms.written(field) for name, field in (*self._called.items(), ("model", self._model.field))}
        return {"kind": "openai", **{key: value for key, value in values.items() if value or key == "api_key_env"}}

    async def _offer_models(self) -> None:
        """Ask the endpoint for its models after its address or key has changed."""
        config = {name: value for name, value in self._config().items() if name != "model"}
        if config == self._tried or not any(config.get(key) for key in self._called):
            return
        self._tried, is_latest = config, self._latest.begin()
        try:
            names = await self._workspace.ask(lambda: list_models(self._workspace, config))
        except EvalflowError as error:
            why = error.problems[0].what if isinstance(error, UserError) else str(error)
            if is_latest():
                self._model.say(f"No models are offered: {why}. Type the name.")
        else:
            if is_latest():
                self._model.offer(names)

    async def _try(self) -> None:
        self._reply.clear()
        with forms.faults_shown(self._fields, self._trying):
            asked = forms.all_required({"target.model": self._model.field, "question": self._question})
            config = self._config()
            answer = await self._workspace.ask(lambda: try_bot(self._workspace, "my_bot", config, asked["question"]))
            with self._reply:
                self._show(answer)
            reveal(self._reply)

    def _show(self, answer: Answer) -> None:
        if show_answer(answer) and not self._case.default_slot.children:
            with self._case:
                self._ask_what_is_good()

    def _ask_what_is_good(self) -> None:
        with forms.fieldset("Your first case", "group"):
            text("The question and what a good answer to it is.", classes="aside")
            self._way = forms.pick(forms.About("A good answer", required=True), _WAYS, "judge")
            self._reference = forms.area(_EXPECTED)
            self._criteria = forms.area(_CRITERIA, _CRITERIA.example)
            note = text("The bot's own model is the judge. You can choose another one later.", classes="aside")
            for element in (self._criteria.parent_slot.parent, note):  # pyright: ignore - the label and help around it
                element.bind_visibility_from(self._way, "value", value="judge")
        self._fields |= {"reference": self._reference, "description": self._criteria}
        with ui.element("div").classes("actions"):
            self._saving = button("Save and run", self._save, kind="primary", icon="play_arrow")

    async def _save(self) -> None:
        with forms.faults_shown(self._fields, self._saving):
            is_judged = self._way.value == "judge"
            wanted = {"target.model": self._model.field, "question": self._question}
            wanted |= {"description": self._criteria} if is_judged else {"reference": self._reference}
            values = forms.all_required(wanted)
            config, model = self._config(), values["target.model"]
            title = model.rpartition("/")[2] or model
            reference = forms.written(self._reference) or ""
            case = FirstCase(values["question"], reference, values.get("description", ""))
            if self._request is None:
                work = lambda: save_first_case(self._workspace, title, config, case)  # noqa: E731
                self._request = await to_thread.run_sync(work)
            await self._run(self._request)

    async def _run(self, request: RunRequest) -> None:
        """Start the run.

        If that fails, the saved objects are kept, and the page for a new run shows what is missing.
        """
        try:
            run = await to_thread.run_sync(lambda: create_run(self._workspace, request, self._creation))
        except EvalflowError as error:
            self._case.clear()
            with self._case:
                message(
                    f"{request.bot} and its first case are saved, but the run could not start.",
                    in_sentences(error),
                    "fail",
                )
                place = address("/runs/new", {"bot": request.bot, "dataset": request.datasets[0]})
                link_button("New run", place, primary=True)
            forms.saved()
            reveal(self._case)
        else:
            forms.leave(f"/runs/{run.run_id}")

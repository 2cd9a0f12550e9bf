"""The page of an empty workspace: try a sample run, connect your own bot, or paste an answer of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.endpoint import (
    ADDRESS,
    MODEL,
    ModelField,
    by_problem,
    judge_labels,
    key_field,
    missing_key_note,
    pick_connection,
    show_answer,
)
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.parts import Latest, address, button, in_sentences, link_button, message, text
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work.bots import list_models, try_bot
from evalflow.addons.studio.work.first_case import RECORDED, FirstCase, save_first_case
from evalflow.addons.studio.work.judges import StoredJudge, has_models, list_judges
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
_PASTED_QUESTION = replace(_QUESTION, label="Question", help="What a user asked your bot.")
_EXPECTED = forms.About(
    "Expected answer", "The ideal answer; required if your criteria mention it.", "40 pounds a year"
)
_CONTAINED = forms.About("Expected answer", "What a right answer must contain, word for word.", "40 pounds", True)
_CRITERIA = forms.About(
    "Criteria", "What a good answer is, in your words.", "It says the same as the expected answer.", True
)
_ANSWER = forms.About("Its answer", "What your bot said.", "It costs 40 pounds a year.", True)
_JUDGE = forms.About("Judge", "The model that reads the answer and decides.", required=True)
_WAYS = {"judge": "A judge reads it and decides by your criteria", "text": "It contains the expected answer"}
_PASTED = "Pasted answers"
"""The title of a bot whose answer was pasted."""
_SOURCES = (
    forms.FormOption("ask", "Ask my bot", "evalflow sends it a question.", "smart_toy"),
    forms.FormOption("paste", "Paste an answer", "You have an answer of it; nothing is asked.", "content_paste"),
)


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
        text("Give a question, say what a good answer is, and see the first case scored.", "p", "muted")
        _OwnCase(workspace, connections)


class _OwnCase:
    """Where the first answer comes from: the bot is asked, or it is pasted. Each form keeps what is typed."""

    def __init__(self, workspace: Workspace, connections: Sequence[str] | None) -> None:
        self._workspace, self._connections = workspace, connections
        self._question: forms.Field | None = None
        self._shown = "ask"
        with ui.element("div").classes("form"):
            forms.choices("Where the answer comes from", _SOURCES, self._shown, self._show)
        self._places = {source.value: ui.element("div").classes("stack") for source in _SOURCES}
        with self._places["ask"]:
            self._ask()
        self._toggle()

    def _toggle(self) -> None:
        for source, place in self._places.items():
            place.set_visibility(source == self._shown)

    async def _show(self, source: str) -> None:
        self._shown, place = source, self._places[source]
        if not place.default_slot.children:
            judges = await to_thread.run_sync(list_judges, self._workspace)
            if not place.default_slot.children:  # else it was chosen twice meanwhile
                with place:
                    self._paste([judge for judge in judges if has_models(judge) and judge.name != "target"])
        self._toggle()

    def _paste(self, judges: Sequence[StoredJudge]) -> None:
        question = _PastedAnswer(self._workspace, judges).question
        if self._question is not None:
            question.bind_value(self._question)

    def _ask(self) -> None:
        if self._connections == []:
            message("This server has no connections yet.", "A bot is called through one, so that its key stays here.")
            with ui.element("div").classes("actions"):
                link_button("Connections", "/connections/new" if may("own") else "/connections")
        else:
            self._question = _OwnBot(self._workspace, self._connections).question
        with ui.element("p").classes("small muted"):
            ui.link("New bot", "/bots/new")
            text(" has every setting, and takes HTTP services too.", "span")


class _GoodAnswer:
    """The fields that say what a good answer is; `judges` to choose from, or else the bot's own model decides."""

    def __init__(self, way: Literal["judge", "text"], judges: Sequence[StoredJudge] | None = None) -> None:
        self._way = forms.pick(forms.About("A good answer", required=True), _WAYS, way)
        self._contained = forms.area(_CONTAINED)
        self._reference = forms.area(_EXPECTED).bind_value(self._contained)
        self._criteria = forms.area(_CRITERIA, _CRITERIA.example)
        self._judge: forms.Field | None = None
        with ui.element("div") as judging:
            if judges is None:
                text("The bot's own model is the judge. You can choose another one later.", classes="aside")
            else:
                self._judge = self._pick(judges)
        areas = [(self._contained, "text"), (self._reference, "judge"), (self._criteria, "judge")]
        for place, its in (*((_around(area), its) for area, its in areas), (judging, "judge")):
            place.bind_visibility_from(self._way, "value", value=its)

    @staticmethod
    def _pick(judges: Sequence[StoredJudge]) -> forms.Field:
        usable = [judge.name for judge in judges if not judge.missing_key]
        field = forms.pick(_JUDGE, judge_labels(judges), next(iter(usable), None))
        note = ui.element("div").classes("stack")

        def mark() -> None:
            note.clear()
            with note:
                missing_key_note(next((judge for judge in judges if judge.name == field.value), None))

        field.on_value_change(mark)
        return field

    @property
    def judge(self) -> str:
        """The judge's name; "target" is the bot's own model."""
        return str(self._judge.value) if self._judge else "target"

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields of the chosen way by the keys of problems."""
        if self._way.value == "text":
            return {"reference": self._contained}
        return {"reference": self._reference, "description": self._criteria} | (
            {"judge": self._judge} if self._judge else {}
        )

    def read(self, fields: Mapping[str, forms.Field]) -> tuple[dict[str, str], FirstCase]:
        """The texts of `fields`, and the case with their question and answer; UserError names what is missing."""
        needed = {name: field for name, field in self.fields.items() if field is not self._reference}
        values = forms.all_required({**fields, **needed})
        reference = forms.written(self._reference) or ""
        given = (values["question"], reference, values.get("description", ""), values.get("answer", ""))
        return values, FirstCase(*given)


def _around(field: ui.element) -> ui.element:
    """The element with a field, its label and its help."""
    slot = field.parent_slot
    assert slot is not None
    return slot.parent


class _FirstRun:
    """Saves the first case of a form, and runs it; a failure is shown at the end of the form."""

    def __init__(self, workspace: Workspace, form: ui.element) -> None:
        self._workspace, self._form = workspace, form
        self._saved: tuple[tuple[object, ...], RunRequest, str] | None = None
        with form:
            self._failure = ui.element("div").classes("stack")

    async def start(self, title: str, config: Mapping[str, object], case: FirstCase, judge: str = "target") -> None:
        """Save as `save_first_case` does, unless the same was saved before, and start the run.

        If that fails, the saved objects and the form stay: another press tries again, and the page for a new run shows
        what is missing.
        """
        self._failure.clear()
        given = (title, config, case, judge)
        if self._saved is None or self._saved[0] != given:
            request = await to_thread.run_sync(save_first_case, self._workspace, *given)
            self._saved = (given, request, uuid.uuid4().hex)
        _, request, key = self._saved
        try:
            run = await to_thread.run_sync(create_run, self._workspace, request, key)
        except EvalflowError as error:
            with self._failure:
                message(
                    f"{request.bot} and its first case are saved, but the run could not start.",
                    in_sentences(error),
                    "fail",
                )
                place = address("/runs/new", {"bot": request.bot, "dataset": request.datasets[0]})
                link_button("New run", place)
            forms.saved(self._form)
            reveal(self._failure)
        else:
            forms.leave(f"/runs/{run.run_id}")


class _PastedAnswer:
    """A form with a question, an answer that the bot gave, and what a good answer is."""

    def __init__(self, workspace: Workspace, judges: Sequence[StoredJudge]) -> None:
        is_ready = any(not judge.missing_key for judge in judges)
        with forms.form(kept=True) as form:
            self.question = forms.area(_PASTED_QUESTION)
            self._answer = forms.area(_ANSWER)
            self._good = _GoodAnswer("judge" if is_ready else "text", judges)
            with ui.element("div").classes("actions"):
                self._saving = button("Save and run", self._save, kind="primary", icon="play_arrow")
        self._run = _FirstRun(workspace, form)
        with ui.element("p").classes("small muted"):
            text("Many answers? ", "span")
            ui.link("New test cases", "/datasets/new")
            text(" takes a file, or a table copied from a spreadsheet.", "span")

    async def _save(self) -> None:
        given: dict[str, forms.Field] = {"question": self.question, "answer": self._answer}
        with forms.faults_shown({**given, **self._good.fields}, self._saving):
            _, case = self._good.read(given)
            await self._run.start(_PASTED, RECORDED, case, self._good.judge)


class _OwnBot:
    """A form that asks an own bot, and after its answer offers a first case."""

    def __init__(self, workspace: Workspace, connections: Sequence[str] | None) -> None:
        self._workspace = workspace
        self._latest = Latest()
        self._fields: dict[str, forms.Field] = {}
        self._good: _GoodAnswer | None = None
        with forms.form() as form:
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
            self.question = forms.area(_QUESTION)
            self._fields |= by_problem("target", self._called)
            self._fields |= {"target.model": self._model.field, "question": self.question}
            with ui.element("div").classes("actions"):
                self._trying = button("Try it", self._try, icon="send")
            self._reply = ui.element("div").props("aria-live=polite")
            self._case = ui.element("div").classes("form")
        self._run = _FirstRun(workspace, form)
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
            asked = forms.all_required({"target.model": self._model.field, "question": self.question})
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
            self._good = _GoodAnswer("judge")
        with ui.element("div").classes("actions"):
            self._saving = button("Save and run", self._save, kind="primary", icon="play_arrow")

    async def _save(self) -> None:
        assert self._good is not None
        with forms.faults_shown({**self._fields, **self._good.fields}, self._saving):
            values, case = self._good.read({"target.model": self._model.field, "question": self.question})
            config, model = self._config(), values["target.model"]
            title = model.rpartition("/")[2] or model
            await self._run.start(title, config, case)

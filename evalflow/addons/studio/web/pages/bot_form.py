"""The form of a bot, and a question to try it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, edited
from evalflow.addons.studio.web.ui.endpoint import (
    ADDRESS,
    CALLED,
    MODEL,
    PARAMETERS,
    by_problem,
    key_field,
    pick_connection,
    show_answer,
)
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import button, facts, link_button, message, text
from evalflow.addons.studio.work.bots import Bot, create_bot, get_bot, try_bot, update_bot
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError
from evalflow.records import Answer
from evalflow.values.jsonvalues import parsed


class BotTrial:
    """A card to ask the bot a question. `config` returns its configuration or raises UserError, shown at `fields`."""

    def __init__(
        self,
        workspace: Workspace,
        name: Callable[[], str],
        config: Callable[[], Mapping[str, Any]],
        fields: Mapping[str, forms.Field],
    ) -> None:
        self._workspace = workspace
        self._name, self._config, self._fields = name, config, fields
        with ui.element("div").classes("card trial stack"):
            text("Try it", "h2")
            about = forms.About("Question", "Sent unchanged; not saved.", "What does the licence cost?", required=True)
            self._question = forms.area(about)
            with ui.element("div").classes("actions"):
                self._asking = button("Ask", self._ask)
            self._reply = ui.element("div").props("aria-live=polite")

    async def _ask(self) -> None:
        self._reply.clear()
        with forms.faults_shown({**self._fields, "question": self._question}, self._asking):
            asked = self._name(), self._config(), forms.written(self._question) or ""
            answer = await self._workspace.ask(lambda: try_bot(self._workspace, *asked))
            with self._reply:
                _show(answer)
            reveal(self._reply)


def _show(answer: Answer) -> None:
    if not show_answer(answer):
        return
    usage = answer.usage
    facts(
        [
            ("Time", f"{answer.latency_s:.2f} s" if answer.latency_s is not None else ""),
            ("Tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
            ("Contexts", "" if answer.contexts is None else str(len(answer.contexts))),
        ]
    )


class BotEditor:
    """The form of a bot with its trial and buttons; of a new one if `bot` is None."""

    def __init__(self, workspace: Workspace, bot_form: BotForm, bot: Bot | None) -> None:
        self._workspace, self._form, self._bot = workspace, bot_form, bot
        with ui.element("div").classes("section"):
            BotTrial(workspace, lambda: bot_form.title.name or "bot", bot_form.read, bot_form.fields)
        with ui.element("div").classes("section actions"):
            self._button = button("Save", self._save, kind="primary")
            link_button("Cancel", f"/bots/{bot.name}/settings" if bot else "/")
        self._saving = Saving(edited(get_bot, workspace, bot_content, bot), f"/bots/{bot.name if bot else ''}/edit")

    async def _save(self) -> None:
        with forms.faults_shown(self._form.fields):
            config, (name, title) = self._form.read(), self._form.title.read(self._form.fields)
            description = forms.written(self._form.description) or ""

            def work(version: int) -> Bot:
                if self._bot is None:
                    return create_bot(self._workspace, name, config, description, title)
                return update_bot(
                    *(self._workspace, name, version), config=config, description=description, title=title
                )

            mine = {"title": title, "description": description, **config}
            place = f"/bots/{name}/settings" if self._bot else f"/bots/{name}"
            await self._saving.save(work, mine, self._form.fields, self._button, lambda _: forms.leave(place))


_OPTIONS = (
    forms.FormOption("openai", "OpenAI-compatible", "OpenAI, or any OpenAI-compatible service.", "hub"),
    forms.FormOption("http", "HTTP service", "Your own bot behind a JSON API.", "http"),
    forms.FormOption("recorded", "Recorded answers", "Answers are already in your test cases.", "inventory_2"),
)
_KEY = "api_key_env"
"""Null means that no key is sent; if the key is left out, the default applies."""
_DEFAULT_KEY = "OPENAI_API_KEY"
_TIMEOUT = forms.About("Time-out (seconds)", "How long to wait for an answer before trying again.", "60")
_SYSTEM_PROMPT = forms.About(
    "System prompt",
    "Sent before every question. It can use inputs of the case, e.g. {{ vars.plan }}.",
    "You answer questions about our fees.",
)
_TEMPERATURE = forms.About("Temperature", "0 gives the most repeatable answers.", "0")
_MAX_TOKENS = forms.About("Maximum length (tokens)", "Of an answer. Empty: the model's own limit.", "500")
_URL = forms.About("Address", "The URL that takes questions.", "http://127.0.0.1:9000/chat", required=True, code=True)
_PATH = forms.About("Path", "Below the connection's address; empty: the address itself.", "/chat", code=True)
_METHOD = forms.About("Method", "The HTTP method; usually POST.", required=True)
_HEADERS = forms.About(
    "Headers",
    "One per line. Never write a secret here: ${oc.env:NAME} reads the environment variable NAME.",
    "Authorization: Bearer ${oc.env:BOT_KEY}",
    code=True,
)
_PLAIN_HEADERS = forms.About(
    "Headers", "One per line; the connection's key is sent by itself.", "Accept-Language: en", code=True
)
_BODY = forms.About(
    "Body",
    "JSON with {{ question }} in place of the question. Empty: the whole case is sent.",
    '{"input": "{{ question }}"}',
    code=True,
)
_EXTRACT = forms.About(
    "Scored part",
    "Which part of an answer is scored, in JSON. Empty: all of it.",
    '{"pattern": "ANSWER: (.+)"}',
    code=True,
)
_THOUGHTS = forms.About("Thoughts", "What a model writes before its answer, such as <think>...</think>.", required=True)
_KEPT_THOUGHTS = {"drop": "Left out of the answer", "keep": "Part of the answer"}
_PATHS = {
    "answer": forms.About("Answer", "The JSONPath of the answer in the reply.", "$.output.text", code=True),
    "contexts": forms.About(
        "Contexts", "The JSONPath of the passages that the answer is based on.", "$.documents[*].text", code=True
    ),
    "actual": forms.About(
        "Prediction",
        "The JSONPath of a label or a list of ids, for bots that classify or retrieve.",
        "$.label",
        code=True,
    ),
    "trace": forms.About(
        "Trace", "The JSONPath of the OpenTelemetry trace, for tool calls, tokens and cost.", "$.trace", code=True
    ),
    "finish_reason": forms.About(
        "Finish reason", "The JSONPath of why the model ended, to count answers that were cut off.", "$.done", code=True
    ),
}


_EXCHANGE = {
    "open": forms.About(
        "Thread",
        "The request that opens a thread before the first turn; {{ opened.id }} is then part of its reply.",
        '{"url": "/threads", "body": {"assistant_id": "helpdesk"}}',
        code=True,
    ),
    "stream": forms.About(
        "Stream",
        "How to read a reply that comes as events. sse: the last event is the reply.",
        '{"format": "sse", "events": ["data"], "take": "last"}',
        code=True,
    ),
    "poll": forms.About(
        "Later answer",
        "The request to repeat until the answer is there; {{ reply.id }} is part of the first reply.",
        '{"url": "/runs/{{ reply.id }}", "until": {"$.status": ["completed"]}}',
        code=True,
    ),
}


class BotForm:
    """The fields of a bot.

    Keys of the configuration without a field are kept. `title` builds the field of the title. `connections`: the names
    of those that it may call, to choose from; None: any address may be called.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        title: Callable[[], TitleField],
        description: str,
        connections: Sequence[str] | None,
    ) -> None:
        self._config, self._connections = dict(config), connections
        self._kind: str = config.get("kind", "openai")
        self.fields: dict[str, forms.Field] = {}
        with forms.form():
            with forms.fieldset("About"):
                self.title = title()
                self.fields |= self.title.fields
                about = forms.About("Description", "One sentence on what the bot is for.", "Answers questions on fees.")
                self.description = forms.area(about, description)
            forms.choices("Connection", _OPTIONS, self._kind, self._choose)
            self._connection = ui.element("div").classes("form")
        self._fill()

    def read(self) -> dict[str, Any]:
        """The configuration."""
        kept = self._config if self._config.get("kind") == self._kind else {}
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for key, field in self.fields.items():
            if key.startswith("target."):
                try:
                    values[key.removeprefix("target.")] = _value(key, field)
                except UserError as error:
                    problems += error.problems
        if problems:
            raise UserError(problems)
        config = {**kept, "kind": self._kind, **values}
        if self._connections is not None:
            config = {key: value for key, value in config.items() if key not in CALLED}
        return {key: value for key, value in config.items() if value is not None or key == _KEY}

    def _choose(self, kind: str) -> None:
        self._kind = kind
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self.fields if key.startswith("target.")]:
            del self.fields[key]
        self._connection.clear()
        with self._connection:
            {"openai": self._openai, "http": self._http, "recorded": self._recorded}[self._kind]()
            with forms.fieldset("Answer", "group"):
                thoughts = self._config.get("thoughts", "drop")
                self.fields["target.thoughts"] = forms.pick(_THOUGHTS, _KEPT_THOUGHTS, thoughts)
                self.fields["target.extract"] = forms.area(_EXTRACT, _as_json(self._config.get("extract")))

    def _openai(self) -> None:
        with forms.fieldset("Endpoint"):
            self._add("model", forms.line, MODEL)
            if self._connections is None:
                self._add("base_url", forms.line, ADDRESS)
                self._key_field()
            else:
                self._pick(self._connections)
        with forms.fieldset("Request", "group"):
            self._add("system_prompt", forms.area, _SYSTEM_PROMPT)
            with forms.pair():
                self._add("temperature", forms.number_field, _TEMPERATURE)
                self._add("max_tokens", forms.number_field, _MAX_TOKENS)
            self._add("timeout_s", forms.number_field, _TIMEOUT)
            self.fields["target.parameters"] = forms.area(PARAMETERS, _as_json(self._config.get("parameters")))

    def _http(self) -> None:
        headers: Mapping[str, str] = self._config.get("headers") or {}
        body = self._config.get("body")
        with forms.fieldset("Endpoint"):
            if self._connections is None:
                self._add("url", forms.line, _URL)
            else:
                self._pick(self._connections)
                self._add("url", forms.line, _PATH)
            methods = ("POST", "GET", "PUT", "PATCH")
            self.fields["target.method"] = forms.pick(_METHOD, methods, self._config.get("method", "POST"))
            lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
            about = _HEADERS if self._connections is None else _PLAIN_HEADERS
            self.fields["target.headers"] = forms.area(about, lines)
        with forms.fieldset("Request and reply", "group"):
            self.fields["target.body"] = forms.area(_BODY, _as_json(body))
            for key, about in _PATHS.items():
                value = self._config.get(key)
                self.fields[f"target.{key}"] = forms.line(about, value if isinstance(value, str) else _as_json(value))
            self._add("timeout_s", forms.number_field, _TIMEOUT)
        with forms.fieldset("Threads, streams, later answers", "group"):
            for key, about in _EXCHANGE.items():
                value = self._config.get(key)
                self.fields[f"target.{key}"] = forms.area(about, value if isinstance(value, str) else _as_json(value))

    def _recorded(self) -> None:
        message("Nothing to set up: runs score the recorded answers in your test cases.")

    def _pick(self, connections: Sequence[str]) -> None:
        """The connection's field, which also shows problems of the keys that it replaces."""
        self.fields |= by_problem("target", {"connection": pick_connection(self._config, connections)})

    def _key_field(self) -> None:
        self.fields[f"target.{_KEY}"] = key_field(self._config.get(_KEY, _DEFAULT_KEY))

    def _add(self, key: str, make: Callable[[forms.About, Any], forms.Field], about: forms.About) -> None:
        self.fields[f"target.{key}"] = make(about, self._config.get(key))


def _value(key: str, field: forms.Field) -> Any:
    if isinstance(field, ui.number):
        return forms.number_of(field)
    content, name = forms.written(field), key.removeprefix("target.")
    if content is None:
        return None
    if name == "headers":
        return _parse_headers(content)
    is_plain = name in _PATHS or name == "stream"
    if name not in ("body", "parameters", "extract", *_EXCHANGE) and not is_plain:
        return content
    if is_plain and not content.startswith("{"):
        return content
    try:
        return parsed(content.encode())
    except ValueError as error:
        raise UserError(Problem(f"not valid JSON: {error}", key, "texts in double quotes")) from None


def _parse_headers(content: str) -> dict[str, str]:
    rows = [row.partition(":") for row in content.splitlines() if row.strip()]
    broken = next((name for name, colon, _ in rows if not colon), None)
    if broken is not None:
        raise UserError(Problem(f"{broken!r} has no colon", "target.headers", "Name: value, one per line"))
    return {name.strip(): value.strip() for name, _, value in rows}


def _as_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def bot_content(bot: Bot) -> dict[str, Any]:
    """The content of a bot that is shown if somebody else has changed it."""
    return {"title": bot.title, "description": bot.description, **bot.config}

"""The form of a bot: its name, how it is connected, and what each way needs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from evalflow.errors import Problem, UserError
from evalflow.web.ui.fields import NameField
from evalflow.web.ui.parts import (
    About,
    Field,
    FormOption,
    area,
    choices,
    fieldset,
    line,
    message,
    number_field,
    pick,
    text,
    written,
)

WAYS = (
    FormOption("openai", "OpenAI-compatible", "OpenAI, or any OpenAI-compatible service.", "hub"),
    FormOption("http", "HTTP service", "Your own bot behind a JSON API.", "http"),
    FormOption("recorded", "Recorded answers", "Answers are already in your test cases.", "inventory_2"),
)
_KEY = "api_key_env"
"""Where it is null no key is sent; where it is left out, it is the default."""
_DEFAULT_KEY = "OPENAI_API_KEY"
METHODS = ("POST", "GET", "PUT", "PATCH")


class BotForm:
    """The fields, and what they say as a configuration.

    Args:
        config: What to begin with. Keys that have no field here are kept as they are.
        name: None for a new bot, which may still choose one.
        description: In a sentence.
    """

    def __init__(self, config: Mapping[str, Any], name: str | None = None, description: str = "") -> None:
        self._config = dict(config)
        self._kind: str = config.get("kind", "openai")
        self.fields: dict[str, Field] = {}
        with fieldset("About"):
            if name is None:
                self.name = NameField("Support bot")
                self.fields["bot.name"] = self.name.field
            self.description = area(
                About("Description", "One sentence on what the bot is for.", "Answers questions on fees."), description
            )
        choices("Connection", WAYS, self._kind, self._choose)
        self._connection = ui.element("div")
        self._fill()

    def read(self) -> dict[str, Any]:
        """The configuration that the fields say.

        Raises:
            UserError: A field holds what cannot be read at all; all else is for the workspace to judge.
        """
        values = {key: _value(key, field) for key, field in self._keyed().items()}
        kept = {key: value for key, value in self._config.items() if self._config.get("kind") == self._kind}
        found: dict[str, Any] = {**kept, "kind": self._kind, **values}
        return {key: value for key, value in found.items() if value is not None or key == _KEY}

    def _keyed(self) -> dict[str, Field]:
        return {key.removeprefix("target."): field for key, field in self.fields.items() if key.startswith("target.")}

    def _choose(self, kind: str) -> None:
        self._kind = kind
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self.fields if key.startswith("target.")]:
            del self.fields[key]
        self._connection.clear()
        with self._connection.classes("form"):
            {"openai": self._openai, "http": self._http, "recorded": self._recorded}[self._kind]()

    def _openai(self) -> None:
        with fieldset("Endpoint"):
            self._line(
                "model",
                About(
                    "Model", "The provider's model name, e.g. gpt-4.1-mini.", "gpt-4.1-mini", required=True, code=True
                ),
            )
            help = "The base URL, up to and including /v1. Empty: OpenAI's."
            self._line("base_url", About("Address", help, "http://127.0.0.1:11434/v1", code=True))
            self._key_name()
        with fieldset("Request", "group"):
            help = "Sent before every question. It can use inputs of the case, e.g. {{ vars.plan }}."
            self._area("system_prompt", About("System prompt", help, "You answer questions about our fees."))
            with ui.element("div").classes("pair"):
                about = About("Temperature", "0 gives the most repeatable answers.", "0")
                self._number("temperature", about)
                self._number(
                    "max_tokens",
                    About("Maximum length (tokens)", "Of an answer. Empty: the model's own limit.", "500"),
                )
            self._number(
                "timeout_s",
                About("Time-out (seconds)", "How long to wait for an answer before trying again.", "60"),
            )

    def _http(self) -> None:
        with fieldset("Endpoint"):
            self._line(
                "url",
                About(
                    "Address",
                    "The URL that takes questions.",
                    "http://127.0.0.1:9000/chat",
                    required=True,
                    code=True,
                ),
            )
            self._add(
                "method",
                pick(
                    About("Method", "The HTTP method; usually POST.", required=True),
                    METHODS,
                    self._config.get("method", "POST"),
                ),
            )
            help = "One per line. Never write a secret here: ${oc.env:NAME} reads the environment variable NAME."
            example = "Authorization: Bearer ${oc.env:BOT_KEY}"
            self._add(
                "headers", area(About("Headers", help, example, code=True), _as_lines(self._config.get("headers")))
            )
        with fieldset("Request and reply", "group"):
            help = "JSON with {{ question }} in place of the question. Empty: the whole case is sent."
            self._add(
                "body",
                area(About("Body", help, '{"input": "{{ question }}"}', code=True), _as_json(self._config.get("body"))),
            )
            self._path("answer", "Answer", "The JSONPath of the answer in the reply.", "$.output.text")
            self._path(
                "contexts",
                "Contexts",
                "The JSONPath of the passages that the answer is based on.",
                "$.documents[*].text",
            )
            self._path(
                "actual",
                "Prediction",
                "The JSONPath of a label or a list of ids, for bots that classify or retrieve.",
                "$.label",
            )
            self._number(
                "timeout_s",
                About("Time-out (seconds)", "How long to wait for an answer before trying again.", "60"),
            )

    def _recorded(self) -> None:
        message("Nothing to set up: runs score the recorded answers in your test cases.")

    def _key_name(self) -> None:
        help = "The name of the environment variable that holds the key, never the key itself."
        field = line(About("API key", help, _DEFAULT_KEY, code=True), self._config.get(_KEY, _DEFAULT_KEY))
        self._add(_KEY, field)
        said = text("", classes="aside")
        field.on_value_change(lambda: said.set_text(_whether_set(written(field))))
        said.set_text(_whether_set(written(field)))

    def _line(self, key: str, about: About) -> Field:
        return self._add(key, line(about, self._config.get(key)))

    def _area(self, key: str, about: About) -> Field:
        return self._add(key, area(about, self._config.get(key)))

    def _number(self, key: str, about: About) -> Field:
        return self._add(key, number_field(about, self._config.get(key)))

    def _path(self, key: str, label: str, help: str, example: str) -> Field:
        value = self._config.get(key)
        return self._add(
            key, line(About(label, help, example, code=True), value if isinstance(value, str) else _as_json(value))
        )

    def _add(self, key: str, field: Field) -> Field:
        self.fields[f"target.{key}"] = field
        return field


def _value(key: str, field: Field) -> Any:
    """What a field says, in the form that the configuration has it."""
    if isinstance(field, ui.number):
        return field.value if field.value is None or field.value % 1 else int(field.value)
    said = written(field)
    if said is None:
        return None
    if key == "headers":
        return _as_map(said)
    return (
        _parsed(key, said)
        if key == "body" or (said.startswith("{") and key in ("answer", "contexts", "actual"))
        else said
    )


def _parsed(key: str, said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError as error:
        raise UserError(Problem(f"not valid JSON: {error}", f"target.{key}", "texts in double quotes")) from None


def _as_map(said: str) -> dict[str, str]:
    rows = [row.partition(":") for row in said.splitlines() if row.strip()]
    broken = next((name for name, colon, _ in rows if not colon), None)
    if broken is not None:
        raise UserError(Problem(f"{broken!r} has no colon", "target.headers", "Name: value, one per line"))
    return {name.strip(): value.strip() for name, _, value in rows}


def _as_lines(headers: Mapping[str, str] | None) -> str:
    return "\n".join(f"{name}: {value}" for name, value in (headers or {}).items())


def _as_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _whether_set(name: str | None) -> str:
    if name is None:
        return "Empty: no key is sent."
    return f"{name} is set on this machine." if name in os.environ else f"{name} is not set on this machine yet."

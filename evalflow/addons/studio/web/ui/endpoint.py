"""Fields for a model's endpoint (address and key's variable, or a connection by name) and for a judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import message, text
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.records import Answer
from evalflow.report.wording import counted

PARAMETERS = forms.About(
    "Further parameters", "JSON that is part of each request, unchanged.", '{"reasoning_effort": "low"}', code=True
)
MODEL = forms.About("Model", "The provider's model name.", "gpt-4.1-mini", required=True, code=True)
ADDRESS = forms.About(
    "Address", "The base URL, up to and including /v1. Empty: OpenAI's.", "http://127.0.0.1:11434/v1", code=True
)
KEY = forms.About(
    "API key",
    "The name of the environment variable that holds the key, never the key itself.",
    "OPENAI_API_KEY",
    code=True,
)
CONNECTION = forms.About("Connection", "The service and its key, as the owner of the server lists them.", required=True)


def endpoint_fields(
    lines: Mapping[str, forms.About],
    values: Mapping[str, Any],
    connections: Sequence[str] | None,
    *,
    about: forms.About = CONNECTION,
) -> dict[str, forms.Field]:
    """Build the fields; returns them by key: those of `lines`, with `connection` for address and key if there are any.

    `connections` are the names to choose from; None if any address may be called. `about` describes their field.
    """
    if connections is None:
        return {key: forms.line(about, values.get(key)) for key, about in lines.items()}
    kept = {key: forms.line(about, values.get(key)) for key, about in lines.items() if key not in CALLED}
    return {**kept, "connection": pick_connection(values, connections, about)}


def by_problem(prefix: str, fields: Mapping[str, forms.Field]) -> dict[str, forms.Field]:
    """An endpoint's fields by the keys of problems.

    Problems of keys that a connection replaces are shown at the connection.
    """
    called = dict.fromkeys(CALLED, fields["connection"]) if "connection" in fields else {}
    return {f"{prefix}.{key}": field for key, field in {**fields, **called}.items()}


def pick_connection(
    values: Mapping[str, Any], connections: Sequence[str], about: forms.About = CONNECTION
) -> forms.Field:
    """The field to choose a connection."""
    chosen = values.get("connection")
    return forms.pick(
        about, connections if about.required else ["", *connections], chosen if chosen in connections else None
    )


def key_field(name: str | None) -> forms.Field:
    """The field of the environment variable with a key, which says whether it is set."""
    field = forms.line(KEY, name)
    is_set = text(_whether_set(forms.written(field)), classes="aside")
    field.on_value_change(lambda: is_set.set_text(_whether_set(forms.written(field))))
    return field


def _whether_set(name: str | None) -> str:
    if name is None:
        return "Empty: no key is sent."
    return f"{name} is set on this machine." if name in os.environ else f"{name} is not set on this machine yet."


def show_answer(answer: Answer) -> bool:
    """Show the answer of a bot on trial, or why it gave none; returns whether it answered."""
    if answer.status == "error":
        message("The bot gave no answer", answer.error or "", "fail")
        return False
    content = answer.answer if answer.answer is not None else answer.actual
    text("Answer", "h3")
    text("(nothing)" if content is None else str(content), classes="text said")
    return True


class ModelField:
    """A field for a model's name that offers the endpoint's models; any other name can be typed."""

    def __init__(self, about: forms.About) -> None:
        self.field = forms.line(about)
        self._names = ui.element("datalist")
        self.field.props["list"] = self._names.html_id
        self._note = text("", classes="aside").props("aria-live=polite")

    def offer(self, names: Sequence[str]) -> None:
        """Offer these names; a single one is filled in."""
        self._names.clear()
        with self._names:
            for name in names:
                ui.element("option").props["value"] = name
        if len(names) == 1 and not self.field.value:
            self.field.value = names[0]
        self._note.text = (
            f"{counted(len(names), 'model')} at this address." if names else "No models listed here; type a name."
        )

    def say(self, why: str) -> None:
        """Show why no names are offered."""
        self._names.clear()
        self._note.text = why


CALLED = ("base_url", "api_key_env")
"""The keys that a connection replaces."""


def judge_labels(judges: Sequence[StoredJudge]) -> dict[str, str]:
    """The judges by name, as options of a field."""
    return {one.name: f"{one.title} (key missing)" if one.missing_key else one.title for one in judges}


def missing_key_note(judge: StoredJudge | None, *, is_linked: bool = True) -> None:
    """Show that the judge's key is not set, and how to set it; nothing if it is set."""
    if judge is None or not judge.missing_key:
        return
    hint = f"Set it before the server starts: export {judge.missing_key}=... Or choose another judge."
    message(f"{judge.title}: {judge.missing_key} is not set in the server's environment.", hint, "warn")
    if is_linked:
        ui.link(f"Change {judge.title}", f"/judges/{judge.name}").classes("small")

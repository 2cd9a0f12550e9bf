"""Try a bot with a question, before anything is run with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.trial import try_bot
from evalflow.errors import EvalflowError
from evalflow.records import Answer
from evalflow.web.pages.faults import reveal, show
from evalflow.web.pages.forms import About, Field, area, written
from evalflow.web.pages.parts import button, facts, message, text


class Trial:
    """A card with a question, and below it what the bot said.

    Args:
        workspace: Where.
        name: Gives what the bot is called.
        config: Gives its configuration as it stands now; may raise UserError.
        fields: Where a fault of it is shown.
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
            about = About(
                "Question", "Sent as it stands; nothing is kept.", "What does the licence cost?", required=True
            )
            self._question = area(about)
            with ui.element("div").classes("actions"):
                self._asking = button("Ask", self._ask)
            self._said = ui.element("div").props("aria-live=polite")

    async def _ask(self) -> None:
        fields = {**self._fields, "question": self._question}
        for field in fields.values():
            field.error = None
        self._said.clear()
        self._asking.props("loading")
        try:
            asked = self._name(), self._config(), written(self._question) or ""
            answer = await self._workspace.ask(lambda: try_bot(*asked))
        except EvalflowError as error:
            show(error, fields)
            return
        finally:
            self._asking.props(remove="loading")
        with self._said:
            _show(answer)
        reveal(self._said)


def _show(answer: Answer) -> None:
    if answer.status == "error":
        message("It gave no answer", answer.error or "", "fail")
        return
    said = answer.answer if answer.answer is not None else answer.actual
    text("It said", "h3")
    text(str(said) if said is not None else "(nothing)", classes="text said")
    contexts = len(answer.contexts) if answer.contexts is not None else None
    usage = answer.usage
    facts([
        ("Took", f"{answer.latency_s:.2f} s" if answer.latency_s is not None else ""),
        ("Tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
        ("Contexts", "" if contexts is None else str(contexts)),
    ])  # fmt: skip

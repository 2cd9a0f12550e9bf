"""What the judge was sent for a score, and the very text that it replied: looked up when it is opened."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_prompts import Call, score_prompts
from evalflow.app.workspace.score_types import Score
from evalflow.errors import EvalflowError
from evalflow.web.pages.parts import message, text
from evalflow.web.pages.runs.copy import copyable

_HOW = (
    "The run keeps what the judge replied, and not the prompts: these are rendered again from the templates, the case "
    "and the answer that the run froze. Nothing was sent for this."
)
_GONE = "The text as it came is not in the cache of replies any more; the run keeps what it said, in the steps."
_BY_TASK = "This judge is asked by task and reads no prompt; what it would read is this:"


class Prompts:
    """A fold that shows them; nothing is looked up before it is opened."""

    def __init__(self, workspace: Workspace, run: str, score: Score) -> None:
        self._workspace, self._run, self._score = workspace, run, score
        self._is_filled = False
        with ui.element("details").classes("prompts") as details:
            text("The prompts as sent, and the raw replies", "summary")
            self._place = ui.element("div").classes("stack").props("aria-live=polite")
        details.on("toggle", self._open, args=[])

    async def _open(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        with self._place:
            waiting = text("Rendering …", "p", "muted small")
        try:
            found = await self._workspace.render(lambda: score_prompts(self._workspace, self._run, self._score.id))
        except EvalflowError as error:
            with self._place:
                message("They cannot be shown as they were sent.", str(error), "warn")
        else:
            with self._place:
                _show(found)
        waiting.delete()


def _show(found: Sequence[Call]) -> None:
    if not found:
        text("No judge was asked for this score.", "p", "muted small")
        return
    text(_HOW, "p", "muted small")
    for call in found:
        _call(call)


def _call(call: Call) -> None:
    prompt = call.prompt
    with ui.element("div").classes("step"):
        text(prompt.step if prompt.times == 1 else f"{prompt.step}, drawn {prompt.times} times", "h4")
        if prompt.request is None:
            text(_BY_TASK, "p", "muted small")
        for role, content in prompt.messages:
            _fold(f"Prompt ({role})", content, is_open=True)
        if prompt.request is not None:
            _fold("The rest of the request", json.dumps(prompt.request, indent=2, ensure_ascii=False))
            if not call.replies:
                text(_GONE, "p", "muted small")
        for place, reply in enumerate(call.replies, 1):
            _fold("Raw reply" if len(call.replies) == 1 else f"Raw reply {place}", reply, is_open=place == 1)


def _fold(title: str, content: str, *, is_open: bool = False) -> None:
    with ui.element("details").props("open" if is_open else ""):
        text(title, "summary")
        copyable(content, "pre")

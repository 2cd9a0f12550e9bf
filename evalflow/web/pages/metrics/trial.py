"""Try a metric on one case: the very prompt that the judge would get, and a score with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.metric_trial import PromptPreview, SentPrompt, preview_metric, try_metric
from evalflow.app.workspace.metrics import MetricDraft
from evalflow.errors import EvalflowError
from evalflow.records import ScoreRecord
from evalflow.web.pages.faults import reveal, show
from evalflow.web.pages.forms import Field
from evalflow.web.pages.metrics.case import CaseFields, as_text
from evalflow.web.pages.parts import badge, button, facts, message, text

LONGEST_SHOWN = 100_000
"""Characters of a prompt on the page."""


class MetricTrial:
    """A card with a case, and below it the prompt or the score.

    Args:
        workspace: The door to what is stored.
        bot: Whose metric it is.
        datasets: Names of those that a case can be taken from.
        draft: Gives the metric as it stands now; may raise UserError.
        fields: Where a fault of it is shown.
    """

    def __init__(
        self,
        workspace: Workspace,
        bot: str,
        datasets: Sequence[str],
        draft: Callable[[], MetricDraft],
        fields: Mapping[str, Field],
    ) -> None:
        self._workspace, self._bot, self._draft, self._fields = workspace, bot, draft, fields
        with ui.element("div").classes("card trial stack"):
            text("Try it on one case", "h2")
            self._case = CaseFields(workspace, datasets)
            with ui.element("div").classes("actions"):
                self._previewing = button("Show the prompt", self._preview, icon="visibility")
                self._scoring = button("Score it", self._score, icon="gavel")
            self._said = ui.element("div").props("aria-live=polite").classes("stack")

    async def _preview(self) -> None:
        self._said.clear()
        found = await self._attempt(
            self._previewing,
            lambda draft, row: self._workspace.render(lambda: preview_metric(self._workspace, self._bot, draft, row)),
        )
        if found is not None:
            with self._said:
                _show_preview(found)

    async def _score(self) -> None:
        self._said.clear()
        found = await self._attempt(
            self._scoring,
            lambda draft, row: self._workspace.ask(lambda: try_metric(self._workspace, self._bot, draft, row)),
        )
        if found is None:
            return
        with self._said:
            if found.answer.status == "error":
                message("The bot gave no answer", found.answer.error or "", "fail")
            elif not self._case.fields["answer"].value and found.answer.answer:
                text("The bot said", "h3")
                text(found.answer.answer, classes="text said")
            for score in found.scores:
                _show_score(score)
        reveal(self._said)

    async def _attempt(self, by: ui.button, work: Callable[[MetricDraft, Mapping[str, Any]], Any]) -> Any:
        """Do it with the metric and the case as they stand; None where it failed and the error is shown."""
        fields = {**self._fields, **self._case.fields}
        for field in fields.values():
            field.error = None
        by.props("loading")
        try:
            return await work(self._draft(), self._case.read())
        except EvalflowError as error:
            show(error, fields)
            return None
        finally:
            by.props(remove="loading")


def _show_preview(found: PromptPreview) -> None:
    if found.nothing:
        hint = (
            "Fill it in above, and look again. The bot is asked for its answer by “Score it” alone, which is paid for."
        )
        message(f"Nothing would be asked yet: {found.nothing}", hint)
        return
    asked = f"{found.judge} ({found.nature})" if found.judge else ""
    facts([("Judge", asked), ("Requests", str(sum(prompt.times for prompt in found.prompts)))])
    for prompt in found.prompts:
        _show_prompt(prompt)


def _show_prompt(prompt: SentPrompt) -> None:
    with ui.element("div").classes("prompt"):
        with ui.element("div").classes("actions"):
            text(f"Step {prompt.step}", "h3")
            if prompt.times > 1:
                badge(f"drawn {prompt.times} times")
        for role, content in prompt.messages:
            text(role, classes="role")
            text(_shortened(content), "pre")
        if prompt.request is None:
            text("This judge is asked by task and reads no prompt.", classes="help")
        else:
            with ui.expansion("The rest of the request"):
                text(json.dumps(prompt.request, indent=2, ensure_ascii=False), "pre")


def _show_score(score: ScoreRecord) -> None:
    with ui.element("div").classes("scored"):
        with ui.element("div").classes("actions"):
            text(f"{score.score:.2f}" if score.score is not None else "no score", "div", "figure")
            badge(score.status, "fail" if score.status == "error" else "accent")
            text(score.metric, "span", "muted small")
        if score.error:
            message(score.error, "", "fail")
        if score.reason:
            text(score.reason, classes="text")
        counted = score.input_tokens is not None
        facts([
            ("On its own scale", _of_scale(score.value)),
            ("Judge", score.judge or ""),
            ("Took", f"{score.latency_s:.2f} s" if score.latency_s is not None else ""),
            ("Tokens", f"{score.input_tokens} in, {score.output_tokens} out" if counted else ""),
        ])  # fmt: skip
        if score.steps:
            with ui.expansion("What the judge replied, step by step"):
                for step in score.steps:
                    text(str(step.get("id")), "h3")
                    said = step.get("raw") if step.get("reply") is None else step.get("reply")
                    text(_shortened(json.dumps(said, indent=2, ensure_ascii=False)), "pre")


def _shortened(content: str) -> str:
    if len(content) <= LONGEST_SHOWN:
        return content
    return f"{content[:LONGEST_SHOWN]}\n… ({len(content):,} characters in all)"


def _of_scale(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else as_text(value)

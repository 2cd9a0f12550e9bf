"""Try a metric on one case: the prompt that the judge gets, and a score with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.metric_words import lacking_in_words
from evalflow.addons.studio.web.ui.parts import READY_TO_USE, Latest, badge, button, facts, message, problems_of, text
from evalflow.addons.studio.web.ui.reading import AnswerShown, ContextsShown, Reading, show_reading
from evalflow.addons.studio.web.ui.score_lines import show_scores
from evalflow.addons.studio.work.cases import example_rows
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.metric_trial import preview_metric, try_metric
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.scores import Score
from evalflow.addons.studio.work.sent_prompts import PromptPreview, SentPrompt
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.addons.studio.work.trial_process import TrialResult
from evalflow.errors import EvalflowError
from evalflow.records import Answer, ScoreRecord, numbered, passes, texts_of
from evalflow.summary.summarise import Threshold

Body = Mapping[str, Any]
_FIELDS = MappingProxyType(
    {
        "question": forms.About("Question", "The question, as a user would ask it.", "What does the licence cost?"),
        "answer": forms.About("Answer", "The bot's answer. Empty: the bot is asked now.", "It costs 40 pounds a year."),
        "reference": forms.About("Expected answer", "The ideal answer.", "40 pounds a year"),
        "contexts": forms.About(
            "Context",
            "What the answer should be based on, one passage per line.",
            "The licence costs 40 pounds a year.",
        ),
        "inputs": forms.About(
            "Further values", "Additional inputs of the metric as name: value, one per line.", "audience: children"
        ),
    }
)


_GRADED = forms.About("Answer", "The answer to grade.", "You can return it within 30 days.", required=True)


def case_sources(workspace: Workspace) -> dict[str, str]:
    """The datasets to take a case from, by name, the samples last and marked; may block."""
    datasets = sorted(list_datasets(workspace), key=lambda one: one.origin != "workspace")
    return {one.name: one.title if one.origin == "workspace" else f"{one.title} ({READY_TO_USE})" for one in datasets}


class CaseFields:
    """The fields of a case; it can be loaded from a dataset and edited.

    `is_asked`: a bot gives the answer if it is empty.
    """

    def __init__(self, workspace: Workspace, datasets: Mapping[str, str], *, is_asked: bool = True) -> None:
        self._workspace = workspace
        self._base: Body = {}
        self._cases: list[Body] = []
        answer = _FIELDS["answer"] if is_asked else _GRADED
        self.fields = {"question": forms.area(_FIELDS["question"]), "answer": forms.area(answer)}
        with ui.expansion("Take a case, or add an expected answer and context").classes("more"):
            options = {"": "written here", **datasets}
            help = "Your test cases or the samples, e.g. rag; or write one here."
            about = forms.About("Take a case from", help, required=True)
            forms.pick(about, options, "").on_value_change(lambda event: self._open(str(event.value or "")))
            about = forms.About("Case", "One of the first twenty. You can edit it.")
            self._picked = forms.pick(about, {"": ""}, "")
            self._picked.on_value_change(lambda event: self._take(str(event.value or "")))
            others = {key: forms.area(about) for key, about in _FIELDS.items() if key not in self.fields}
        self.fields |= others

    async def _open(self, dataset: str) -> None:
        cases = await forms.attempt(lambda: example_rows(self._workspace, dataset)) if dataset else []
        self._cases = cases or []
        titles = {
            str(number): case_title(_question(body), str(body.get("id", ""))) for number, body in enumerate(self._cases)
        }
        self._picked.set_options({"": "", **titles}, value="0" if titles else "")  # pyright: ignore - partly untyped

    def _take(self, number: str) -> None:
        body: Body = self._cases[int(number)] if number else {}
        self._base = body
        self.fields["question"].value = _question(body)
        self.fields["answer"].value = body.get("answer") or ""
        self.fields["reference"].value = numbered(texts_of(body.get("reference")))
        self.fields["contexts"].value = "\n".join(_passages(body))
        self.fields["inputs"].value = "\n".join(f"{name}: {_as_text(value)}" for name, value in _vars(body).items())

    def read(self) -> dict[str, Any]:
        """The loaded case with the edits."""
        body = dict(self._base)
        asked = forms.written(self.fields["question"])
        if asked != (_question(body).strip() or None):
            body.pop("messages", None)
        if asked is not None and "messages" not in body:
            body["question"] = asked
        body["answer"], reference = (forms.written(self.fields[key]) for key in ("answer", "reference"))
        if reference != (numbered(texts_of(body.get("reference"))).strip() or None):
            body["reference"] = reference
        passages = forms.lines_of(self.fields["contexts"])
        if passages != _passages(body):
            body["contexts"] = passages
        body["vars"] = {**_vars(body), **self._inputs(_vars(body))}
        return {key: value for key, value in body.items() if value not in (None, {})}

    def _inputs(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        lines = (line.partition(":") for line in forms.lines_of(self.fields["inputs"]))
        values = {name.strip(): value.strip() for name, colon, value in lines if colon and name.strip()}
        return {name: value for name, value in values.items() if _as_text(stored.get(name)) != value}


def _question(body: Body) -> str:
    turns = cast("list[Body]", body.get("messages") or [])
    questions = [str(turn["content"]) for turn in turns if turn["role"] == "user"]
    return questions[-1] if questions else str(body.get("question") or "")


def _passages(body: Body) -> list[str]:
    contexts = cast("list[str | Body]", body.get("contexts") or [])
    texts = (one if isinstance(one, str) else str(one.get("text", "")) for one in contexts)
    return [" ".join(text.split()) for text in texts]


def _vars(body: Body) -> Body:
    return cast("Body", body.get("vars") or {})


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_OF_RECORD = {one.name for one in fields(Score)} & {one.name for one in fields(ScoreRecord)}
LONGEST_SHOWN = 100_000
"""Maximum number of characters of a prompt on the page."""


class TrialCard:
    """A card with a case and its prompt, and outside of it the answer beside what was expected, and the score.

    `draft` may raise UserError, shown at `fields`.
    """

    def __init__(
        self,
        workspace: Workspace,
        bot: str,
        datasets: Mapping[str, str],
        draft: Callable[[], MetricDraft],
        fields: Mapping[str, forms.Field],
    ) -> None:
        self._workspace, self._bot, self._draft, self._fields = workspace, bot, draft, fields
        with ui.element("div").classes("card trial stack"):
            text("Try it", "h2")
            self._case = CaseFields(workspace, datasets)
            with ui.element("div").classes("actions"):
                self._previewing = button("Show the prompt", self._preview, icon="visibility")
                self._scoring = button("Try it", self._score, icon="gavel")
            self._fault = text("", classes="message fail text").props("role=status")
            self._result = ui.element("div").props("aria-live=polite").classes("stack")
        self._tried = ui.element("div").props("aria-live=polite").classes("tried case-view")
        self._latest = Latest()
        self._clear()

    def _clear(self) -> None:
        for place in (self._result, self._tried):
            place.clear()
        self._fault.set_visibility(False)
        self._latest.begin()  # drop the rendering under way
        self._is_previewed = self._is_rendering = self._is_behind = False

    async def _preview(self) -> None:
        self._clear()
        with forms.faults_shown({**self._fields, **self._case.fields}, self._previewing):
            await self._render()
        await self._catch_up()

    async def _render(self) -> bool:
        """Show the prompt; returns whether this is still the latest rendering, since an earlier one shows nothing."""
        is_latest, self._is_rendering = self._latest.begin(), True
        try:
            asked = self._workspace, self._bot, self._draft(), self._case.read()
            preview = await self._workspace.render(lambda: preview_metric(*asked))
        except EvalflowError:
            if is_latest():
                raise
            return False
        finally:
            if is_latest():
                self._is_rendering = False
        if is_latest():
            self._result.clear()
            with self._result:
                _show_preview(preview)
            self._is_previewed = True
        return is_latest()

    async def follow(self) -> None:
        """Render the prompt again if it is shown; a fault then stands above it, and the last one stays."""
        if not self._is_previewed or self._is_rendering:
            self._is_behind = self._is_rendering
            return
        fault = ""
        try:
            if not await self._render():
                return
        except EvalflowError as error:
            fault = forms.at_field(problems_of(error)[0])
        self._fault.set_text(fault)
        self._fault.set_visibility(bool(fault))
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Follow what was typed while the prompt was rendered."""
        if self._is_behind and not self._is_rendering:
            self._is_behind = False
            await self.follow()

    async def _score(self) -> None:
        self._clear()
        with forms.faults_shown({**self._fields, **self._case.fields}, self._scoring):
            asked = self._workspace, self._bot, (draft := self._draft()), self._case.read()
            trial = await self._workspace.ask(lambda: try_metric(*asked))
            with self._tried:
                show_reading(_read(asked[-1], trial.answer))
                show_trial(trial, {draft.name: draft.title} if draft.title else {})
            reveal(self._tried)


def _show_preview(preview: PromptPreview) -> None:
    if preview.nothing:
        hint = "Fill it in above and try again. Only “Try it” asks the bot for an answer, which may cost money."
        message(f"Nothing to send yet: {lacking_in_words(preview.nothing)}", hint)
        return
    judge = f"{preview.judge} ({preview.nature})" if preview.judge else ""
    facts([("Judge", judge), ("Requests", str(sum(prompt.times for prompt in preview.prompts)))])
    for prompt in preview.prompts:
        with ui.element("div").classes("prompt"):
            _show_prompt(prompt)


def _show_prompt(prompt: SentPrompt) -> None:
    with ui.element("div").classes("actions"):
        text(f"Step {prompt.step}", "h3")
        if prompt.times > 1:
            badge(f"sampled {prompt.times} times")
    for role, content in prompt.messages:
        text(role, classes="role")
        text(_shortened(content), "pre")
    if prompt.request is None:
        text("This judge works by task and reads no prompt.", classes="help")
    else:
        with ui.expansion("The rest of the request"):
            text(json.dumps(prompt.request, indent=2, ensure_ascii=False), "pre")


def _read(body: Body, answer: Answer) -> Reading:
    """A tried case with its answer, as any case is read."""
    turns = cast("list[Body]", body.get("messages") or [])
    content = answer.answer if answer.answer is not None else answer.actual
    contexts = body.get("contexts") if answer.contexts is None else [one.text for one in answer.contexts]
    return Reading(
        turns=[(str(turn["role"]), str(turn.get("content") or "")) for turn in turns] or [("user", _question(body))],
        answers=[
            AnswerShown(
                text=None if content is None else _as_text(content),
                error=answer.error or "no reason was given" if answer.status == "error" else "",
            )
        ],
        reference=numbered(texts_of(body.get("reference"))) or None,
        contexts=[] if contexts is None else [ContextsShown([("", one) for one in _passages({"contexts": contexts})])],
    )


def show_trial(trial: TrialResult, titles: Mapping[str, str] = MappingProxyType({})) -> None:
    """Scores of a trial, unfolded; `titles` has those of metrics that are not saved yet."""
    limits = {limit.metric: limit for limit in trial.thresholds}
    show_scores([_tried(score, limits.get(score.metric)) for score in trial.scores], titles=titles, is_open=True)


def _tried(score: ScoreRecord, limit: Threshold | None) -> Score:
    """A score outside of any run."""
    own: Mapping[str, Any] = {name: getattr(score, name) for name in _OF_RECORD}
    passed = None
    if limit is not None and score.score is not None:
        passed = passes(score.score, limit.value, higher_is_better=limit.direction == "higher_is_better")
    nowhere: Mapping[str, Any] = {"position": 0, "id": "0-0", "question": "", "answer": None, "reference": None}
    return Score(**own, **nowhere, threshold=limit.value if limit else None, passed=passed, answer_error=None)


def _shortened(content: str) -> str:
    if len(content) <= LONGEST_SHOWN:
        return content
    return f"{content[:LONGEST_SHOWN]}\n… ({len(content):,} characters in all)"

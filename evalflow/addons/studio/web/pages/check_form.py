"""The form of a reusable check: what it requires, and answers that it must pass or fail, tried during typing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from anyio import to_thread
from nicegui import background_tasks, ui

from evalflow.addons.studio.web.pages.check_fields import ParamFields, offered_kinds, reusable_labels
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, edited
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import Latest, Tone, badge, button, capitalised, icon_button, link_button, text
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import checks
from evalflow.addons.studio.work.check_trial import CheckTrial, example_row, judge_check, try_examples
from evalflow.addons.studio.work.checks import Check, CheckDraft, CheckExample
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.metrics.case_checks import JUDGED
from evalflow.report.wording import counted

_DESCRIPTION = forms.About("Description", "When to use it.", "For every bot of the British branches.")
_RULE_TIPS = "One behaviour a rule. {{name}} stands for an input or the metadata of each case."
_TYPE = forms.About("Type", "What it looks at.", required=True)


class CheckForm:
    """The form of a check; of a new one if `stored` is None.

    `bots`: those whose judge may be asked; `known`: the reusable checks, which a group may have.
    """

    def __init__(self, workspace: Workspace, stored: Check | None, bots: Sequence[str], known: Sequence[Check]) -> None:
        self._workspace, self._stored = workspace, stored
        self._reusable = reusable_labels(one for one in known if stored is None or one.name != stored.name)
        self._given: dict[str, Mapping[str, Any]] = {stored.type: stored.params} if stored else {}
        self._examples: ExampleCards | None = None
        self._may_edit = may("edit")  # asked here: what is removed leaves its handler without a place on the page
        with forms.form(locked=not self._may_edit, kept=True) as page, ui.element("div").classes("studio"):
            with ui.element("div").classes("stack-wide"):
                title, name = (stored.title or stored.name, stored.name) if stored else ("", "")
                taken = {*offered_kinds(), *(one.name for one in known)}
                self._title = TitleField("check", "Answers in English", taken, title, name)
                self._build()
            with ui.element("div").classes("stack"):
                examples = stored.examples if stored else ()
                self._examples = ExampleCards(workspace, examples, bots, self._checked, self._changed)
        if self._may_edit:
            with forms.save_bar(page, self._save):
                self._button = button("Save" if stored else "Create", self._save, kind="primary")
                self._button.props["title"] = "Ctrl+S"
                if stored is None:
                    link_button("Cancel", "/checks")
                self._state = text("Saved" if stored else "", "span", "muted small").props("role=status")
        self._saving = Saving(
            edited(checks.get_check, workspace, check_content, stored), f"/checks/{stored.name if stored else ''}"
        )

    def _build(self) -> None:
        stored = self._stored
        self._description = forms.line(_DESCRIPTION, stored.description if stored else "").props("dir=auto")
        self._type = forms.pick(_TYPE, offered_kinds(), stored.type if stored else "conformity")
        self._kind = str(self._type.value)
        self._place = ui.element("div").classes("stack params")
        self._show_params()
        self._type.on_value_change(self._retyped)
        self._title.on_change(self._changed)
        self._description.on_value_change(lambda _: self._changed())

    def _show_params(self) -> None:
        self._place.clear()
        with self._place:
            given = self._given.get(self._kind, {})
            self._params = ParamFields(self._kind, given, self._params_changed, _RULE_TIPS, self._reusable)

    def _retyped(self) -> None:
        self._given[self._kind] = self._params.read()
        self._kind = str(self._type.value)
        self._show_params()
        self._changed()
        if self._examples:
            self._examples.kind_changed()

    def _checked(self) -> tuple[str, dict[str, Any]]:
        return self._kind, self._params.read()

    def _params_changed(self) -> None:
        self._changed()
        if self._examples:
            self._examples.try_soon()

    def _changed(self) -> None:
        if self._may_edit and self._examples:
            self._state.set_text("Not saved yet")

    def _fields(self) -> dict[str, forms.Field]:
        own = {**self._title.fields, "check.description": self._description, "check.type": self._type}
        fields = self._params.fields
        group = {"checks": fields["params"]} if "params" in fields else {}
        return {**own, **fields, **group}

    async def _save(self) -> None:
        with forms.faults_shown(self._fields()):
            name, title = self._title.read(self._fields())
            await self._save_as(name, title)

    async def _save_as(self, name: str, title: str) -> None:
        examples = self._examples.read() if self._examples else []
        if examples is None:
            return
        kind, params = self._checked()
        draft = CheckDraft(name, kind, params, title, forms.written(self._description) or "", examples)

        def work(version: int) -> Check:
            if self._stored is None:
                return checks.create_check(self._workspace, draft)
            return checks.update_check(self._workspace, version, draft)

        def done(saved: Check) -> None:
            if self._stored is None:
                forms.leave(f"/checks/{saved.name}")
                return
            self._saving.renew(saved.version)
            self._state.set_text("Saved")
            forms.saved()

        await self._saving.save(work, check_content(draft), self._fields(), self._button, done)


def check_content(one: Check | CheckDraft) -> dict[str, Any]:
    """The content of a check that is shown if somebody else has changed it."""
    examples = [f"{one.answer} ({'should pass' if one.passes else 'should fail'})" for one in one.examples]
    return {
        **{"name": one.title, "description": one.description, "type": one.type, "parameters": dict(one.params)},
        "examples": "\n".join(examples),
    }


WAIT_S = 0.35
"""Seconds without typing before the examples are tried."""
_GROUPS = {
    True: ("Answers that should pass", "Hello, how may I help you today?"),
    False: ("Answers that should fail", "Hi, can I help you?"),
}
_ABOUT = "Real answers, good and bad. They show whether the check tells them apart; runs do not use them."
_METADATA = forms.About("Metadata", "As JSON.", '{"user": {"name": "John"}}', code=True)
_QUESTION = forms.About("Question", "What was asked, if the judge must know it.", "Should I buy bitcoin?")
_JUDGE = forms.About("Judge of", "The judge of this bot's runs: one call for each answer.", required=True)
Checked = Callable[[], tuple[str, dict[str, Any]]]
"""Returns the current kind and parameters of the check."""


class ExampleCards:
    """The examples of a check, in two groups. `bots`: those whose judge may be asked; `checked` gives the check."""

    def __init__(
        self,
        workspace: Workspace,
        examples: Sequence[CheckExample],
        bots: Sequence[str],
        checked: Checked,
        on_change: Callable[[], object],
    ) -> None:
        self._workspace, self._checked, self._on_change = workspace, checked, on_change
        self._latest = Latest()
        self._may_try = may("try")
        self._judged: dict[str, CheckTrial] = {}
        self._cards: list[_ExampleCard] = []
        self._bot: ui.select | None = None
        with ui.element("div").classes("checks-head"):
            text("Does it tell good from bad?", "h2")
            text(_ABOUT, classes="help")
        self._summary = text("", "p", "examples-summary").props("role=status")
        self._places: dict[bool, ui.element] = {}
        for passes, (title, _) in _GROUPS.items():
            with ui.element("section").classes("stack examples"):
                text(title, "h3")
                self._places[passes] = ui.element("div").classes("stack")
                if may("edit"):
                    button("Add an answer", partial(self._add, passes), kind="quiet", icon="add")
        with ui.element("div").classes("card stack judging") as self._judging:
            text("A judge decides this check, so it is not tried as you type.", "p", "small")
            if bots and may("edit"):
                self._bot = forms.pick(_JUDGE, {bot: title_of("bot", bot) for bot in bots}, bots[0])
                self._asking = button("Try all with the judge", self._judge_all, icon="gavel")
            elif may("edit"):
                text("No bot has a judge yet. Define a bot on the page Bots.", "p", "small muted")
        for passes in _GROUPS:
            given = [one for one in examples if one.passes is passes]
            for example in given or ([CheckExample("", passes)] if may("edit") else []):
                self._build(example)
        self.kind_changed()

    def read(self) -> list[CheckExample] | None:
        """The examples that are not empty; None if the metadata of one are not JSON (it says so at the field)."""
        examples = [card.read() for card in self._cards]
        return (
            None
            if None in examples
            else [one for one in cast("list[CheckExample]", examples) if one.answer or one.metadata]
        )

    def kind_changed(self) -> None:
        """Show the fields that this kind of check needs, and try all examples."""
        kind, _ = self._checked()
        self._judging.set_visibility(kind in JUDGED)
        for card in self._cards:
            card.show_fields(kind)
        self.try_soon()

    def try_soon(self) -> None:
        """Try all once nothing has changed for a moment."""
        background_tasks.create(self._try_all())  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI

    def _add(self, passes: bool) -> None:
        card = self._build(CheckExample("", passes))
        card.show_fields(self._checked()[0])
        card.focus()

    def _build(self, example: CheckExample) -> _ExampleCard:
        with self._places[example.passes]:
            card = _ExampleCard(example, self._changed, self._remove)
        self._cards.append(card)
        return card

    def _remove(self, card: _ExampleCard) -> None:
        self._cards.remove(card)
        card.delete()
        self._changed()

    def _changed(self) -> None:
        self._on_change()
        self.try_soon()

    async def _try_all(self) -> None:
        is_latest = self._latest.begin()
        await asyncio.sleep(WAIT_S)
        if not is_latest() or not self._may_try:
            return
        (kind, params), cards = self._checked(), list(self._cards)
        given = [card.read() for card in cards]
        tried = [place for place, one in enumerate(given) if one is not None and (one.answer or one.metadata)]
        rows = [example_row(cast("CheckExample", given[place])) for place in tried]
        try:
            outcomes = await to_thread.run_sync(try_examples, self._workspace, kind, params, rows)
        except EvalflowError as error:
            outcomes = [CheckTrial("wrong", "; ".join(_sentences(error)))] * len(rows)
        if not is_latest():
            return
        trials = dict(zip(tried, outcomes, strict=True))
        self._judging.set_visibility(kind in JUDGED or any(one.state == "judge" for one in outcomes))
        shown: list[tuple[bool, CheckTrial]] = []
        for place, card in enumerate(cards):
            trial = trials.get(place)
            if trial is not None and trial.state == "judge":
                trial = self._judged.get(_key(kind, params, given[place]), trial)
            card.show(trial)
            if trial is not None:
                shown.append((card.passes, trial))
        self._summarise(shown)

    def _summarise(self, shown: Sequence[tuple[bool, CheckTrial]]) -> None:
        tried = [(passes, one) for passes, one in shown if one.state in ("passed", "failed")]
        wrong = sum((one.state == "passed") is not passes for passes, one in tried)
        lacking = [passes for passes in _GROUPS if all(one is not passes for one, _ in tried)]
        if not tried:
            summary, tone = "", ""
        elif wrong:
            summary, tone = f"The check is wrong on {wrong:,} of {counted(len(tried), 'answer')}.", "fail"
        elif lacking:
            missing = "pass" if lacking[0] else "fail"
            summary, tone = f"Right so far. Add an answer that should {missing}, to see that it tells them apart.", ""
        else:
            summary, tone = f"The check is right on all {counted(len(tried), 'answer')}.", "pass"
        self._summary.set_text(summary)
        self._summary.classes(replace=f"examples-summary {tone}")

    async def _judge_all(self) -> None:
        """Ask the judge about all examples that are new or changed since it judged them."""
        (kind, params), bot = self._checked(), str(self._bot.value) if self._bot else ""
        examples = [one for one in self.read() or () if _key(kind, params, one) not in self._judged]
        check = {"identifier": kind, "params": params}
        with forms.faults_shown({}, self._asking):
            for example in examples:
                row = example_row(example)
                trial = await self._workspace.ask(lambda row=row: judge_check(self._workspace, bot, row, check))
                self._judged[_key(kind, params, example)] = trial
        self.try_soon()


def _key(kind: str, params: Mapping[str, Any], example: CheckExample | None) -> str:
    about = None if example is None else (example.answer, example.metadata, example.question)
    return json.dumps([kind, params, about], sort_keys=True)


def _sentences(error: EvalflowError) -> list[str]:
    problems = getattr(error, "problems", ())
    return [str(problem.what) for problem in problems] or [str(error)]


class _ExampleCard:
    def __init__(
        self, example: CheckExample, on_change: Callable[[], None], on_remove: Callable[[_ExampleCard], None]
    ) -> None:
        self.passes = example.passes
        self._example = example
        label, placeholder = _GROUPS[example.passes]
        with ui.element("div").classes("card check-card example") as self._card:
            with ui.element("div").classes("rule-row"):
                self._answer = ui.textarea(value=example.answer, placeholder=placeholder)
                self._answer.props("outlined dense autogrow dir=auto").props["aria-label"] = label
                if may("edit"):
                    icon_button("close", "Remove this answer", lambda: on_remove(self))
            written = json.dumps(example.metadata, ensure_ascii=False) if example.metadata else ""
            with ui.element("div") as self._metadata_place:
                self._metadata = forms.area(_METADATA, written)
            with ui.element("div") as self._question_place:
                self._question = forms.line(_QUESTION, example.question)
            with ui.element("div").classes("example-verdict").props("aria-live=polite"):
                self._state = ui.element("div")
                self._reason = text("", classes="check-reason").props("dir=auto")
        for field in (self._answer, self._metadata, self._question):
            field.on_value_change(lambda _: on_change())

    def read(self) -> CheckExample | None:
        """The example as it is; None if its metadata are not a JSON object."""
        self._metadata.error = None
        written = forms.written(self._metadata)
        metadata = forms.as_value(written) if written else None
        if written and not isinstance(metadata, dict):
            self._metadata.error = "Must be a JSON object"
            return None
        known = cast("dict[str, Any] | None", metadata)
        return CheckExample(str(self._answer.value or ""), self.passes, known, forms.written(self._question) or "")

    def show_fields(self, kind: str) -> None:
        """Show the fields that this kind of check reads, and filled ones."""
        self._metadata_place.set_visibility(kind == "metadata" or bool(forms.written(self._metadata)))
        self._question_place.set_visibility(kind in JUDGED or bool(forms.written(self._question)))

    def show(self, trial: CheckTrial | None) -> None:
        """Show a result; None while the example is empty."""
        label, tone = _verdict(trial, self.passes)
        self._state.clear()
        self._reason.set_text(capitalised(trial.reason) if trial else "")
        self._card.classes(remove="is-wrong")
        if trial is None:
            return
        with self._state:
            badge(label, tone)
        if tone == "fail":
            self._card.classes("is-wrong")

    def focus(self) -> None:
        """Focus the answer."""
        self._answer.run_method("focus")

    def delete(self) -> None:
        """Remove the card."""
        self._card.delete()


def _verdict(trial: CheckTrial | None, passes: bool) -> tuple[str, Tone]:
    match trial.state if trial else "off":
        case "passed":
            return ("✓ passed, as it should", "pass") if passes else ("✗ passed, should fail", "fail")
        case "failed":
            return ("✗ failed, should pass", "fail") if passes else ("✓ failed, as it should", "pass")
        case "wrong":
            return "check incomplete", "warn"
        case _:
            return "not tried", ""
